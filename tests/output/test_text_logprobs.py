"""Log probabilities as text completions show them: four lists, whose tokens are texts."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from sglrouter.output.logprobs import LEAST
from sglrouter.output.text_logprobs import (
    LogprobColumns,
    PlacedLogprob,
    finite,
    text_logprobs,
    written_token,
)

PIECES = {
    1: b"a",
    2: "é".encode(),
    3: "é".encode()[:1],
    4: "é".encode()[1:],
    5: b"",
    6: b"a",
    7: b"\xffx\\\n",
}
ENTRIES = [
    PlacedLogprob(1, None, [], 0),
    PlacedLogprob(2, -0.5, [(1, -0.25), (2, -0.5)], 1),
    PlacedLogprob(3, -math.inf, [(4, math.nan)], 2),
    PlacedLogprob(4, -1.0, [], 2),
]


def shown(*entries: PlacedLogprob) -> dict[str, list[Any]]:
    return text_logprobs(entries, PIECES.__getitem__)


def test_the_four_lists_are_of_one_length() -> None:
    assert shown(*ENTRIES) == {
        "tokens": ["a", "é", "bytes:\\xc3", "bytes:\\xa9"],
        "token_logprobs": [None, -0.5, LEAST, -1.0],
        "top_logprobs": [
            None,
            {"a": -0.25, "é": -0.5},
            {"bytes:\\xa9": LEAST, "bytes:\\xc3": LEAST},
            {"bytes:\\xa9": -1.0},
        ],
        "text_offset": [0, 1, 2, 2],
    }
    assert shown() == {
        name: [] for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    }


def test_a_certain_token_has_a_log_probability() -> None:
    certain = shown(PlacedLogprob(1, 0.0, [], 0))
    assert (certain["token_logprobs"], certain["top_logprobs"]) == ([0.0], [{"a": 0.0}])


def test_of_two_tokens_with_one_text_the_likelier_is_shown() -> None:
    (top,) = shown(PlacedLogprob(1, -3.0, [(6, -0.5), (1, -3.0)], 0))["top_logprobs"]
    assert top == {"a": -0.5}
    # The token itself is among them, last.
    (top,) = shown(PlacedLogprob(5, -3.0, [(6, -0.5), (2, -1.0)], 0))["top_logprobs"]
    assert list(top.items()) == [("a", -0.5), ("é", -1.0), ("", -3.0)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\\n", "a\\n"),
        ("\u2028\x00".encode(), "\u2028\x00"),
        (b"\xf0\x9f", "bytes:\\xf0\\x9f"),
        (b"\xffx\\\n", "bytes:\\xffx\\x5c\\x0a"),
        (b"a\xc3", "bytes:a\\xc3"),
        (b"\x7f\x1f\xff", "bytes:\\x7f\\x1f\\xff"),
        # No surrogates, no overlong forms.
        (b"\xed\xa0\x80", "bytes:\\xed\\xa0\\x80"),
        (b"\xc0\x80", "bytes:\\xc0\\x80"),
    ],
)
def test_a_token_that_is_no_text_is_written_as_its_bytes(data: bytes, text: str) -> None:
    assert written_token(data) == text


def test_no_two_pieces_of_bytes_are_written_alike() -> None:
    odd = [bytes((first, second)) for first in range(0x80, 0x100) for second in range(256)]
    odd = [data for data in odd if written_token(data).startswith("bytes:")]
    assert len({written_token(data) for data in odd}) == len(odd) > 30_000


@pytest.mark.parametrize(
    ("value", "said"),
    [(-0.0, 0.0), (-1e308, -1e308), (-math.inf, LEAST), (math.inf, LEAST), (math.nan, LEAST)],
)
def test_a_value_that_json_cannot_say_is_the_least(value: float, said: float) -> None:
    assert finite(value) == said


def test_columns_are_the_same_however_their_tokens_come() -> None:
    whole = json.loads(msgspec.json.encode(shown(*ENTRIES)))
    for cuts in ([0, 4], [0, 1, 4], [0, 2, 4], [0, 3, 4], [0, 1, 2, 3, 4], [0, 0, 4, 4]):
        columns = LogprobColumns()
        for start, end in pairwise(cuts):
            columns.extend(shown(*ENTRIES[start:end]))
        assert json.loads(msgspec.json.encode(columns.json())) == whole
    empty = LogprobColumns().json()
    assert json.loads(msgspec.json.encode(empty)) == shown()
