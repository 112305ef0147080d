"""Builds the table of bytes that each token id stands for.

Strategy: the tokenizer's decoder decides. Byte-level vocabularies write each byte as
a letter; SentencePiece ones write words with U+2581 for space and fall back to
<0xNN>. Both decode token by token, so a table does it. Any other decoder looks at
neighbours; for it there is no table, and the library decodes.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import tokenizers

from sglrouter._fast.detok import Vocabulary


class TokenTable(msgspec.Struct, frozen=True):
    """A vocabulary and how its text begins.

    Attributes:
        vocabulary: The bytes of each id.
        strip_leading_space: Whether one space at the start of a text is not part of it.
    """

    vocabulary: Vocabulary
    strip_leading_space: bool


def build_token_table(tokenizer: tokenizers.Tokenizer) -> TokenTable | None:
    """Returns the table, or None for a decoder that needs more than single tokens."""
    steps = _steps(_decoder_config(tokenizer))
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return TokenTable(_vocabulary(tokenizer, _byte_level_piece, byte_fallback=False), False)
    strip = False
    if kinds and kinds[-1] == "Strip":
        last = steps.pop()
        kinds.pop()
        if (last["content"], last["start"], last["stop"]) != (" ", 1, 0):
            return None
        strip = True
    if kinds == ["Replace", "ByteFallback", "Fuse"] and _replaces_metaspace(steps[0]):
        return TokenTable(_vocabulary(tokenizer, _metaspace_piece, byte_fallback=True), strip)
    return None


def _decoder_config(tokenizer: tokenizers.Tokenizer) -> dict[str, Any] | None:
    decoder = tokenizer.decoder
    if decoder is None:
        return None
    # As it stands in tokenizer.json; writing out the whole tokenizer takes a second.
    config: dict[str, Any] = json.loads(decoder.__getstate__())
    return config


def _steps(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [step for inner in decoder["decoders"] for step in _steps(inner)]
    return [decoder]


def _replaces_metaspace(step: dict[str, Any]) -> bool:
    return bool(step["pattern"] == {"String": "\u2581"} and step["content"] == " ")


def _vocabulary(tokenizer: tokenizers.Tokenizer, piece: Any, *, byte_fallback: bool) -> Vocabulary:
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    pieces: list[bytes | None] = [None] * (max(vocab.values(), default=-1) + 1)
    for token, token_id in vocab.items():
        pieces[token_id] = piece(token)
    added = tokenizer.get_added_tokens_decoder()
    special = [token_id for token_id, token in added.items() if token.special]
    return Vocabulary(pieces, special, byte_fallback)


def _byte_alphabet() -> dict[str, int]:
    """The letters that byte-level vocabularies write bytes with, after GPT-2.

    Printable Latin-1 stands for itself; the other bytes, in order, for U+0100 and on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(0x100 + i): byte for i, byte in enumerate(others)},
    }


_BYTE_ALPHABET = _byte_alphabet()


def _byte_level_piece(token: str) -> bytes:
    try:
        return bytes([_BYTE_ALPHABET[letter] for letter in token])
    except KeyError:
        # An added token in plain text, such as one with a space.
        return token.encode()


_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_of(token: str) -> bytes | None:
    """The byte that a token stands for; None for one that is text."""
    match = _BYTE_TOKEN.fullmatch(token)
    return bytes.fromhex(match[1]) if match else None


def _metaspace_piece(token: str) -> bytes:
    byte = byte_of(token)
    return token.replace("\u2581", " ").encode() if byte is None else byte
