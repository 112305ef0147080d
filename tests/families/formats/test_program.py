"""What a request's tools say of their parameters, and the small parts that formats share."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sglrouter._fast.operations import CONTENT, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.program import (
    DROP_REST,
    JSON,
    PEEK,
    Outcome,
    Tools,
    attributes,
    broken_or_cut,
    json_text,
    literal,
    resolved,
)
from tests.fast.programs import Program, run
from tests.patience import PROMPT

Json = dict[str, Any]


def tools_of(schema: object, name: str = "f") -> Tools:
    return Tools([{"type": "function", "function": {"name": name, "parameters": schema}}])


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        "text",
        [],
        {},
        {"properties": None},
        {"properties": ["x"]},
        {"properties": {}, "required": "x"},
        {"required": [None, 1, ["x"]]},
    ],
)
def test_tools_without_parameters_are_tools(schema: object) -> None:
    tools = tools_of(schema)
    assert "f" in tools
    assert "g" not in tools
    assert list(tools.parameters("f")) == list(tools.parameters("g")) == []
    assert tools.required("f") == tools.required("g") == frozenset()
    assert tools.schema("f", "x") is None
    assert tools.schema("g", "x") is None


def test_tools_without_their_wrapper_are_tools() -> None:
    properties = {"x": {"type": "string"}, "y": {}}
    bare = {"name": "g", "parameters": {"properties": properties, "required": ["y", 3]}}
    tools = Tools([{"function": {"name": "f"}}, bare])
    assert list(tools.names) == ["f", "g"]
    assert list(tools.parameters("g")) == ["x", "y"]
    assert tools.required("g") == {"y"}
    assert tools.schema("g", "x") == {"type": "string"}


ROOT: Json = {
    "$defs": {
        "city": {"type": "string"},
        "a/b": {"type": "integer"},
        "t~d": {"type": "number"},
        "sp ace": {"type": "boolean"},
        "chain": {"$ref": "#/$defs/city"},
        "loop": {"$ref": "#/$defs/pool"},
        "pool": {"$ref": "#/$defs/loop"},
        "tree": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
    }
}


@pytest.mark.parametrize(
    ("reference", "schema"),
    [
        ("#/$defs/city", {"type": "string"}),
        ("#/$defs/chain", {"type": "string"}),
        ("#/$defs/a~1b", {"type": "integer"}),
        ("#/$defs/t~0d", {"type": "number"}),
        ("#/%24defs/sp%20ace", {"type": "boolean"}),
        ("#", {**ROOT, "properties": {"x": {"$ref": "#"}}}),
        # What leads nowhere is no schema.
        ("#/$defs/nothing", None),
        ("#/$defs/city/type/string", None),
        ("https://example.org/schema", None),
        ("", None),
        ("#/$defs/loop", None),
    ],
)
def test_references_are_followed(reference: str, schema: object) -> None:
    tools = tools_of({**ROOT, "properties": {"x": {"$ref": reference}}})
    assert tools.schema("f", "x") == schema


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_references_in_alternatives_are_followed(keyword: str) -> None:
    schema = {keyword: [{"$ref": "#/$defs/city"}, {"type": "null"}], "title": "x"}
    tools = tools_of({**ROOT, "properties": {"x": schema}})
    wanted = {keyword: [{"type": "string"}, {"type": "null"}], "title": "x"}
    assert tools.schema("f", "x") == tools.resolved("f", schema) == wanted
    # The client's own objects stay as they are.
    assert schema[keyword] == [{"$ref": "#/$defs/city"}, {"type": "null"}]
    # Those of a function that there is not lead nowhere.
    assert tools.resolved("g", {"$ref": "#/$defs/city"}) is None


def test_a_schema_made_to_hurt_is_left_after_some_steps() -> None:
    assert resolved({"$ref": "#/$defs/tree"}, ROOT, [64]) is not None
    # Each has two of the next: followed to the end, that would be 2**40.
    bush = {f"d{n}": {"anyOf": [{"$ref": f"#/d{n + 1}"}] * 2} for n in range(40)}
    started = time.monotonic()
    assert resolved({"$ref": "#/d0"}, {**bush, "d40": {}}, [64]) is not None
    assert time.monotonic() - started < PROMPT
    many = {"anyOf": [{"$ref": "#/$defs/city"}] * 65}
    assert resolved(many, ROOT, [64]) is many


@pytest.mark.parametrize("schema", [None, True, "x", 3, ["a"]])
def test_what_is_no_schema_is_left_as_it_is(schema: object) -> None:
    assert resolved(schema, ROOT, [64]) is schema


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        (b'"a\\"b"', 'a"b'),
        (b'"\\u65e5\\ud83d\\ude00"', "日😀"),
        ('"é"'.encode(), "é"),
        (b'""', ""),
        (b"'a'", None),
        (b'"a', None),
        (b"1", None),
        (b"null", None),
        (b"", None),
        (b'"a" b', None),
        (b'"\\q"', None),
        (b'"\xff"', None),
        (b'"a\nb"', None),
    ],
)
def test_the_text_of_a_json_string(quoted: bytes, text: str | None) -> None:
    assert json_text(quoted) == text


def test_attributes() -> None:
    assert attributes("name=\"a b\" string='true'") == {"name": "a b", "string": "true"}
    assert attributes("name = f other=1") == {"name": "f", "other": "1"}
    assert attributes("invoke name=f") == {"name": "f"}
    assert attributes('name="a') == {"name": "a"}
    assert attributes('name="a=b" x="c>"') == {"name": "a=b", "x": "c>"}
    assert attributes("name") == attributes("") == attributes("=x") == {}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("[1", Outcome.CUT), ("", Outcome.CUT), ("[1)", Outcome.BROKEN), (")", Outcome.BROKEN)],
)
def test_what_broke_is_told_from_what_was_cut_off(text: str, outcome: Outcome) -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        assert (yield JSON) is not True
        results.append(broken_or_cut(parser))
        yield DROP_REST

    assert run(program, text)[4] == [outcome]


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ("end", 0, ""),
        (" \n end.", 0, "."),
        ("ending", 0, "ing"),
        ("ends", 0, "s"),
        ("else.", 1, "."),
        (" en", -1, " en"),
        ("no end", -1, "no end"),
    ],
)
def test_a_literal_comes_next_or_not_at_all(text: str, found: int, rest: str) -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        parser.mark()
        results.append((yield literal(b"end", b"else")))
        if results[0] < 0:
            parser.rewind()
        yield PEEK
        parser.accept()
        yield Pass(CONTENT)

    content, *_, results = run(program, text)
    assert results == [found]
    assert content.strip() == rest.strip()
