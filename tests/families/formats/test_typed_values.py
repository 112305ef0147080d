"""What a parameter's text means, by its schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.families.formats.typed_values import Kind, json_value, kind, types
from tests.families.laws import TEXTS, json_values
from tests.fast.profile import soak

STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
ARRAY = {"type": "array"}
OBJECT = {"type": "object"}
NULLABLE = {"anyOf": [STRING, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (None, set()),
        (True, set()),
        ({}, set()),
        ({"description": "anything"}, set()),
        ({"$ref": "#/$defs/x"}, set()),
        (STRING, {"string"}),
        ({"type": "str"}, {"string"}),
        ({"type": "Integer"}, {"integer"}),
        ({"type": "float"}, {"number"}),
        ({"type": "banana"}, {"string"}),
        ({"type": 5}, set()),
        ({"type": [7]}, {"string"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        (NULLABLE, {"string", "null"}),
        ({"oneOf": [INTEGER, {"anyOf": [ARRAY, STRING]}]}, {"integer", "array", "string"}),
        ({"allOf": [INTEGER]}, {"integer"}),
        ({"enum": ["a", "b"]}, {"string"}),
        (
            {"enum": [1, 1.5, None, True, [], {}]},
            {"integer", "number", "null", "boolean", "array", "object"},
        ),
        ({"const": "x"}, {"string"}),
        ({"properties": {}}, {"object"}),
        ({"items": STRING}, {"array"}),
        ({"anyOf": "no list", "enum": 3, "properties": []}, set()),
    ],
)
def test_the_types_that_a_schema_allows(schema: object, found: set[str]) -> None:
    assert types(schema) == found


def test_a_schema_that_contains_itself() -> None:
    schema: dict[str, Any] = {}
    schema["anyOf"] = [schema, STRING]
    assert types(schema) == {"string"}


def test_what_is_passed_on_while_it_arrives() -> None:
    assert kind(STRING) is Kind.TEXT
    assert kind({"enum": ["a", "b"]}) is Kind.TEXT
    assert kind(NULLABLE) is Kind.TEXT_OR_NULL
    for schema in (None, {}, INTEGER, {"type": ["string", "integer"]}):
        assert kind(schema) is Kind.VALUE


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        # Without a schema: JSON, else text.
        ("42", None, 42),
        ("7up", None, "7up"),
        (' {"z": 0}\n', None, {"z": 0}),
        ("{'z': 0}", None, "{'z': 0}"),
        ("True", None, "True"),
        ("null", None, None),
        ('"quoted"', None, "quoted"),
        (" two words ", None, " two words "),
        ("NaN", None, "NaN"),
        ("[1, 2", None, "[1, 2"),
        ("", None, ""),
        # Strings.
        ("01234", STRING, "01234"),
        ("null", STRING, "null"),
        ('"x"', STRING, '"x"'),
        ("null", NULLABLE, None),
        ("None", NULLABLE, None),
        ("yo", NULLABLE, "yo"),
        # Numbers.
        ("42", INTEGER, 42),
        (" -7\n", INTEGER, -7),
        ("+5", INTEGER, 5),
        ("007", INTEGER, 7),
        ("0", INTEGER, 0),
        ("000", INTEGER, 0),
        ("3.0", INTEGER, 3),
        ("-0.0", INTEGER, 0),
        ("1e3", INTEGER, 1000),
        ("1e30", INTEGER, 1e30),
        ("3.5", INTEGER, "3.5"),
        ("1_000", INTEGER, "1_000"),
        ("many", INTEGER, "many"),
        ("", INTEGER, ""),
        ("-", INTEGER, "-"),
        ("٣", INTEGER, "٣"),
        ("null", INTEGER, None),
        ("None", {"type": ["integer", "null"]}, None),
        ("3", NUMBER, 3),
        ("2.50", NUMBER, 2.5),
        (".5", NUMBER, 0.5),
        ("5.", NUMBER, 5.0),
        ("-.5e1", NUMBER, -5.0),
        ("1e-3", NUMBER, 0.001),
        ("inf", NUMBER, "inf"),
        ("-Infinity", NUMBER, "-Infinity"),
        ("nan", NUMBER, "nan"),
        ("1e999", NUMBER, "1e999"),
        ("0x10", NUMBER, "0x10"),
        # Booleans.
        ("true", BOOLEAN, True),
        ("False", BOOLEAN, False),
        (" TRUE ", BOOLEAN, True),
        ("yes", BOOLEAN, "yes"),
        ("1", BOOLEAN, "1"),
        # Objects and arrays.
        ("[1, 2]", ARRAY, [1, 2]),
        ("{'a': True, 'b': None}", OBJECT, {"a": True, "b": None}),
        ("('a', 'b')", ARRAY, ["a", "b"]),
        ('{"a": "two\nlines"}', OBJECT, {"a": "two\nlines"}),
        ("[1, 2,]", ARRAY, [1, 2]),
        ("[1, 2] and more", ARRAY, "[1, 2] and more"),
        ("[1, 2", ARRAY, "[1, 2"),
        ("{1, 2}", OBJECT, "{1, 2}"),
        ("{'a': open('x')}", OBJECT, "{'a': open('x')}"),
        ("5", OBJECT, "5"),
        ('{"a": 1}', ARRAY, {"a": 1}),
        # Several types.
        ("5", {"type": ["string", "integer"]}, 5),
        ("1e3", {"type": ["string", "integer"]}, "1e3"),
        ("007", {"type": ["string", "integer"]}, "007"),
        ("+5", {"type": ["string", "number"]}, "+5"),
        ("5.5", {"type": ["string", "number"]}, 5.5),
        ('["a"]', {"anyOf": [STRING, ARRAY]}, ["a"]),
        ("[sic]", {"anyOf": [STRING, ARRAY]}, "[sic]"),
        ("{'a': 1}", {"anyOf": [STRING, OBJECT]}, "{'a': 1}"),
        ('{"a": 1}', {"anyOf": [STRING, ARRAY]}, '{"a": 1}'),
        ("true", {"anyOf": [STRING, BOOLEAN]}, True),
        ("auto", {"enum": [1, "auto"]}, "auto"),
        ("1", {"enum": [1, "auto"]}, 1),
        # Schemas that are none.
        ("x", {"type": "banana"}, "x"),
        ("1", {"type": "banana"}, "1"),
        ("1", ["no", "schema"], 1),
    ],
)
def test_values(text: str, schema: object, value: object) -> None:
    found = json.loads(json_value(text.encode(), schema))
    assert found == value
    assert type(found) is type(value)


def test_numbers_stay_as_they_are_written() -> None:
    for text in (b"1.10", b"1e3", b"12345678901234567890123", b"-0.0"):
        assert json_value(text, NUMBER) == text


def test_what_the_markup_calls_json() -> None:
    assert json_value(b'"x"', STRING, is_json=True) == b'"x"'
    assert json_value(b"null", STRING, is_json=True) == b"null"
    assert json_value(b"5", STRING, is_json=True) == b'"5"'
    assert json_value(b'"5', INTEGER, is_json=True) == b'"\\"5"'


@pytest.mark.parametrize("schema", [None, INTEGER, NUMBER, ARRAY, OBJECT, BOOLEAN, NULLABLE])
@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "[" * 900 + "]" * 900, '{"a":' * 200_000, "9" * 200_000, "-" * 200_000,
     "(" * 200_000, "'" * 200_000, "{'a': [" * 100_000, " " * 200_000, "1e" + "9" * 200_000],
    ids=lambda text: text[:4],
)  # fmt: skip
def test_text_made_to_hurt(text: str, schema: object) -> None:
    json.loads(json_value(text.encode(), schema))


SCHEMAS = (
    *(None, STRING, INTEGER, NUMBER, BOOLEAN, ARRAY, OBJECT, NULLABLE),
    {"type": ["string", "integer"]},
)


@soak
@given(text=TEXTS, value=json_values(TEXTS), schema=st.sampled_from(SCHEMAS))
def test_there_is_always_a_value(text: str, value: object, schema: object) -> None:
    for written in (text, json.dumps(value), repr(value)):
        json.loads(json_value(written.encode(), schema))


@soak
@given(value=st.lists(json_values(TEXTS)) | st.dictionaries(TEXTS, json_values(TEXTS)))
def test_literals_of_python(value: object) -> None:
    schema = ARRAY if isinstance(value, list) else OBJECT
    assert json.loads(json_value(repr(value).encode(), schema)) == value
    assert json.loads(json_value(json.dumps(value).encode(), schema)) == value
