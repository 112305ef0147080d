"""The operations of the output parser, each in a small program, however the text is cut."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrouter._fast.parse import (
    ALL_SPACE,
    CONTENT,
    DROP,
    KEEP,
    ONE_NEWLINE,
    REASONING,
    STRING,
    Match,
    Operation,
    OutputParser,
    Pass,
    Peek,
    Read,
    Text,
    Value,
)

Program = Generator[Operation, Any]
MARKERS = ("<a>", "<ab>", "</a", "日<")
# Markers, their beginnings, and what comes near them.
texts = st.lists(
    st.sampled_from([*MARKERS, "<", "<a", "</", "日", "ab>", ">", "x", " ", "\n", "é😀", "<<a>"]),
    max_size=12,
).map("".join)


class Output:
    """What came of a text."""

    def __init__(self, program: Callable[[OutputParser, list[Any]], Program]) -> None:
        self.results: list[Any] = []
        self.content, self.reasoning, self.arguments = b"", b"", b""
        self.names: list[str] = []
        self.parser = OutputParser(
            lambda parser: program(parser, self.results), lambda name, number: f"{name}-{number}"
        )

    def _take(self) -> None:
        content, reasoning, deltas = self.parser.take()
        self.content += content
        self.reasoning += reasoning
        for _, _, name, arguments in deltas:
            self.names += [name] if name else []
            self.arguments += arguments

    def read(self, parts: Sequence[str]) -> tuple[Any, ...]:
        for part in parts:
            self.parser.feed(part.encode())
            self._take()
        self.parser.finish()
        self._take()
        return (
            self.content.decode(),
            self.reasoning.decode(),
            self.names,
            self.arguments.decode(),
            self.results,
        )


def run(program: Callable[[OutputParser, list[Any]], Program], text: str) -> tuple[Any, ...]:
    """Reads the text whole, by characters and cut in two at every point: all the same."""
    whole = Output(program).read([text])
    assert Output(program).read(list(text)) == whole
    for cut in range(1, len(text)):
        assert Output(program).read([text[:cut], text[cut:]]) == whole
    return whole


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


# White space around calls.


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", ""),
        (" \n", " \n"),  # an answer of white space is an answer
        (" a ", " a "),
        (" <c>", ""),
        (" a <c> \n<c>\n", " a "),
        ("<c> b <c>", " b "),
        ("<c>\n\nb\n", "\n\nb\n"),
    ],
)
def test_white_space_alone_is_no_content_around_calls(text: str, content: str) -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        while (yield Pass(CONTENT, [b"<c>"])) >= 0:
            parser.begin_call("f")
            parser.end_call()

    assert run(program, text)[0] == content


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


# JSON values.


def value_program(parser: OutputParser, results: list[Any], *, python: bool = False) -> Program:
    parser.begin_call("f")
    whole = yield Value(python=python)
    results.append(whole)
    if whole is False:
        parser.close_value()
    yield Pass(REASONING)


def python_program(parser: OutputParser, results: list[Any]) -> Program:
    return value_program(parser, results, python=True)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_strict_json_stays_what_it_is(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    _, reasoning, _, arguments, results = run(value_program, text + " rest")
    assert json.loads(arguments) == value
    if indent is None:
        assert arguments == text
    assert results == [True]
    # A scalar ends before what follows it.
    assert reasoning.strip() == "rest"


@given(values)
def test_python_literals_become_json(value: Any) -> None:
    _, reasoning, _, arguments, results = run(python_program, repr(value) + ", rest")
    assert json.loads(arguments) == json.loads(json.dumps(value))
    assert results == [True]
    assert reasoning == ", rest"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': True, 'b': [None, (1, 2),],}", {"a": True, "b": [None, [1, 2]]}),
        ('{"a": "line\nend\ttab"}', {"a": "line\nend\ttab"}),
        ('{"a": "\\d \\x \\u12"}', {"a": "\\d \\x \\u12"}),
        ("{a: 1, b: word}", {"a": 1, "b": "word"}),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}),
        ('{"a": 01, "b": 1., "c": +1, "d": 1_000}', {"a": "01", "b": "1.", "c": 1, "d": 1000}),
        ('{"a": , "b": }', {"a": None, "b": None}),
        ('{"a": [1, {"b": 2]}', {"a": [1, {"b": 2}]}),
        ("[1 , , 2]", [1, 2]),
        ("{'it\\'s': 'say \"hi\"'}", {"it's": 'say "hi"'}),
    ],
)
def test_what_models_write_instead_of_json_is_mended(text: str, expected: object) -> None:
    _, _, _, arguments, results = run(value_program, text)
    assert json.loads(arguments) == expected
    assert results == [True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"'\x41\n\'\\'", "A\n'\\"),
        ("'''it's\n\"so\"'''", 'it\'s\n"so"'),
        ('"""a""b"""', 'a""b'),
        ("''", ""),
        ("['', '']", ["", ""]),
        ("'a\\\nb'", "ab"),
        ("(1,)", [1]),
        ("-5", -5),
    ],
)
def test_python_strings_are_read_as_python_reads_them(text: str, expected: object) -> None:
    _, _, _, arguments, results = run(python_program, text + ")")
    assert json.loads(arguments) == expected == json.loads(json.dumps(ast.literal_eval(text)))
    assert results == [True]


@given(values, st.data())
def test_a_value_that_is_cut_off_is_a_prefix_of_the_whole(value: Any, data: st.DataObject) -> None:
    text = json.dumps([value])
    whole = run(value_program, text)[3]
    cut = data.draw(st.integers(0, len(text) - 1))
    _, _, _, part, results = run(value_program, text[:cut])
    assert whole.startswith(part)
    assert results == [None]


@given(st.text(st.sampled_from("{}[]()\"'\\,:<ab1 \n日"), max_size=14), st.booleans())
@example('{"a": {"b": "c', False)
@example("'''", True)
def test_whatever_comes_the_arguments_are_json_or_a_beginning_of_it(
    text: str, python: bool
) -> None:
    program = python_program if python else value_program
    _, _, _, arguments, results = run(program, text)
    if results and results[0] is not None and arguments:
        value = json.loads(arguments)
        assert not isinstance(value, float) or not math.isnan(value)


def test_nesting_has_a_bound() -> None:
    assert Output(value_program).read(["[" * 2000])[4] == [False]


# Calls.


def test_arguments_that_come_before_the_name_go_with_it() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.mark()
        yield Value()
        name = yield Read([b"."])
        parser.begin_call(name[0].decode())
        parser.end_call()

    assert run(program, '{"a": 1}late.')[2:4] == (["late"], '{"a": 1}')


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.begin_call("f")
        parser.end_call()
        yield Pass(CONTENT)

    assert run(program, "")[2:4] == (["f"], "{}")


def test_what_turns_out_to_be_no_call_is_content() -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        found = yield Pass(CONTENT, [b"<c>"])
        if found < 0:
            return
        parser.mark(b"<c>")
        yield Peek()
        yield Value()
        if (yield Match([b"!"])) == 0:
            parser.accept()
        else:
            parser.reject()
        yield Pass(CONTENT)

    assert run(program, "a <c> [1, 'x'] no")[0] == "a <c> [1, 'x'] no"
    assert run(program, "a <c> [1, 'x']! no")[0] == "a  no"
    assert run(program, "a <c> [1, 'x']! no")[3] == ""


def test_calls_that_are_not_accepted_are_dropped_whole() -> None:
    def program(parser: OutputParser) -> Program:
        while (yield Pass(CONTENT, [b"<c>"])) >= 0:
            name, _ = yield Read([b":"])
            parser.begin_call(name.decode())
            yield Value()
            parser.end_call()

    parser = OutputParser(program, lambda name, number: f"{name}-{number}", "known".__eq__)
    parser.feed(b'<c>known:{"a": 1}<c>other:{"b": [2]} text <c>known:3')
    parser.finish()
    content, _, deltas = parser.take()
    assert content == b" text "
    assert deltas == [(0, "known-0", "known", b'{"a": 1}'), (1, "known-1", "known", b"3")]
    assert (parser.called, parser.completed) == (2, 2)


def test_text_that_is_put_back_is_read_next() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        yield Read([b"|"])
        parser.push(b"again ")
        yield Pass(REASONING)

    assert run(program, "gone|rest")[1] == "again rest"


def test_a_program_that_is_over_leaves_content() -> None:
    def program(_: OutputParser, __: list[Any]) -> Program:
        yield Match([b"<c>"])

    assert run(program, "<c>rest")[0] == "rest"


def test_a_program_that_never_ends_is_an_error() -> None:
    def program(_: OutputParser, __: list[Any]) -> Program:
        while True:
            yield Pass(CONTENT, [b"<c>"])

    with pytest.raises(RuntimeError, match="does not stop"):
        Output(program).read(["text"])


def test_markers_have_to_be_something() -> None:
    with pytest.raises(ValueError, match="empty"):
        Pass(CONTENT, [b""])
