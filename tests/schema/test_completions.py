"""Request bodies of text completions: the forms of a prompt, and where a schema may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.schema.completions import CompletionRequest, decode_completion_request
from sglrouter.schema.json_bounds import JsonBounds


def decode(**fields: Any) -> CompletionRequest:
    return decode_completion_request(json.dumps({"prompt": "a", **fields}).encode())


def refused(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        decode(**fields)
    return caught.value


@pytest.mark.parametrize("prompt", ["", "text", ["a", "5"], [1, 2], [[1], [2, 3]], []])
def test_every_form_of_a_prompt_is_read_as_it_is(prompt: object) -> None:
    assert decode(prompt=prompt).prompt == prompt


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        (5, "prompt"),
        ({}, "prompt"),
        ([True], "prompt[0]"),
        ([1.5], "prompt[0]"),
        ([None], "prompt[0]"),
        ([[1], ["a"]], "prompt[1][0]"),
        ([[False]], "prompt[0][0]"),
        ([[[1]]], "prompt[0][0]"),
    ],
)
def test_what_is_no_prompt_is_named(prompt: object, param: str) -> None:
    error = refused(prompt=prompt)
    assert error.code == "invalid_type"
    assert error.param == param


def test_a_prompt_must_be_there() -> None:
    with pytest.raises(BadRequest) as caught:
        decode_completion_request(b"{}")
    assert caught.value.param == "prompt"


@pytest.mark.parametrize(
    "fields", [{"logprobs": True}, {"best_of": "many"}, {"echo": "maybe"}, {"suffix": 1}]
)
def test_fields_of_the_wrong_type_are_named(fields: dict[str, Any]) -> None:
    assert refused(**fields).param == next(iter(fields))


@pytest.mark.parametrize("schema", [{"type": "object"}, '{"type": "object"}'])
def test_a_schema_is_a_response_format(schema: object) -> None:
    request = decode(json_schema=schema)
    assert request.response_format == {
        "type": "json_schema",
        "json_schema": {"schema": {"type": "object"}},
    }
    assert request.own_name("response_format") == "json_schema"
    assert decode().own_name("response_format") == "response_format"


def test_a_schema_beside_a_response_format_is_refused() -> None:
    assert refused(json_schema="{}", response_format={"type": "json_object"}).param == "json_schema"
    assert decode(json_schema="{}", response_format={"type": "text"}).response_format is not None


@pytest.mark.parametrize("schema", ["", "[]", "{", "true", "[" * 5000, '{"a":' * 5000])
def test_a_schema_that_is_no_object_is_refused(schema: str) -> None:
    error = refused(json_schema=schema)
    assert (error.param, error.code) == ("json_schema", "invalid_json")


def test_a_schema_in_a_string_is_bounded() -> None:
    body = json.dumps({"prompt": "a", "json_schema": "[" + "{}," * 600}).encode()
    with pytest.raises(BadRequest) as caught:
        decode_completion_request(body, JsonBounds(values=1000))
    assert caught.value.code == "invalid_value"
    assert "more than 1000 values" in caught.value.message
