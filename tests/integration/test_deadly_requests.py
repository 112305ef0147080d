"""No request makes the router send what kills an engine; the simulated one dies of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import falcon.testing
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglrouter.app import create_app
from sglrouter.config import Settings
from sglrouter.sim import SimulatedEngine
from tests.processes import chat_body

VOCAB = 4096


@pytest.fixture(scope="module")
def client(engine: SimulatedEngine, tiny_model: Path) -> Iterator[falcon.testing.TestClient]:
    app = create_app(
        Settings(engine=[f"grpc://{engine.address}"], tokenizer=str(tiny_model), idle_timeout=20)
    )
    yield falcon.testing.TestClient(app)
    app.pool.close()


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
        app.pool.close()


numbers = st.one_of(
    st.none(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-2, -1, 0, 1, 2, VOCAB - 1, VOCAB, VOCAB + 1, 0.0, 1.0, -1e-9, 1e300]),
)
ids = st.one_of(st.integers(-2, VOCAB + 2), st.integers(-(2**40), 2**40))
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=5,
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "stream": st.booleans(),
        "n": st.one_of(st.integers(1, 3), numbers),
        "temperature": numbers,
        "top_p": numbers,
        "top_k": numbers,
        "min_p": numbers,
        "frequency_penalty": numbers,
        "presence_penalty": numbers,
        "repetition_penalty": numbers,
        "max_tokens": st.one_of(st.integers(1, 5), numbers),
        "min_tokens": st.one_of(st.integers(0, 5), numbers),
        "stop": st.one_of(st.text(max_size=5), st.lists(st.text(max_size=5), max_size=40)),
        "stop_token_ids": st.lists(ids, max_size=4),
        "ignore_eos": st.booleans(),
        "logit_bias": st.dictionaries(
            st.one_of(ids.map(str), st.text(max_size=4)), numbers, max_size=3
        ),
        "logprobs": st.booleans(),
        "top_logprobs": st.one_of(st.integers(0, 25), numbers),
        "messages": st.one_of(
            st.lists(st.dictionaries(st.sampled_from(["role", "content"]), anything), max_size=3),
            anything,
        ),
        "tools": anything,
        "tool_choice": anything,
        "response_format": anything,
        "chat_template_kwargs": anything,
    },
)


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(requests)
def test_an_arbitrary_request_is_answered_or_refused(
    client: falcon.testing.TestClient, engine: SimulatedEngine, fields: dict[str, object]
) -> None:
    body = {"max_tokens": 3, "messages": [{"role": "user", "content": "x"}]} | fields
    result = client.simulate_post("/v1/chat/completions", body=json.dumps(body))
    assert engine.alive, f"the engine died of {body}"
    assert result.status_code in (200, 400), (result.text, body)
    if result.status_code == 200 and body.get("stream") is True:
        assert result.text.endswith("data: [DONE]\n\n")
        assert '{"error"' not in result.text
