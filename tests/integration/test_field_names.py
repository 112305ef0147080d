"""A field that is out of range is told by the name that its own API has for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import falcon.testing
import pytest

from sglrouter.sim import SimulatedEngine
from tests.integration.test_request_bounds import app_of

SHARED: dict[str, Any] = {
    "n": 0,
    "temperature": -1,
    "top_p": 0,
    "top_k": -2,
    "min_p": 2,
    "frequency_penalty": 3,
    "presence_penalty": -3,
    "repetition_penalty": 0,
    "stop": ["x"] * 33,
    "stop_token_ids": [-1],
    "logit_bias": {"x": 1},
    "regex": "\0",
    "ebnf": "\0",
}
OPENAI = SHARED | {"max_tokens": -1, "max_completion_tokens": -1, "min_tokens": -1}
NATIVE = SHARED | {"max_new_tokens": -1, "min_new_tokens": -1, "stream_interval": 0}
SCHEMA = {"$ref": "#/nowhere"}
TAG: dict[str, Any] = {"format": {}}

CASES = [
    *(("/v1/chat/completions", {field: value}, field) for field, value in OPENAI.items()),
    *(("/v1/completions", {field: value}, field) for field, value in OPENAI.items()),
    *(
        ("/generate", {"sampling_params": {field: value}}, f"sampling_params.{field}")
        for field, value in NATIVE.items()
    ),
    (
        "/v1/chat/completions",
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        "response_format.json_schema.schema",
    ),
    ("/v1/completions", {"json_schema": SCHEMA}, "json_schema"),
    ("/generate", {"sampling_params": {"json_schema": SCHEMA}}, "sampling_params.json_schema"),
    (
        "/generate",
        {"sampling_params": {"structural_tag": TAG}},
        "sampling_params.structural_tag.format.type",
    ),
    (
        "/generate",
        {"sampling_params": [{"top_p": 9}], "text": ["x"]},
        "sampling_params[0].top_p",
    ),
]
PROMPTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/completions": {"prompt": "x"},
    "/generate": {"text": "x"},
}


@pytest.fixture(scope="module")
def client(engine: SimulatedEngine) -> Iterator[falcon.testing.TestClient]:
    with app_of(engine) as app:
        yield falcon.testing.TestClient(app)


@pytest.mark.parametrize(("path", "fields", "param"), CASES)
def test_an_error_names_the_field_as_its_api_does(
    client: falcon.testing.TestClient, path: str, fields: dict[str, Any], param: str
) -> None:
    result = client.simulate_post(path, body=json.dumps(PROMPTS[path] | fields))
    assert result.status_code == 400, result.text
    error = result.json["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert param in error["message"]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"max_new_tokens": 1, "min_new_tokens": 2}, ("min_new_tokens", "max_new_tokens")),
        ({"regex": "a", "ebnf": "b"}, ("regex", "ebnf")),
        ({"regex": "a", "json_schema": "{}"}, ("json_schema", "regex")),
    ],
)
def test_a_conflict_names_both_fields(
    client: falcon.testing.TestClient, fields: dict[str, Any], names: tuple[str, str]
) -> None:
    body = {"text": "x", "sampling_params": fields}
    error = client.simulate_post("/generate", body=json.dumps(body)).json["error"]
    assert error["param"] == f"sampling_params.{names[0]}"
    assert all(f"sampling_params.{name}" in error["message"] for name in names)
