"""No token stands for more text than it is said to, or nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from sglrouter.prompt.longest_token import longest_token
from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.sim.options import TINY_MODEL

TINY = load_tokenizer(TINY_MODEL)
LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_level(*tokens: str) -> Tokenizer:
    """A byte-level tokenizer with the bytes as its tokens, and these words as added ones."""
    vocabulary = {letter: i for i, letter in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens(list(tokens))
    return tokenizer


def test_the_longest_token_counts_added_ones_too() -> None:
    assert longest_token(byte_level()) == 1
    assert longest_token(byte_level("<|a|>", "<|longer|>")) == len("<|longer|>")


@given(st.text(max_size=200) | st.sampled_from([" " * 500, "a" * 500, "\u0301" * 300, "\n" * 99]))
def test_no_text_is_fewer_tokens_than_the_bound_says(text: str) -> None:
    longest = longest_token(TINY)
    assert longest is not None
    assert len(TINY.encode(text, add_special_tokens=False).ids) * longest >= len(text)


def test_the_bound_holds_for_text_that_a_normalizer_composes() -> None:
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    longest = longest_token(tokenizer)
    assert longest is not None
    # Four characters that become one.
    text = "\u03b1\u0313\u0300\u0345" * 50
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) * longest >= len(text)


def changed(**parts: object) -> Tokenizer:
    tokenizer = byte_level("word")
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [
        changed(normalizer=normalizers.Strip()),
        changed(normalizer=normalizers.Replace(tokenizers.Regex(" +"), " ")),
        changed(normalizer=normalizers.Replace("ab", "a")),
        changed(normalizer=normalizers.StripAccents()),
        changed(pre_tokenizer=pre_tokenizers.Whitespace()),
        changed(pre_tokenizer=pre_tokenizers.Split(" ", "removed")),
        changed(pre_tokenizer=None),
        Tokenizer(models.WordPiece(vocab={"[UNK]": 0}, unk_token="[UNK]")),
        Tokenizer(models.WordLevel(vocab={"[UNK]": 0}, unk_token="[UNK]")),
        Tokenizer(models.Unigram([("a", 0.0)], unk_id=0)),
    ],
    ids=lambda tokenizer: str(tokenizer)[-160:-100],
)
def test_where_much_text_may_become_one_token_there_is_no_bound(tokenizer: Tokenizer) -> None:
    assert longest_token(tokenizer) is None


@pytest.mark.parametrize("side", ["lstrip", "rstrip"])
def test_a_token_that_swallows_white_space_has_no_length(side: str) -> None:
    tokenizer = byte_level()
    tokenizer.add_tokens([AddedToken("<a>", **{side: True})])
    assert longest_token(tokenizer) is None


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "most"), [("qwen3", 512), ("deepseek-v3", 128), ("mistral-tekken-240911", 76),
                       ("mistral-spm-v3", 18)]
)  # fmt: skip
def test_the_bound_of_real_tokenizers(corpus: Path, name: str, most: int) -> None:
    tokenizer = load_tokenizer(corpus / "tokenizers" / name)
    assert longest_token(tokenizer) == most
    for text in (" " * 5000, "\n" * 5000, "=" * 5000, "a" * 5000, "\u4e2d" * 999):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert len(ids) * most >= len(text)
