"""A JSON array that is written while its elements come: the same, however they come."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.output.json_array import JsonArray

TROUBLE = 'a\n\r\u2028\u2029\x85"\\]é🚀'


def written(batches: list[list[Any]]) -> tuple[bytes, int]:
    array = JsonArray()
    for batch in batches:
        array.extend(batch)
    return bytes(array.json()), array.size


ELEMENTS: list[Any] = [1, -0.5, None, TROUBLE, [], [[]], {"a": [TROUBLE, {}]}, "", ",", "]["]


def test_each_cut_gives_the_same_array() -> None:
    whole, size = written([ELEMENTS])
    assert size == len(ELEMENTS)
    assert json.loads(whole) == ELEMENTS
    for at in range(len(ELEMENTS) + 1):
        assert written([ELEMENTS[:at], [], ELEMENTS[at:]]) == (whole, size)
    assert written([[element] for element in ELEMENTS]) == (whole, size)


@pytest.mark.parametrize("batches", [[], [[]], [[], [], []]])
def test_nothing_is_an_empty_array(batches: list[list[Any]]) -> None:
    assert written(batches) == (b"[]", 0)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(st.lists(st.lists(values, max_size=4), max_size=5))
def test_any_batches_are_one_array(batches: list[list[Any]]) -> None:
    elements = [element for batch in batches for element in batch]
    whole, size = written(batches)
    assert (json.loads(whole), size) == (elements, len(elements))
    # It goes into events, each of which is a line.
    assert len(whole.decode().splitlines()) == 1


def test_it_can_be_looked_at_while_it_grows() -> None:
    array = JsonArray()
    array.extend([1])
    first = array.json()
    array.extend([2])
    assert (bytes(first), bytes(array.json())) == (b"[1]", b"[1,2]")
    assert msgspec.json.encode({"a": array.json()}) == b'{"a":[1,2]}'


def test_what_was_given_is_not_kept() -> None:
    element = {"a": 1}
    array = JsonArray()
    array.extend([element])
    element["a"] = 2
    assert bytes(array.json()) == b'[{"a":1}]'


def test_what_json_has_no_number_for_is_null() -> None:
    assert written([[math.inf, math.nan]]) == (b"[null,null]", 2)
