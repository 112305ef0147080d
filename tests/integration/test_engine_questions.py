"""What engines say of themselves and are told to do, one or several, up or down."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from sglrouter.version import __version__
from tests.conftest import StartRouter
from tests.patience import LONG, PATIENCE
from tests.processes import RouterProcess, chat_body, free_port

INFORMATION = [
    "/model_info",
    "/get_model_info",
    "/server_info",
    "/get_server_info",
    "/v1/loads",
    "/get_loads",
]
HEALTH = ["/health", "/readiness", "/ready", "/ping", "/health_generate"]
CONTROL = ["/flush_cache", "/start_profile", "/stop_profile"]
SECRETS = {
    "api_key": "sk-s3cret",
    "ssl_keyfile_password": "s3cret-too",
    "nested": {"hf_token": ["s3cret-three"]},
    "launch_command": "launch --api-key sk-s3cret",
}


@pytest.fixture(scope="module")
def old_engine() -> Iterator[SimulatedEngine]:
    """One of a version without the calls of control."""
    with SimulatedEngine(SimOptions(dialect="0.5.9")) as engine:
        yield engine


@pytest.fixture(params=["native", "grpcio"])
def pair(
    request: pytest.FixtureRequest,
    start_router: StartRouter,
    engine: SimulatedEngine,
    tiny_model: Path,
) -> RouterProcess:
    """A router of one engine that is up and one that is not."""
    if request.param == "native":
        request.getfixturevalue("native")
    return start_router(
        engine=f"grpc://{engine.address},grpc://127.0.0.1:{free_port()}",
        tokenizer=tiny_model,
        channel=request.param,
    )


@pytest.fixture
def nobody(start_router: StartRouter, tiny_model: Path) -> RouterProcess:
    return start_router(engine=f"grpc://127.0.0.1:{free_port()}", tokenizer=tiny_model)


def get(router: RouterProcess, path: str, **query: Any) -> dict[str, Any]:
    response = router.http.get(path, params=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
def test_model_info(router: RouterProcess, tiny_model: Path, path: str) -> None:
    info = get(router, path)
    (engine,) = info.pop("engines")
    assert engine.pop("endpoint").startswith("grpc://127.0.0.1:")
    assert info == engine
    assert info == {
        "model_path": str(tiny_model),
        "served_model_name": "tiny",
        "tokenizer_path": str(tiny_model),
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "reasoning_parser": "qwen3",
        "tool_call_parser": "hermes",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "max_context_length": 8192,
        "vocab_size": 4096,
    } | {name: info[name] for name in ("model_type", "architectures", "vocab_size")}


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_server_info_without_secrets(
    router: RouterProcess, engine: SimulatedEngine, path: str
) -> None:
    engine.options.server_args = dict(SECRETS)
    try:
        response = router.http.get(path)
    finally:
        engine.options.server_args = {}
    assert "s3cret" not in response.text
    info = response.json()
    (only,) = info.pop("engines")
    assert only.pop("endpoint") == f"grpc://{engine.address}"
    assert info == only
    assert info["api_key"] == info["ssl_keyfile_password"] == "<redacted>"
    assert info["launch_command"] == "launch --api-key <redacted>"
    # The arguments, the scheduler's state, and the engine's own.
    assert info["context_length"] == 8192
    assert info["status"] == "ready"
    assert info["version"] == info["sglang_version"] == "0.5.23"
    assert info["tool_call_parser"] is None


@pytest.mark.parametrize("path", ["/v1/loads", "/get_loads"])
def test_loads(router: RouterProcess, path: str) -> None:
    loads = get(router, path)
    (engine,) = loads.pop("engines")
    del engine["endpoint"]
    assert {**engine, "timestamp": 0} == {**loads, "timestamp": 0}
    (rank,) = loads["loads"]
    assert rank["num_running_reqs"] == 0
    assert "memory" in rank
    assert "queues" in rank
    (rank,) = get(router, path, include="core, queues")["loads"]
    assert "memory" not in rank
    assert "queues" in rank
    assert get(router, path, dp_rank=1)["loads"] == []
    for query in ({"include": "nonsense"}, {"dp_rank": "x"}, {"dp_rank": -1}, {"format": "xml"}):
        response = router.http.get(path, params=query)
        assert response.status_code == 400, query
        assert response.json()["error"]["type"] == "invalid_request_error"


def test_a_busy_engine_is_seen_and_not_flushed(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("word " * 1000)
    engine.options.token_delay = 0.05
    with router.http.stream(
        "POST",
        "/v1/chat/completions",
        json={"messages": [{"role": "user", "content": "x"}], "stream": True},
    ) as response:
        pieces = response.iter_text()  # kept, or the stream would end
        next(pieces)
        engine.wait_until(lambda: get(router, "/v1/loads")["loads"][0]["num_running_reqs"] == 1)
        refused = router.http.post("/flush_cache")
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert error["code"] == "engine_refused"
        assert str(engine.address) in error["message"]
        assert "failed" in error["message"]
    engine.options.token_delay = 0.0
    engine.wait_until(lambda: engine.active == 0)
    done = router.http.post("/flush_cache", params={"timeout": 0.5})
    assert done.status_code == 200
    assert done.json() == {
        "success": True,
        "engines": [
            {"endpoint": f"grpc://{engine.address}", "message": "Cache flushed successfully"}
        ],
    }


@pytest.mark.parametrize("path", CONTROL)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_only_a_post_does_something(router: RouterProcess, path: str, method: str) -> None:
    refused = router.http.request(method, path)
    assert refused.status_code == 405
    assert refused.headers["allow"] == "POST, OPTIONS"


def test_get_does_it_where_it_is_set(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, control_by_get=True
    )
    assert router.http.get("/flush_cache").status_code == 200
    assert router.http.head("/flush_cache").status_code == 405
    assert "get" in router.http.get("/openapi.json").json()["paths"]["/flush_cache"]
    page = {"Sec-Fetch-Site": "cross-site"}
    assert router.http.get("/flush_cache", headers=page).status_code == 403


@pytest.mark.parametrize("timeout", ["-1", "nan", "inf", "601", "x", "1e400"])
def test_how_long_a_flush_may_take(router: RouterProcess, timeout: str) -> None:
    response = router.http.post("/flush_cache", params={"timeout": timeout})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "timeout"


def test_profiles(router: RouterProcess) -> None:
    not_yet = router.http.post("/stop_profile")
    assert not_yet.status_code == 400
    assert "not in progress" in not_yet.json()["error"]["message"]
    options = {"output_dir": "/tmp/x", "num_steps": 3, "activities": ["CPU"], "unknown": 1}
    started = router.http.post("/start_profile", json=options)
    assert started.status_code == 200
    assert started.headers["x-sglrouter-ignored"] == "output_dir"
    twice = router.http.post("/start_profile")
    assert twice.status_code == 400
    assert "already in progress" in twice.json()["error"]["message"]
    assert router.http.post("/stop_profile").json()["success"] is True
    for wrong in ({"num_steps": -1}, {"num_steps": 2**31}, {"activities": "CPU"}):
        response = router.http.post("/start_profile", json=wrong)
        assert response.status_code == 400, wrong
        assert response.json()["error"]["param"] == next(iter(wrong))


@pytest.mark.parametrize("path", HEALTH)
def test_health(router: RouterProcess, engine: SimulatedEngine, path: str) -> None:
    health = get(router, path)
    assert health["status"] == "ok"
    assert [(each["endpoint"], each["healthy"]) for each in health["engines"]] == [
        (f"grpc://{engine.address}", True)
    ]


def test_version(router: RouterProcess) -> None:
    assert get(router, "/version") == {"version": __version__}


def test_an_engine_that_is_down_hides_nothing(pair: RouterProcess, engine: SimulatedEngine) -> None:
    for path in INFORMATION:
        answer = get(pair, path)
        up, down = answer["engines"]
        assert up["endpoint"] == f"grpc://{engine.address}"
        assert "error" not in up
        assert len(up) > 4
        assert set(down) == {"endpoint", "error"}
        assert down["error"]["code"] == "engine_unavailable", path
    for path in HEALTH:
        states = [each["healthy"] for each in get(pair, path)["engines"]]
        assert states == [True, False], path
    for path in CONTROL:
        response = pair.http.post(path)
        assert response.status_code == 503
        error = response.json()["error"]
        assert "(the other 1 did it)" in error["message"]
        assert str(engine.address) not in error["message"]


def test_without_any_engine(nobody: RouterProcess) -> None:
    for path in HEALTH:
        assert nobody.http.get(path).status_code == 503, path
    asked = [*[("GET", path) for path in INFORMATION], *[("POST", path) for path in CONTROL]]
    for method, path in asked:
        response = nobody.http.request(method, path)
        assert response.status_code == 503, path
        assert response.json()["error"]["code"] == "engine_unavailable"
        assert "grpc://127.0.0.1:" in response.json()["error"]["message"]
    # What needs no engine is there.
    for path in ("/v1/models", "/liveness", "/version"):
        assert nobody.http.get(path).status_code == 200
    assert nobody.http.post("/tokenize", json={"prompt": "x"}).status_code == 200


def test_a_call_that_an_engine_lacks(
    start_router: StartRouter,
    engine: SimulatedEngine,
    old_engine: SimulatedEngine,
    tiny_model: Path,
) -> None:
    alone = start_router(engine=f"grpc://{old_engine.address}", tokenizer=tiny_model)
    mixed = start_router(
        engine=f"grpc://{engine.address},grpc://{old_engine.address}", tokenizer=tiny_model
    )
    for router in (alone, mixed):
        response = router.http.post("/flush_cache")
        assert response.status_code == 501
        error = response.json()["error"]
        assert error["code"] == "engine_unsupported"
        assert f"grpc://{old_engine.address}: The engine, SGLang 0.5.9," in error["message"]
    assert get(mixed, "/server_info")["engines"][1]["version"] == "0.5.9"


def test_engines_are_asked_at_the_same_time(start_router: StartRouter, tiny_model: Path) -> None:
    with (
        SimulatedEngine(SimOptions()) as one,
        SimulatedEngine(SimOptions()) as two,
        SimulatedEngine(SimOptions()) as three,
    ):
        addresses = ",".join(f"grpc://{each.address}" for each in (one, two, three))
        router = start_router(engine=addresses, tokenizer=tiny_model)
        for each in (one, two, three):
            each.script([[7]] * 5000)
            each.options.token_delay = 0.01
        with ThreadPoolExecutor() as threads, ExitStack() as streams:
            # An engine that is busy lets the answer wait until it is idle.
            for _ in range(3):
                streams.enter_context(
                    router.http.stream("POST", "/v1/chat/completions", json=chat_body(stream=True))
                )
            for each in (one, two, three):
                each.wait_until(lambda each=each: each.active == 1)  # type: ignore[misc]
            flushing = threads.submit(router.http.post, f"/flush_cache?timeout={LONG:g}")
            for each in (one, two, three):
                each.wait_until(lambda each=each: "FlushCache" in methods(each))  # type: ignore[misc]
            assert not flushing.done()
            streams.close()
            assert flushing.result(PATIENCE).status_code == 200


def methods(engine: SimulatedEngine) -> list[str]:
    return [call.method for call in engine.unary_calls]
