"""What a request may ask for, end to end: the edges of lengths, shapes and defaults."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from sglrouter.app import Router, create_app
from sglrouter.config import Settings
from sglrouter.errors import ConfigError
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import PATIENCE
from tests.processes import chat_body

CONTEXT = 200


@contextmanager
def app_of(engine: SimulatedEngine, **fields: Any) -> Iterator[Router]:
    """A router, in this process, in front of the engine."""
    values = {"engine": [f"grpc://{engine.address}"], "tokenizer": str(engine.options.model)}
    app = create_app(Settings(**values | fields))
    try:
        deadline = time.monotonic() + PATIENCE
        # A first connection may fail on a busy machine; limits need what the engine says.
        while not app.fleet.engines[0].facts_now().model_path and time.monotonic() < deadline:
            time.sleep(0.1)
        yield app
    finally:
        app.fleet.close()


def ask(app: Router, content: str = "x", /, **fields: Any) -> falcon.testing.Result:
    return falcon.testing.TestClient(app).simulate_post(
        "/v1/chat/completions", body=json.dumps(chat_body(content, **fields))
    )


@pytest.fixture(scope="module")
def client(engine: SimulatedEngine) -> Iterator[falcon.testing.TestClient]:
    with app_of(engine, max_json_depth=20, max_json_values=2000, lora_adapters=["sql=0a1b"]) as app:
        yield falcon.testing.TestClient(app)


@pytest.fixture(scope="module")
def small() -> Iterator[SimulatedEngine]:
    with SimulatedEngine(SimOptions(context_length=CONTEXT)) as engine:
        yield engine


def prompt_of(app: Router, tokens: int) -> str:
    """A text whose prompt has exactly that many tokens."""
    for length in range(1, 2 * tokens):
        text = "a " * length
        result = ask(app, text, max_tokens=1)
        if result.status_code == 400:
            break
        assert result.status_code == 200, result.text
        if result.json["usage"]["prompt_tokens"] == tokens:
            return text
    raise AssertionError(f"no text has {tokens} tokens")


@pytest.mark.parametrize("context_length", [0, 10_000])
def test_the_longest_prompt_works_and_one_more_token_is_refused_here(
    small: SimulatedEngine, context_length: int
) -> None:
    """The engine's own answer would be a refusal in other words, or none at all."""
    with app_of(small, context_length=context_length) as app:
        longest = CONTEXT - 7
        text = prompt_of(app, longest)
        result = ask(app, text, ignore_eos=True)
        assert result.status_code == 200
        assert result.json["usage"]["completion_tokens"] == 5
        assert result.json["choices"][0]["finish_reason"] == "length"
        calls = len(small.requests)
        for stream in (False, True):
            result = ask(app, text + "a ", stream=stream)
            assert result.status_code == 400
            assert result.headers["content-type"] == "application/json"
            error = result.json["error"]
            assert error["code"] == "context_length_exceeded"
            assert error["message"].startswith(
                f"This model's maximum context length is {CONTEXT} tokens. However, your messages "
                f"resulted in {longest + 1} tokens"
            )
        assert len(small.requests) == calls


def test_what_is_asked_for_is_never_more_than_the_engine_would_give(
    small: SimulatedEngine,
) -> None:
    with app_of(small) as app:
        for field in ("max_tokens", "max_completion_tokens"):
            result = ask(app, **{field: 32_000}, ignore_eos=True)
            usage = result.json["usage"]
            asked = small.requests[-1].sampling_params.max_new_tokens
            assert usage["completion_tokens"] == asked
            assert usage["prompt_tokens"] + asked == CONTEXT - 2
            assert result.json["choices"][0]["finish_reason"] == "length"


def test_odd_defaults_of_a_model_refuse_nobody(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "odd")
    odd = {"temperature": -1, "top_p": 3, "top_k": -7, "min_p": 0.25, "repetition_penalty": 0}
    (model / "generation_config.json").unlink(missing_ok=True)
    (model / "generation_config.json").write_text(json.dumps(odd))
    with SimulatedEngine(SimOptions(model=model)) as engine, app_of(engine) as app:
        at_start = [r for r in caplog.records if r.levelno == logging.WARNING]
        assert len(at_start) == 4
        for _ in range(3):
            assert ask(app, max_tokens=2).status_code == 200
        params = engine.requests[-1].sampling_params
        assert (params.temperature, params.top_p, params.top_k) == (1.0, 1.0, -1)
        assert (params.min_p, params.repetition_penalty) == (0.25, 1.0)
        assert engine.alive
        # Once for the engine, which says the same.
        assert len([r for r in caplog.records if "out of range" in r.getMessage()]) == 8


