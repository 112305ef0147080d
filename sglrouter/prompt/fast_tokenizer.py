"""A faster encoder for the same tokenizer, where it is proven to agree.

fastokens reads the same tokenizer.json and encodes some twenty times faster. It is
known to diverge on a few models, so it is used only after it has given the same ids
as the reference for a set of probes: special tokens inside text, many scripts, runs
of white space, code, digits and odd Unicode. Where it is not installed, cannot load
the file, or differs in one probe, the reference stays.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import tokenizers

logger = logging.getLogger(__name__)


class Encoding(Protocol):
    """What an encoder returns."""

    @property
    def ids(self) -> Sequence[int]:
        """The token ids."""


class Encoder(Protocol):
    """Text to ids; the reference and the fast tokenizer are both."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Encoding:
        """Encodes a text."""


# Letters that look alike are what the probes are for.
# ruff: noqa: RUF001
_TEXTS = (
    "",
    " ",
    "Hello, world!",
    "  two  spaces\tand a tab \n\n\n newlines \r\n  ",
    "\n" * 9 + " " * 33 + "\t" * 5,
    "def f(x: int) -> str:\n    return f'{x!r}'  # naïve\n\n\nclass A:\n\tpass\n",
    '{"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2, 3.50, -4e10]}}',
    "0 12 345 6789 01234567890 3.14159 1,000,000 0x1F \u0661\u0662 \u096a\u096b \u00bd \u2168",
    "I'm you're HE'S we'Ll don't 'tis it\u2019s",
    "https://example.org/a_b?d=%20&e=1#f me@example.org C:\\dir\\file.txt $PATH && ls | wc",
    "Größe, Übung, façade, coöperate, Ångström, crème brûlée",
    "e\u0301 a\u030a \ufb01 \uff21\uff22\uff23 \u2126 \u212b \u1e9b\u0323 \ufdfa",
    "你好，世界！今天天气怎么样？ 日本語のテキストと漢字カナ ｶﾅ 한국어 문장입니다",
    "Привет, мир! Γειά σου Κόσμε שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก",
    (
        "\U0001f680 \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f4"
        "\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
        " \u2764\ufe0f \U0001f1e9\U0001f1ea"
    ),
    "\u200b\u200d\ufeff\u00a0\u2028\u2029\u0085\u3000\u00ad\u202e zero widths and odd spaces",
    "\x00\x01\x07\x1b[31m control \x7f characters",
    "\ue000\uf8ff\U000f0000 private use, \ufffd \uffff \U0010ffff",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "=====----_____.....!!!!!?????((((([[[[[{{{{{<<<<<",
    "\u2581underlined\u2581\u2581metaspace <0x0A> <unk> <s> </s> <pad>",
    "<| im_start |> <|im_start |><|im_end|>< |im_end|> [INST] [/INST] <think></think>",
)


def fast_encoder(path: Path, reference: tokenizers.Tokenizer) -> Encoder | None:
    """Returns the fast encoder for a tokenizer.json, or None where it must not be used.

    Args:
        path: The file.
        reference: The same file, as the reference library has it.
    """
    try:
        import fastokens
    except ImportError:
        logger.info("tokenizer: fastokens is not installed: pip install 'sglrouter[fast]'")
        return None
    try:
        encoder: Encoder = fastokens.Tokenizer.from_file(str(path))
        for text in _probes(reference):
            expected = reference.encode(text, add_special_tokens=False).ids
            if list(encoder.encode(text, add_special_tokens=False).ids) != expected:
                logger.warning(
                    "tokenizer: fastokens differs from the reference on %r: not used", text
                )
                return None
    except Exception as exc:  # whatever a foreign library raises on a file it does not know
        logger.warning("tokenizer: fastokens cannot read %s: %s", path, exc)
        return None
    return encoder


def _probes(reference: tokenizers.Tokenizer) -> Iterator[str]:
    yield from _TEXTS
    added = [token.content for token in reference.get_added_tokens_decoder().values()]
    # Some vocabularies reserve a thousand of them.
    for token in added[:64] + added[-64:]:
        yield f"{token}a{token} b {token}\n{token}{token}"
        yield token[:-1]
    yield " ".join(_TEXTS)
