"""How much text a token can stand for, so that what cannot fit is not tokenized at all.

Strategy: the bound must hold for every text, or a prompt would be refused that fits. It
is the length of the longest token where each character of a text ends up in some token:
the model is BPE, and nothing around it takes characters away. Unknown characters that
become one token, white space that is stripped or swallowed, words that are too long:
whatever could make much text one token, and whatever is not known here, means that
there is no bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import tokenizers

# What changes a text, and how many characters of it may become one. (Four that compose are
# the most that Unicode has.)
_NORMALIZERS = {"NFC": 4, "NFD": 1, "NFKD": 1, "ByteLevel": 1, "Prepend": 1}
_PRE_TOKENIZERS = frozenset(("ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"))


def longest_token(
    tokenizer: tokenizers.Tokenizer, vocabulary: Mapping[str, int] | None = None
) -> int | None:
    """The most characters of a text that one token can stand for; None if there is no bound.

    Args:
        tokenizer: The reference tokenizer, vocabulary and all.
        vocabulary: All its tokens, where the caller has them: getting them takes long.
    """
    if type(tokenizer.model) is not tokenizers.models.BPE:
        return None
    added = tokenizer.get_added_tokens_decoder().values()
    if any(token.lstrip or token.rstrip for token in added):
        return None
    parts = json.loads(_without_vocabulary(tokenizer))
    if vocabulary is None:
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not _keeps_all(parts["pre_tokenizer"]) or not _knows_all(tokenizer, vocabulary, parts):
        return None
    factor = 1
    for normalizer in _parts(parts["normalizer"], "normalizers"):
        kind = normalizer["type"]
        if kind == "Replace":
            # A space becomes a mark; what a pattern takes away is not known.
            pattern = normalizer["pattern"].get("String")
            if pattern is None or len(pattern) > len(normalizer["content"]):
                return None
        elif kind in _NORMALIZERS:
            factor *= _NORMALIZERS[kind]
        else:
            return None
    # A token of bytes is written with a character for each, which is as many as its text has
    # or more.
    return factor * max(map(len, vocabulary))


def _without_vocabulary(tokenizer: tokenizers.Tokenizer) -> str:
    """The parts of a tokenizer.json around the model, which may be very large."""
    empty = tokenizers.Tokenizer(tokenizers.models.BPE())
    if tokenizer.normalizer is not None:
        empty.normalizer = tokenizer.normalizer
    if tokenizer.pre_tokenizer is not None:
        empty.pre_tokenizer = tokenizer.pre_tokenizer
    return empty.to_str()


def _parts(part: Any, inner: str) -> Iterator[dict[str, Any]]:
    if part is None:
        return
    if part["type"] == "Sequence":
        for each in part[inner if inner in part else "pretokenizers"]:
            yield from _parts(each, inner)
    else:
        yield part


def _keeps_all(pre_tokenizer: Any) -> bool:
    return all(
        part["type"] in _PRE_TOKENIZERS and part.get("behavior") != "Removed"
        for part in _parts(pre_tokenizer, "pretokenizers")
    )


def _knows_all(tokenizer: tokenizers.Tokenizer, vocabulary: Mapping[str, int], parts: Any) -> bool:
    """Whether no character is unknown: each byte is a token, in one of two ways."""
    byte_level = any(
        part["type"] == "ByteLevel"
        for part in (
            *_parts(parts["pre_tokenizer"], "pretokenizers"),
            *_parts(parts["normalizer"], "normalizers"),
        )
    )
    if byte_level:
        return all(
            letter in vocabulary for letter in tokenizers.pre_tokenizers.ByteLevel.alphabet()
        )
    return bool(tokenizer.model.byte_fallback) and all(
        f"<0x{byte:02X}>" in vocabulary for byte in range(256)
    )