def test_an_adapter_is_named_and_its_id_sent(
    client: falcon.testing.TestClient, engine: SimulatedEngine
) -> None:
    for fields, wanted in (
        ({"lora_path": "sql"}, "0a1b"),
        ({"model": "tiny:sql"}, "0a1b"),
        ({}, ""),
    ):
        body = json.dumps(chat_body(max_tokens=1) | fields)
        assert client.simulate_post("/v1/chat/completions", body=body).status_code == 200
        assert engine.requests[-1].lora_id == wanted
    body = json.dumps(chat_body(lora_path="0a1b"))
    result = client.simulate_post("/v1/chat/completions", body=body)
    assert (result.status_code, result.json["error"]["param"]) == (400, "lora_path")


def test_a_wrong_adapter_setting_stops_the_start(engine: SimulatedEngine) -> None:
    with pytest.raises(ConfigError, match="lora_adapters"), app_of(engine, lora_adapters=["=a"]):
        pass


def test_what_engines_are_not_told_of_is_named(
    client: falcon.testing.TestClient, engine: SimulatedEngine
) -> None:
    body = chat_body(
        max_tokens=1,
        seed=0,
        stop_regex="a+",
        custom_params={"x": [{}]},
        custom_logit_processor="code",
        input_ids=[1, 2, 10**9],
        priority=1,
        data_parallel_rank=9,
        return_hidden_states=True,
        return_meta_info=False,
        user="someone",
    )
    result = client.simulate_post("/v1/chat/completions", body=json.dumps(body))
    assert result.status_code == 200
    assert result.headers["x-sglrouter-ignored"].split(",") == [
        "seed",
        "stop_regex",
        "custom_logit_processor",
        "custom_params",
        "priority",
        "data_parallel_rank",
        "return_hidden_states",
        "input_ids",
    ]
    request = engine.requests[-1]
    assert not request.custom_logit_processor
    assert not request.return_hidden_states
    assert not request.HasField("data_parallel_rank")
    assert not request.sampling_params.HasField("custom_params")


@pytest.mark.parametrize(
    "content_type", [None, "application/json", "text/plain", "application/x-www-form-urlencoded"]
)
def test_a_body_is_json_whatever_its_type_says(
    client: falcon.testing.TestClient, content_type: str | None
) -> None:
    result = client.simulate_post(
        "/v1/chat/completions", body=json.dumps(chat_body(max_tokens=1)), content_type=content_type
    )
    assert result.status_code == 200


