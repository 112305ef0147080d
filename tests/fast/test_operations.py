"""The operations of the output parsers, each in a small program, however the text is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrouter._fast.operations import (
    ALL_SPACE,
    CONTENT,
    DROP,
    KEEP,
    ONE_NEWLINE,
    REASONING,
    STRING,
    Match,
    Operation,
    Pass,
    Peek,
    Read,
    Text,
)
from sglrouter._fast.parse import OutputParser
from tests.fast.programs import Program, run

MARKERS = ("<a>", "<ab>", "</a", "日<")
# Markers, their beginnings, and what comes near them.
texts = st.lists(
    st.sampled_from([*MARKERS, "<", "<a", "</", "日", "ab>", ">", "x", " ", "\n", "é😀", "<<a>"]),
    max_size=12,
).map("".join)


# Passing text on.


def split_by_hand(text: str) -> list[tuple[str, int]]:
    """Pieces and the markers after them; the marker that begins first, then the first listed."""
    pieces = []
    start = at = 0
    while at < len(text):
        for i, marker in enumerate(MARKERS):
            if text.startswith(marker, at):
                pieces.append((text[start:at], i))
                start = at = at + len(marker)
                break
        else:
            at += 1
    return [*pieces, (text[start:], -1)]


@given(texts)
def test_text_is_passed_on_up_to_each_marker(text: str) -> None:
    to_marker = Pass(REASONING, [marker.encode() for marker in MARKERS])

    def program(_: OutputParser, results: list[Any]) -> Program:
        while True:
            found = yield to_marker
            results.append(found)
            if found < 0:
                return

    expected = split_by_hand(text)
    _, reasoning, _, _, results = run(program, text)
    assert reasoning == "".join(piece for piece, _ in expected)
    assert results == [found for _, found in expected]


@given(texts)
def test_what_is_dropped_goes_nowhere(text: str) -> None:
    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield Pass(DROP, [b"<a>"])))
        yield Pass(REASONING)

    content, reasoning, names, arguments, _ = run(program, text)
    assert (content, names, arguments) == ("", [], "")
    assert reasoning == text.partition("<a>")[2]


@given(
    st.text(st.sampled_from(' \n\tx<日"\\\x01'), max_size=8),
    st.sampled_from([KEEP, ONE_NEWLINE, ALL_SPACE]),
)
@example("\n\n", ONE_NEWLINE)
@example(" ", ALL_SPACE)
def test_a_string_argument_is_trimmed_and_escaped(text: str, trim: int) -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        parser.begin_call("f")
        parser.argue(b'"')
        results.append((yield Pass(STRING, [b"</v>"], trim)))
        parser.argue(b'"')
        parser.end_call()
        yield Pass(CONTENT)

    expected = text
    if trim == ONE_NEWLINE:
        expected = text.removeprefix("\n")
        expected = expected.removesuffix("\n")
    elif trim == ALL_SPACE:
        expected = text.strip(" \t\r\n")
    content, _, names, arguments, results = run(program, text + "</v> after")
    assert json.loads(arguments) == expected
    assert (content, names, results) == (" after", ["f"], [0])


def test_a_string_that_is_cut_off_inside_its_marker_is_what_it_was_before() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.begin_call("f")
        yield Pass(STRING, [b"</v>"], ALL_SPACE)

    # Had the marker come whole, this would have been all.
    assert run(program, "  so far \n</v")[3] == "so far"
    assert run(program, "  so far </v x")[3] == "so far </v x"


def test_markers_have_to_be_something() -> None:
    with pytest.raises(ValueError, match="empty"):
        Pass(CONTENT, [b""])


@pytest.mark.parametrize("marker", ["<a b>", "< a b>", "< \n\t a b>"])
def test_white_space_may_follow_the_first_byte_of_a_loose_marker(marker: str) -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        results.append((yield Pass(REASONING, [b"<c>", b"<a b>"], loose=True)))
        results.append(parser.marker.decode())
        yield Pass(DROP)

    assert run(program, f"x < {marker} rest")[1:] == ("x < ", [], "", [1, marker])


# Reading text.


@given(texts, st.booleans())
def test_text_is_read_up_to_a_marker(text: str, peek: bool) -> None:
    read = Read([marker.encode() for marker in MARKERS], peek=peek)

    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield read))
        yield Pass(REASONING)

    piece, found = split_by_hand(text)[0]
    _, reasoning, _, _, (result,) = run(program, text)
    if found < 0:
        assert result is None
        assert reasoning == ""
    else:
        assert result == (piece.encode(), found)
        assert reasoning == text[len(piece) + (0 if peek else len(MARKERS[found])) :]


@pytest.mark.parametrize("length", [0, 9, 10, 11, 30])
def test_reading_has_a_limit(length: int) -> None:
    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield Read([b";"], limit=10)))
        yield Pass(REASONING)

    text = "x" * length + ";rest"
    _, reasoning, _, _, (result,) = run(program, text)
    if length <= 10:
        assert result == (b"x" * length, 0)
        assert reasoning == "rest"
    else:
        assert result is None
        assert reasoning.endswith("rest")


@given(texts)
def test_a_literal_matches_or_not(text: str) -> None:
    literals = ("<ab>", "<a", "<")

    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield Match([each.encode() for each in literals])))
        yield Pass(REASONING)

    expected = next((i for i, each in enumerate(literals) if text.startswith(each)), -1)
    _, reasoning, _, _, results = run(program, text)
    assert results == [expected]
    assert reasoning == text[len(literals[expected]) if expected >= 0 else 0 :]


def test_peeking_skips_white_space_and_takes_nothing() -> None:
    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield Peek()))
        yield Pass(REASONING)

    assert run(program, " \n x y")[1:] == ("x y", [], "", [b"x"])
    assert run(program, " \n")[4] == [b""]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a\\"b" c', 'a"b'),
        ("'it\\'s \"so\"' c", 'it\'s "so"'),
        ('"日\\u00e9\\\\" c', "日é\\"),
        ('"', None),
        ('"cut \\', None),
        ("bare", None),
        ("", None),
    ],
)
def test_a_quoted_string_is_read(text: str, expected: str | None) -> None:
    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield Text()))

    (result,) = run(program, text)[4]
    assert (None if result is None else json.loads(result)) == expected


def test_where_no_quoted_string_is_nothing_is_consumed() -> None:
    def program(_: OutputParser, results: list[Any]) -> Program:
        results.append((yield Text(limit=4)))
        yield Pass(REASONING)

    assert run(program, "bare")[1:] == ("bare", [], "", [None])
    assert run(program, '"ab" rest')[1:] == (" rest", [], "", [b'"ab"'])
    assert run(program, '"abc" rest')[1:] == ('" rest', [], "", [None])


def test_an_operation_of_no_kind_is_an_error() -> None:
    def program(_: OutputParser, __: list[Any]) -> Program:
        yield Operation()

    with pytest.raises(NotImplementedError, match="no kind"):
        run(program, "text")
