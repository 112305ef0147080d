"""What is wrong with a schema, said before an engine sees it."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.errors import BadRequest
from sglrouter.request.json_schemas import (
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_PATTERN,
    check_constrains,
    check_is_schema,
    pointer,
)

Json = dict[str, Any]
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def refusal(check: Any, schema: Any) -> str:
    with pytest.raises(BadRequest) as raised:
        check(schema, "here")
    assert raised.value.param == "here"
    assert raised.value.code == "invalid_json_schema"
    assert raised.value.message.startswith("here ")
    return raised.value.message


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "nope"}, "#/type"),
        ({"type": None}, "#/type"),
        ({"properties": {"a": {"type": ["string", "nope"]}}}, "#/properties/a/type"),
        ({"properties": None}, "#/properties"),
        ({"properties": {"a/b": {"required": "x"}}}, "#/properties/a~1b/required"),
        ({"$defs": None}, "#/$defs"),
        ({"$defs": {"A": [1]}}, "#/$defs/A"),
        ({"items": [{"type": "string"}]}, "#/items"),
        ({"minLength": -1}, "#/minLength"),
        ({"anyOf": []}, "#/anyOf"),
        ({"anyOf": [{}, 3]}, "#/anyOf/1"),
        ({"enum": "a"}, "#/enum"),
        ({"$ref": 3}, "#/$ref"),
        ({"pattern": 3}, "#/pattern"),
        ({"$schema": 3}, "#/$schema"),
        ({"exclusiveMinimum": True}, "#/exclusiveMinimum"),
        ({"additionalProperties": "no"}, "#/additionalProperties"),
    ],
)
def test_what_is_no_schema_is_refused_by_its_place(schema: Json, place: str) -> None:
    assert f": at {place}: " in refusal(check_is_schema, schema)


@pytest.mark.parametrize("value", [None, [], [1], "x", 3, True, {}, {"a": None}])
@pytest.mark.parametrize(
    "key",
    ["$defs", "definitions", "properties", "required", "items", "anyOf", "enum", "type", "$ref",
     "pattern", "patternProperties", "additionalProperties", "dependentSchemas", "minItems", "not",
     "if", "format", "$schema", "$dynamicRef", "const", "dependencies", "prefixItems"],
)  # fmt: skip
@pytest.mark.parametrize("draft", [{}, {"$schema": DRAFT_7}])
def test_any_value_anywhere_is_checked_or_refused(key: str, value: object, draft: Json) -> None:
    for schema in ({**draft, key: value}, {**draft, "properties": {"a": {key: value}}}):
        with suppress(BadRequest):
            check_is_schema(schema, "here")
            check_constrains(schema, "here")


def test_the_draft_is_the_schemas_own() -> None:
    tuples = {"items": [{"type": "string"}]}
    check_is_schema({"$schema": DRAFT_7, **tuples}, "here")
    check_is_schema({"$schema": "https://json-schema.org/draft-07/schema", **tuples}, "here")
    refusal(check_is_schema, {"$schema": "https://json-schema.org/draft/2020-12/schema", **tuples})
    draft_4 = "http://json-schema.org/draft-04/schema#"
    check_is_schema({"$schema": draft_4, "minimum": 1, "exclusiveMinimum": True}, "here")
    refusal(check_is_schema, {"$schema": DRAFT_7, "minimum": 1, "exclusiveMinimum": True})


def test_no_schema_makes_us_fetch_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        check_is_schema({"$schema": url, "type": "object"}, "here")
        check_is_schema({"$ref": url, "$id": url}, "here")
        refusal(check_is_schema, {"$schema": url, "type": "nope"})
        refusal(check_constrains, {"$ref": url})
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "x-order": 1, "nullable": True, "example": 3},
        {"pattern": "(?=a)b\\Z(", "format": "no-such-format"},
        {"minimum": 10**40, "maximum": 1e300, "multipleOf": 0.1},
    ],
)
def test_what_others_may_judge_passes(schema: Json) -> None:
    check_is_schema(schema, "here")
    check_constrains(schema, "here")


def test_text_that_is_no_unicode_is_refused() -> None:
    assert "surrogates" in refusal(check_is_schema, {"\ud800": 1})


LIST = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/L"}, {}]}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/L", "$defs": {"L": LIST}},
        {"type": "object", "properties": {"n": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
        {"properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}}},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {}}},
        {"$ref": "#/$defs/a%20b", "$defs": {"a b": {}}},
        {"$ref": "#/components/schemas/A", "components": {"schemas": {"A": {"type": "string"}}}},
        {"anyOf": [{}, True], "properties": {"b": {"$ref": "#/anyOf/1"}}},
        # The same definition twice, which is no loop.
        {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}], "$defs": {"A": {}}},
    ],
)
def test_references_within_the_schema_are_followed(schema: Json) -> None:
    check_constrains(schema, "here")


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "#"}, "#"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "#/$defs/A"),
        ({"type": "string", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "#/$defs/A"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "#/properties/a"),
        ({"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}, "#/$defs/"),
        ({"$defs": {"A": {"anyOf": [{}, {"$ref": "#/$defs/A"}]}}}, "#/$defs/A"),
        ({"$defs": {"A": {"oneOf": [{"$ref": "#/$defs/A"}]}}}, "#/$defs/A"),
        ({"$defs": {"A": {"allOf": [{"not": {"$ref": "#/$defs/A"}}]}}}, "#/$defs/A"),
        ({"$defs": {"A": {"if": {}, "then": {"$ref": "#/$defs/A"}}}}, "#/$defs/A"),
        ({"$defs": {"A": {"dependentSchemas": {"x": {"$ref": "#/$defs/A"}}}}}, "#/$defs/A"),
        ({"$defs": {"a~b": {"$ref": "#/$defs/a~0b"}}}, "#/$defs/a~0b"),
        ({"x": {"$ref": "#/x"}, "$ref": "#/x"}, "#/x"),
        ({"properties": {"%41": {"$ref": "#/properties/%2541"}}}, "#/properties/%41"),
    ],
)
def test_a_schema_that_is_itself_is_refused(schema: Json, place: str) -> None:
    message = refusal(check_constrains, schema)
    assert "refers to itself" in message
    assert f"at {place}" in message


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("https://example.com/x.json", "leads out"),
        ("x.json#/a", "leads out"),
        ("", "leads out"),
        ("#name", "anchor"),
        ("#/$defs/Nope", "leads nowhere"),
        ("#/$defs/A/type", "does not lead to a schema"),
        ("#/required/0", "does not lead to a schema"),
        ("#/required/1", "leads nowhere"),
        ("#/required/\u0663", "leads nowhere"),
        ("#/required/" + "9" * 5000, "leads nowhere"),
        ("#/$defs/A/", "leads nowhere"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(reference: str, words: str) -> None:
    schema = {
        "properties": {"a/b": {"$ref": reference}},
        "required": ["a/b"],
        "$defs": {"A": {"type": "string"}},
    }
    message = refusal(check_constrains, schema)
    assert words in message
    assert "at #/properties/a~1b: " in message
    assert len(message) < 500


@pytest.mark.parametrize("key", ["$dynamicRef", "$recursiveRef"])
def test_dynamic_references_are_refused(key: str) -> None:
    assert "dynamic" in refusal(check_constrains, {"items": {key: "#a"}})


def nested(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"properties": {"a": schema}}
    return schema


def test_depth_is_bounded() -> None:
    check_constrains(nested(MAX_DEPTH), "here")
    assert "nested deeper" in refusal(check_constrains, nested(MAX_DEPTH + 1))
    assert "nested deeper" in refusal(check_constrains, nested(5000))


def test_a_chain_of_references_is_not_deep() -> None:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(5000)}
    check_constrains({"$ref": "#/$defs/d0", "$defs": {**chain, "d5000": {}}}, "here")


@pytest.mark.parametrize("key", ["enum", "anyOf", "oneOf", "allOf"])
def test_lists_are_bounded(key: str) -> None:
    def schema(count: int) -> Json:
        return {"items": {key: [{"const": i} for i in range(count)]}}

    check_constrains(schema(MAX_ENTRIES), "here")
    assert f"more than {MAX_ENTRIES}" in refusal(check_constrains, schema(MAX_ENTRIES + 1))


@pytest.mark.parametrize("key", ["properties", "patternProperties"])
def test_properties_are_bounded_over_the_whole_schema(key: str) -> None:
    half: Json = {key: {f"p{i}": {"type": "string"} for i in range(MAX_ENTRIES // 2)}}
    check_constrains({"prefixItems": [half, half]}, "here")
    refusal(check_constrains, {"prefixItems": [half, half, half]})


def test_patterns_are_bounded() -> None:
    long = "a" * MAX_PATTERN
    check_constrains({"pattern": long, "patternProperties": {long: {}}}, "here")
    assert "pattern is longer" in refusal(check_constrains, {"items": {"pattern": long + "a"}})
    assert "pattern is longer" in refusal(check_constrains, {"patternProperties": {long + "a": {}}})
    assert "NUL" in refusal(check_constrains, {"items": {"pattern": "a\0"}})


def test_values_are_no_schemas() -> None:
    check_constrains(
        {
            "const": {"$ref": "nowhere"},
            "default": {"$ref": "#"},
            "examples": [{"$ref": "#"}],
            "enum": [{"$ref": "#"}],
            "properties": {"$ref": {"type": "string"}},
        },
        "here",
    )


def test_pointers() -> None:
    assert pointer([]) == "#"
    assert pointer(["a/b", 0, "~"]) == "#/a~1b/0/~0"


_names = st.sampled_from(["A", "B", "C"])
_schemas = st.recursive(
    st.builds(lambda name: {"$ref": f"#/$defs/{name}"}, _names) | st.just({"type": "string"}),
    lambda inner: st.one_of(
        st.builds(lambda a: {"properties": {"p": a}}, inner),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a: {"items": a}, inner),
        st.builds(lambda a: {"allOf": [a]}, inner),
    ),
    max_leaves=4,
)


def _takes_nothing(schema: Json, definitions: Json, path: frozenset[str]) -> bool:
    """Whether looking at one value can come back to the same definition."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return name in path or _takes_nothing(definitions[name], definitions, path | {name})
    inner = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    return any(_takes_nothing(child, definitions, path) for child in inner)


def _parts(schema: Json) -> list[Json]:
    inner = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    inner += [
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]
    return [schema, *(part for child in inner for part in _parts(child))]


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.fixed_dictionaries(dict.fromkeys("ABC", _schemas)))
def test_loops_are_found_and_nothing_else(definitions: Json) -> None:
    looped = any(
        _takes_nothing(part, definitions, frozenset())
        for schema in definitions.values()
        for part in _parts(schema)
    )
    schema = {"type": "string", "$defs": definitions}
    if looped:
        assert "refers to itself" in refusal(check_constrains, schema)
    else:
        check_constrains(schema, "here")