def content(escaped: str) -> bytes:
    return b'{"max_tokens":1,"messages":[{"role":"user","content":"%s"}]}' % escaped.encode()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_json"),
        (b"null", 400, "invalid_type"),
        (b"[]", 400, "invalid_type"),
        (b'"x"', 400, "invalid_type"),
        (b"1", 400, "invalid_type"),
        (content("\\ud83d"), 400, "invalid_json"),
        (content("\\ude00 \\ud83d"), 400, "invalid_json"),
        (b'{"messages":[{"role":"user","content":"x","name":"\\ud83d"}]}', 400, "invalid_json"),
        (b'{"messages":[{"role":"user","content":"\xff"}]}', 400, "invalid_json"),
        (content("\\u0000 \\u2028 \\uffff \\ud83d\\ude00"), 200, None),
        (content("a"), 200, None),
        (b"\xef\xbb\xbf" + content("a"), 200, None),
        (b'{"messages":[{"content":' + b"[" * 1500, 400, "invalid_json"),
        (b'{"messages":' + b"[" * 20_000, 400, "request_too_large"),
        (b'{"max_tokens":1,"messages":[{"role":"assistant","content":"Hi"}]}', 200, None),
        (b'{"messages":[]}', 400, None),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "request_too_large"),
        (b'{"messages":[' + b"{}," * 3000 + b"{}]}", 400, "request_too_large"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_odd_bodies(
    client: falcon.testing.TestClient,
    engine: SimulatedEngine,
    body: bytes,
    status: int,
    code: str | None,
) -> None:
    result = client.simulate_post("/v1/chat/completions", body=body)
    assert result.status_code == status, result.text
    if code is not None:
        assert result.json["error"]["code"] == code
    assert engine.alive


@pytest.mark.parametrize("field", ["tools", "response_format", "chat_template_kwargs", "messages"])
def test_nesting_has_its_own_bound_in_every_field(
    client: falcon.testing.TestClient, field: str
) -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = {"default": value}
        return value

    def post(depth: int) -> falcon.testing.Result:
        schema = nested(depth)
        fields: dict[str, dict[str, Any]] = {
            "tools": {"tools": [{"type": "function",
                                 "function": {"name": "f", "parameters": schema}}]},
            "response_format": {"response_format": {"type": "json_schema",
                                                    "json_schema": {"schema": schema}}},
            "chat_template_kwargs": {"chat_template_kwargs": {"x": schema}},
            "messages": {"messages": [{"role": "user", "content": "x", "extra": schema}]},
        }  # fmt: skip
        body = json.dumps(chat_body(max_tokens=1) | fields[field])
        return client.simulate_post("/v1/chat/completions", body=body)

    assert post(10).status_code == 200
    result = post(20)
    assert result.status_code == 400
    assert "at most 20" in result.json["error"]["message"]


def children(pid: int) -> str:
    """The worker processes of a server."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_a_server_outlives_the_worst_shapes(
    engine: SimulatedEngine, tiny_model: Path, start_router: StartRouter
) -> None:
    """In a real worker, whose greenlets have their own idea of how deep a call may go."""
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, max_body=32 * 1024 * 1024
    )
    workers = children(router.pid)
    assert workers
    many_biases = json.dumps(dict.fromkeys(map(str, range(4000)), 1)).encode()
    usual = b'{"messages":[{"role":"user","content":"x"}],'
    for body, code in (
        (b"[" * 10_000_000, "request_too_large"),
        (b'{"messages":' + b"[" * 400_000, "request_too_large"),
        (b'{"messages":' + b"[" * 60_000, "invalid_type"),
        (usual + b'"tools":[{"x":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}]}", "invalid_json"),
        (usual + b'"tools":[{"x":' + b'{"a":' * 60_000, "invalid_json"),
        (usual + b'"tools":[' + b"{}," * 3_000_000 + b"{}]}", "request_too_large"),
        (usual + b'"n":' + b"9" * 5_000_000 + b"}", "invalid_type"),
        (usual + b'"n":' + b"9" * 4000 + b"}", "invalid_value"),
        (usual + b'"model":"' + b"m" * 5_000_000 + b'"}', "invalid_value"),
        (usual + b'"stop":"' + b"s" * 5_000_000 + b'"}', "invalid_value"),
        (usual + b'"ebnf":"' + b"r" * 5_000_000 + b'"}', "invalid_value"),
        (usual + b'"lora_path":"' + b"l" * 5_000_000 + b'"}', "adapter_not_found"),
        (usual + b'"logprobs":true,"top_logprobs":1000000}', "invalid_value"),
        (usual + b'"n":5000000}', "invalid_value"),
        (usual + b'"logit_bias":{' + b'"1":1,' * 1_000_000 + b'"1":1}}', "request_too_large"),
        (usual + b'"logit_bias":' + many_biases + b"}", "invalid_value"),
        (
            b'{"messages":[{"role":"user","content":"%s"}]}' % (b"a" * 5_000_000),
            "context_length_exceeded",
        ),
        (usual + b'"logit_bias":{"' + b"9" * 5_000_000 + b'":1}}', "invalid_value"),
    ):
        response = router.http.post("/v1/chat/completions", content=body)
        assert response.status_code == 400, body[:60]
        error = response.json()["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", code), body[:60]
        assert len(response.content) < 1000
    assert router.chat(max_tokens=1).status_code == 200
    assert children(router.pid) == workers
    assert "Traceback" not in router.log
