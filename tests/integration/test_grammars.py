"""Grammars end to end: refused here, refused by the engine, and sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.errors import from_grpc_status
from sglrouter.sim import SimulatedEngine
from tests.processes import RouterProcess

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("alpha", "beta")
]


@pytest.fixture(scope="module", params=["qwen", "pythonic"])
def forcing(
    request: pytest.FixtureRequest, engine: SimulatedEngine, tiny_model: Path
) -> Iterator[tuple[str, RouterProcess]]:
    """A router for a format that a grammar describes, and one for a format that none does."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "tool_call_parser": request.param,
        }
    )
    router.start()
    yield request.param, router
    router.stop()


def refusal(router: RouterProcess, **fields: Any) -> tuple[Any, Any]:
    response = router.chat(**fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error["code"], error["param"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_does_not_compile_is_the_clients_fault(
    router: RouterProcess, stream: bool
) -> None:
    assert refusal(router, stream=stream, regex="(((") == ("invalid_grammar", "regex")
    assert refusal(router, stream=stream, ebnf="root ::= (((") == ("invalid_grammar", "ebnf")


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["err_bad_regex", "err_bad_json_schema", "err_bad_ebnf"])
def test_a_real_engines_words_are_known(corpus: Path, name: str) -> None:
    lines = (corpus / "captures" / f"{name}.jsonl").read_text().splitlines()
    end = next(line for line in map(json.loads, lines) if line["kind"] == "end")
    assert from_grpc_status(end["code"], end["details"]).code == "invalid_grammar"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nope"}, "#/type"),
        ({"$ref": "#"}, "refers to itself"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "refers to itself"),
        ({"type": "object", "$defs": None}, "#/$defs"),
        ({"$ref": "http://127.0.0.1:9/x"}, "leads out"),
    ],
)
def test_a_schema_that_harms_engines_never_reaches_one(
    router: RouterProcess, engine: SimulatedEngine, stream: bool, schema: Any, words: str
) -> None:
    before = len(engine.requests)
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    response = router.chat(stream=stream, response_format=wanted)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": schema}}
    assert refusal(router, stream=stream, tools=[tool], tool_choice="required") == (
        "invalid_json_schema",
        "tools[0].function.parameters",
    )
    assert len(engine.requests) == before


CHOICES = [
    {"type": "function", "function": {"name": "beta"}},
    {"type": "function", "name": "beta"},
    {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "beta"}}],
        },
    },
]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_named_function_is_forced(
    forcing: tuple[str, RouterProcess], engine: SimulatedEngine, choice: Any
) -> None:
    parser, router = forcing
    native = parser == "qwen"
    engine.script(
        '<tool_call>\n{"name":"beta", "arguments":{}}\n</tool_call>'
        if native
        else '[{"name": "beta", "parameters": {}}]'
    )
    response = router.chat(tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
    assert response.status_code == 200, response.text
    answer = response.json()["choices"][0]
    assert [call["function"]["name"] for call in answer["message"]["tool_calls"]] == ["beta"]
    assert answer["finish_reason"] == "tool_calls"

    request = engine.requests[-1]
    assert isinstance(request, pb.GenerateRequest)
    assert "beta" in request.tokenized.original_text
    assert "alpha" not in request.tokenized.original_text
    if native:
        tag = json.loads(request.sampling_params.structural_tag)["format"]
        assert (tag["at_least_one"], tag["stop_after_first"]) == (True, True)
        begins = [item["begin"] for item in tag["tags"]]
        assert begins == ['<tool_call>\n{"name":"beta", "arguments":']
    else:
        schema = json.loads(request.sampling_params.json_schema)
        assert schema["maxItems"] == 1
        names = [item["properties"]["name"]["enum"] for item in schema["items"]["anyOf"]]
        assert names == [["beta"]]
