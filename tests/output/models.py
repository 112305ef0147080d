"""Small tokenizers of every kind of decoder, made for these tests."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

EOS = "<|end|>"


def byte_level(words: tuple[str, ...] = ()) -> Tokenizer:
    """A token for every byte, in the order of the bytes' letters; then words; then EOS."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written = ["".join(part for part, _ in pre_tokenizer.pre_tokenize_str(w)) for w in words]
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: i for i, letter in enumerate([*letters, *written])}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(EOS, special=True)])
    # Ordinary added tokens: one that is no byte-level text, one that reads like it.
    tokenizer.add_tokens([AddedToken("<tool call>", special=False), AddedToken("é", special=False)])
    return tokenizer


WORDS = ["\u2581", "\u2581\u2581", "\u2581hello", "\u2581world", "lo", "w", *"é日.\ufffd"]
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
# Near misses: text, not bytes.
LOOKALIKES = ["<0xG0>", "<0x 1>", "<0x1>", "<0x\u0663\u0664>", "<0x41> "]


def _sentencepiece(decoder: object) -> Tokenizer:
    symbols = ["<unk>", *BYTE_TOKENS, *WORDS, *LOOKALIKES]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={symbol: i for i, symbol in enumerate(symbols)},
            merges=[],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.decoder = decoder  # type: ignore[assignment]
    tokenizer.add_special_tokens([AddedToken(EOS, special=True), AddedToken("<unk>", special=True)])
    tokenizer.add_tokens([AddedToken("[TOOL]", special=False)])
    return tokenizer


def byte_fallback(*, strip: bool) -> Tokenizer:
    """SentencePiece as Llama and Gemma have it."""
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    if strip:
        steps.append(decoders.Strip(" ", 1, 0))
    return _sentencepiece(decoders.Sequence(steps))


def metaspace_with_bytes() -> Tokenizer:
    """Byte fallback that needs the library: the space of the first word goes."""
    return _sentencepiece(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]))


def metaspace() -> Tokenizer:
    """SentencePiece as T5 has it."""
    return _sentencepiece(decoders.Metaspace())


def without_decoder() -> Tokenizer:
    """Tokens that the library joins with spaces."""
    return _sentencepiece(None)


def wordpiece() -> Tokenizer:
    """BERT: words joined with spaces, but for their endings and before punctuation."""
    symbols = ["[UNK]", "hello", "world", "##ly", "##s", ".", ",", "n't", "do", "'", "é", "日"]
    tokenizer = Tokenizer(
        models.WordPiece(vocab={symbol: i for i, symbol in enumerate(symbols)}, unk_token="[UNK]")
    )
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.add_special_tokens([AddedToken("[SEP]", special=True)])
    return tokenizer


def ids_of(tokenizer: Tokenizer, *symbols: str) -> list[int]:
    """The ids of symbols as the vocabulary writes them."""
    vocabulary = tokenizer.get_vocab()
    return [vocabulary[symbol] for symbol in symbols]


def byte_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Text as byte tokens, of a byte-level or a byte-fallback vocabulary."""
    if tokenizer.token_to_id("<0x00>") is not None:
        return ids_of(tokenizer, *(BYTE_TOKENS[byte] for byte in text.encode()))
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return ids_of(tokenizer, *(c for part, _ in pre_tokenizer.pre_tokenize_str(text) for c in part))
