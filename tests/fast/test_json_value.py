"""Values of JSON and Python, passed on as JSON, however the text is cut."""

from __future__ import annotations

import ast
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrouter._fast.operations import REASONING, Pass, Value
from sglrouter._fast.parse import OutputParser
from tests.fast.programs import Output, Program, run


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
    _, reasoning, _, arguments, results = run(python_program, text + ")")
    assert json.loads(arguments) == expected == json.loads(json.dumps(ast.literal_eval(text)))
    assert (reasoning, results) == (")", [True])


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


def test_a_value_that_is_dropped_goes_nowhere() -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        parser.begin_call("f")
        results.append((yield Value(drop=True)))
        parser.argue(b"[2]")
        yield Pass(REASONING)

    _, reasoning, _, arguments, results = run(program, '{"a": ["b", 1]} rest')
    assert (reasoning, arguments, results) == (" rest", "[2]", [True])


@pytest.mark.parametrize(
    ("text", "expected", "rest"),
    [
        ('{<|q|>a<|q|>: <|q|>say "so" < \\n\n<|q|>}', {"a": 'say "so" < \\n\n'}, ""),
        ("{a b: some words , c: 1, d:<|q|><|q|>}", {"a b": "some words", "c": 1, "d": ""}, ""),
        ("<|q|>a<|q<|q|>after", "a<|q", "after"),
        ('{"a": [<|q|>b<|q|>, true]}', {"a": ["b", True]}, ""),
    ],
)
def test_strings_may_stand_between_markers(text: str, expected: object, rest: str) -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        parser.begin_call("f")
        results.append((yield Value(quote=b"<|q|>")))
        yield Pass(REASONING)

    _, reasoning, _, arguments, results = run(program, text)
    assert json.loads(arguments) == expected
    assert (reasoning, results) == (rest, [True])
