"""What belongs at the ends of a raw text: found out once, and put where it is not already."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
import tokenizers
from tokenizers.processors import TemplateProcessing

from sglrouter.errors import ConfigError
from sglrouter.prompt.special_tokens import Ends, ends_of
from sglrouter.prompt.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> tokenizers.Tokenizer:
    return load_tokenizer(tiny_model)


def with_ends(tokenizer: tokenizers.Tokenizer, single: str) -> tokenizers.Tokenizer:
    changed = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    names = ("<|endoftext|>", "<|im_end|>")
    changed.post_processor = TemplateProcessing(
        single=single, special_tokens=[(name, changed.token_to_id(name)) for name in names]
    )
    return changed


def test_a_post_processor_that_does_not_keep_the_text_is_refused(
    tokenizer: tokenizers.Tokenizer,
) -> None:
    changed = with_ends(tokenizer, "<|endoftext|> $A")
    changed.enable_truncation(1)
    with pytest.raises(ConfigError, match="post-processor"):
        ends_of(changed)


def ends(first: list[int], last: list[int]) -> Ends:
    return Ends(array("I", first).tobytes(), array("I", last).tobytes())


@pytest.mark.parametrize(
    ("first", "last", "ids", "wanted"),
    [
        ([], [], [5], [5]),
        ([1], [], [], [1]),
        ([1], [2], [], [1, 2]),
        ([1], [2], [5], [1, 5, 2]),
        ([1], [2], [1, 5], [1, 5, 2]),
        ([1], [2], [5, 2], [1, 5, 2]),
        ([1], [2], [1, 5, 2], [1, 5, 2]),
        ([1], [2], [5, 1, 2, 5], [1, 5, 1, 2, 5, 2]),
        # Half of them, or in another order, are not all of them.
        ([1, 2], [], [1], [1, 2, 1]),
        ([1, 2], [], [2, 1, 5], [1, 2, 2, 1, 5]),
        ([], [1, 2], [5, 2], [5, 2, 1, 2]),
        # What is both is put where it is not.
        ([1], [1], [1], [1]),
        ([1], [1], [5], [1, 5, 1]),
    ],
)
def test_ends_are_added_where_they_are_not(
    first: list[int], last: list[int], ids: list[int], wanted: list[int]
) -> None:
    added = ends(first, last).add(array("I", ids).tobytes())
    assert array("I", added).tolist() == wanted


def test_ids_that_only_look_alike_in_bytes_are_no_end() -> None:
    """An id's last byte and the next one's first are no id."""
    shifted = array("I", [0x01000000, 0x01000000]).tobytes()
    assert len(ends([1], []).add(shifted)) == len(shifted) + 4


@pytest.mark.parametrize(
    ("single", "first", "last"),
    [
        ("$A", [], []),
        ("<|endoftext|> $A", ["<|endoftext|>"], []),
        ("$A <|im_end|> <|im_end|>", [], ["<|im_end|>", "<|im_end|>"]),
        (
            "<|endoftext|> <|im_end|> $A <|endoftext|>",
            ["<|endoftext|>", "<|im_end|>"],
            ["<|endoftext|>"],
        ),
    ],
)
def test_what_a_post_processor_adds_is_found_out(
    tokenizer: tokenizers.Tokenizer, single: str, first: list[str], last: list[str]
) -> None:
    changed = with_ends(tokenizer, single)
    ids = changed.get_vocab()
    wanted = ends([ids[name] for name in first], [ids[name] for name in last])
    assert ends_of(changed) == wanted


def test_a_tokenizer_without_a_post_processor_adds_nothing() -> None:
    assert ends_of(tokenizers.Tokenizer(tokenizers.models.BPE())) == Ends()
