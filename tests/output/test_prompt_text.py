"""The text of a prompt, and in which character each token begins."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.output.prompt_text import PromptText, character_offsets, count_characters


@given(st.text(max_size=12), st.lists(st.integers(0, 60), max_size=8))
def test_a_place_in_bytes_is_in_the_character_that_has_it(text: str, places: list[int]) -> None:
    data = text.encode()
    places = sorted(min(place, len(data)) for place in places)
    ends = [len(text[: i + 1].encode()) for i in range(len(text))]
    expected = [sum(end <= place for end in ends) for place in places]
    assert character_offsets(data, places) == expected
    assert PromptText(data).characters == len(text)


FAMILY = "\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize("text", ["", "abc", "é", "日本", "a\u0301", FAMILY, "\u2028"])
def test_characters_are_counted_as_python_does(text: str) -> None:
    assert count_characters(text.encode()) == len(text)
    assert PromptText(text.encode()).characters == len(text)


def test_pieces_of_characters_count_once_however_a_text_is_cut() -> None:
    data = "aé日\U0001f680b".encode()
    for cut in range(len(data) + 1):
        assert count_characters(data[:cut]) + count_characters(data[cut:]) == 5


def test_a_token_within_a_character_begins_where_that_does() -> None:
    # Four tokens of a byte each make one character, between two others.
    data = "x\U0001f680y".encode()
    assert character_offsets(data, [0, 1, 2, 3, 4, 5, 6]) == [0, 1, 1, 1, 1, 2, 3]
    # Tokens without text share their place with the next.
    assert character_offsets(data, [0, 0, 1, 1, 6, 6]) == [0, 0, 1, 1, 3, 3]
    assert character_offsets(data, []) == character_offsets(b"", []) == []


def test_many_places_in_a_long_text_take_linear_time() -> None:
    """Each part of the text is looked at once, whatever is asked of it."""

    class Counted(bytes):
        looked_at = 0

        def __getitem__(self, key: Any) -> Any:
            part = super().__getitem__(key)
            Counted.looked_at += len(part) if isinstance(key, slice) else 1
            return part

    data = Counted("aé日".encode() * 1000)
    offsets = character_offsets(data, range(len(data) + 1))
    assert offsets[-1] == 3000
    assert Counted.looked_at <= 3 * len(data)
