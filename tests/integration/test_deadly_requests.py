"""No request makes the router send what kills an engine; the simulated one dies of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import falcon.testing
import pytest
from hypothesis import given, settings

from sglrouter.app import create_app
from sglrouter.config import Settings
from sglrouter.sim import SimulatedEngine
from tests.fast.profile import SOAK, soak
from tests.integration.requests import VOCAB, bodies, broken_bodies
from tests.processes import chat_body


@pytest.fixture(scope="module")
def client(engine: SimulatedEngine, tiny_model: Path) -> Iterator[falcon.testing.TestClient]:
    app = create_app(
        Settings(engine=[f"grpc://{engine.address}"], tokenizer=str(tiny_model), idle_timeout=20)
    )
    yield falcon.testing.TestClient(app)
    app.fleet.close()


def post(client: falcon.testing.TestClient, **fields: object) -> falcon.testing.Result:
    return client.simulate_post("/v1/chat/completions", body=json.dumps(chat_body(**fields)))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logit_bias": {str(VOCAB): 1}}, "logit_bias"),
        ({"logit_bias": {"one": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"1.5": 1}}, "logit_bias"),
        ({"logit_bias": {"\u0661": 1}}, "logit_bias"),
        ({"logit_bias": {" 1": 1}}, "logit_bias"),
        ({"logit_bias": {"": 1}}, "logit_bias"),
        ({"logprobs": True, "top_logprobs": VOCAB + 1}, "top_logprobs"),
        ({"stop_token_ids": [VOCAB], "min_tokens": 2}, "stop_token_ids"),
        ({"stop_token_ids": [-1], "min_tokens": 2}, "stop_token_ids"),
        ({"min_p": 1.5}, "min_p"),
        ({"top_k": -2}, "top_k"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        # The same in other words.
        ({"logit_bias": {"0" * 20 + str(VOCAB): 1}}, "logit_bias"),
        ({"logit_bias": {str(2**32 + 1): 1}}, "logit_bias"),
        ({"logprobs": True, "top_logprobs": str(VOCAB + 1)}, "top_logprobs"),
        ({"logprobs": "true", "top_logprobs": 10.0**9}, "top_logprobs"),
        ({"stop_token_ids": [2**32 + 1], "min_tokens": 2}, "stop_token_ids"),
        ({"stop_token_ids": [str(VOCAB)], "min_tokens": "2"}, "stop_token_ids"),
        ({"min_p": "1.5"}, "min_p"),
        ({"min_p": "nan"}, "min_p"),
        ({"top_k": "-2"}, "top_k"),
        ({"top_k": -2.0}, "top_k"),
        ({"top_k": -(2**32) - 1}, "top_k"),
        ({"repetition_penalty": "-inf"}, "repetition_penalty"),
        ({"n": 0}, "n"),
        ({"n": 5_000_000}, "n"),
        ({"min_tokens": 4, "max_tokens": 3}, "min_tokens"),
        ({"stop": ["x"] * 33}, "stop"),
        ({"lora_path": "unknown"}, "lora_path"),
    ],
)
def test_a_deadly_request_is_refused_with_its_field(
    client: falcon.testing.TestClient,
    engine: SimulatedEngine,
    fields: dict[str, object],
    param: str,
) -> None:
    for stream in (False, True):
        result = post(client, stream=stream, **fields)
        assert result.status_code == 400
        assert result.json["error"]["param"] == param
    assert engine.alive


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {str(VOCAB - 1): 1}},
        {"logprobs": True, "top_logprobs": 20},
        {"stop_token_ids": [VOCAB - 1], "min_tokens": 2},
        {"min_p": 1},
        {"top_k": -1},
        {"top_k": 0},
        {"repetition_penalty": 0.01},
        {"repetition_penalty": 1e-300},
        {"top_p": 5e-324},
        {"temperature": 1e-300},
        {"temperature": 3e38},
        {"stop": ["x"] * 32},
        {"min_tokens": 3, "max_tokens": 3},
        {"min_tokens": 10**9, "max_tokens": None},
        # What is never sent cannot kill.
        {"input_ids": []},
        {"input_ids": [VOCAB, -1]},
        {"data_parallel_rank": 7},
        {"custom_params": {"a": [{"b": [{}]}]}},
        {"custom_logit_processor": "!"},
        {"return_hidden_states": True},
        {"rid": ""},
    ],
)
def test_what_is_just_inside_works(
    client: falcon.testing.TestClient, engine: SimulatedEngine, fields: dict[str, object]
) -> None:
    assert post(client, **{"max_tokens": 3} | fields).status_code == 200
    assert engine.alive


def test_a_prompt_without_tokens_is_refused(engine: SimulatedEngine, tmp_path: Path) -> None:
    template = tmp_path / "empty.jinja"
    template.write_text("{{ messages[0].content }}")
    app = create_app(Settings(engine=[f"grpc://{engine.address}"], chat_template=str(template),
                              tokenizer=str(engine.options.model)))  # fmt: skip
    try:
        result = post(falcon.testing.TestClient(app), messages=[{"role": "user", "content": ""}])
        assert result.status_code == 400
        assert result.json["error"]["code"] == "empty_prompt"
        assert engine.alive
    finally:
        app.fleet.close()


def check_answer(body: bytes, result: falcon.testing.Result, engine: SimulatedEngine) -> int:
    """That the engine lives and the answer is whole; returns its status."""
    assert engine.alive, f"the engine died of {body!r}"
    assert result.status_code in (200, 400), (result.text, body)
    if result.status_code == 400:
        assert set(result.json) == {"error"}
        error = result.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        assert isinstance(error["message"], str)
        assert error["message"]
        assert error["code"] is None or isinstance(error["code"], str)
        assert error["param"] is None or isinstance(error["param"], str)
    elif result.headers["content-type"].startswith("text/event-stream"):
        assert result.text.endswith("data: [DONE]\n\n")
        assert '{"error"' not in result.text
    else:
        assert result.json["choices"]
    return result.status_code


@pytest.mark.long
def test_an_arbitrary_request_is_answered_or_refused(
    client: falcon.testing.TestClient, engine: SimulatedEngine
) -> None:
    statuses: Counter[int] = Counter()

    @settings(max_examples=2 * SOAK)
    @given(bodies())
    def run(body: bytes) -> None:
        result = client.simulate_post("/v1/chat/completions", body=body)
        statuses[check_answer(body, result, engine)] += 1

    run()
    # Neither is the rule, or much would not be tried.
    assert min(statuses[200], statuses[400]) > SOAK // 4, statuses


@pytest.mark.long
@pytest.mark.soak
@soak
@given(broken_bodies())
def test_bytes_that_are_nearly_a_request_are_answered_or_refused(
    client: falcon.testing.TestClient, engine: SimulatedEngine, body: bytes
) -> None:
    result = client.simulate_post("/v1/chat/completions", body=body)
    check_answer(body, result, engine)
