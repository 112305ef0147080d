"""Types that JSON Schema does not have."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sglrouter.request.schema_types import with_real_types


@pytest.mark.parametrize(
    ("written", "real"),
    [
        ("varchar", "string"),
        ("VARCHAR(255)", "string"),
        ("String", "string"),
        ("str", "string"),
        ("datetime", "string"),
        ("int", "integer"),
        ("int32", "integer"),
        ("uint64", "integer"),
        ("unsigned int", "integer"),
        ("bigint", "integer"),
        ("decimal(10,2)", "number"),
        ("float64", "number"),
        ("double", "number"),
        ("num", "number"),
        ("bool", "boolean"),
        ("Boolean", "boolean"),
        ("dict", "object"),
        ("dict[str, int]", "object"),
        ("map", "object"),
        ("list[str]", "array"),
        ("list<int>", "array"),
        ("tuple", "array"),
        ("internal", "internal"),
        ("list_price", "list_price"),
        ("nope", "nope"),
        ("", ""),
        (["varchar", "null", "text"], ["string", "null"]),
        ([["int"]], [["int"]]),
        (None, None),
        (3, 3),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_the_nearest_real_type(written: Any, real: Any) -> None:
    assert with_real_types({"type": written}) == {"type": real}


def test_schemas_within_schemas_but_no_values() -> None:
    odd = {"type": "int"}
    schema: dict[str, Any] = {
        "properties": {"type": odd, "b": True, "c": {"items": [odd]}},
        "patternProperties": {"x": odd},
        "$defs": {"A": odd},
        "definitions": {"A": odd},
        "dependentSchemas": {"a": odd},
        "anyOf": [odd, False],
        "oneOf": [odd],
        "allOf": [odd],
        "prefixItems": [odd],
        "items": odd,
        "additionalProperties": odd,
        "not": odd,
        "if": odd,
        "then": odd,
        "else": odd,
        "contains": odd,
        "propertyNames": odd,
        "unevaluatedItems": odd,
        "unevaluatedProperties": odd,
        "default": odd,
        "enum": [odd],
        "const": odd,
    }
    before = copy.deepcopy(schema)
    real = with_real_types(schema)
    assert schema == before, "the client's own is shown to the model"
    text = repr(real)
    assert text.count("'int'") == 3, "default, enum and const"
    assert text.count("'integer'") == repr(before).count("'int'") - 3


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"properties": None, "anyOf": 3, "items": "x", "type": ["string"]},
        {},
    ],
)
def test_what_needs_no_change_is_the_same_object(schema: dict[str, Any]) -> None:
    assert with_real_types(schema) is schema
