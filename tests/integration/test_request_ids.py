"""One id for a request: in the answer, in the log, and in what the engine is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import RouterProcess, chat_body


@pytest.mark.parametrize("path", ["/v1/models", "/liveness", "/nothing", "/v1/chat/completions"])
def test_every_answer_has_an_id(router: RouterProcess, path: str) -> None:
    first, second = (router.http.get(path).headers["x-request-id"] for _ in range(2))
    assert len(first) == 32
    assert first != second


@pytest.mark.parametrize("given", ["abc-123", "x" * 128, "~!{}"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_clients_own_id_comes_back(router: RouterProcess, given: str, stream: bool) -> None:
    headers = {"X-Request-ID": given}
    body = chat_body(stream=stream)
    for fields in (body, {**body, "n": 0}):
        response = router.http.post("/v1/chat/completions", json=fields, headers=headers)
        assert response.headers["x-request-id"] == given


@pytest.mark.parametrize("given", [b"", b"x" * 129, b"two words", b"\xc3\xa9", b"tab\there"])
def test_an_id_that_is_not_fit_is_replaced(router: RouterProcess, given: bytes) -> None:
    response = router.http.get("/liveness", headers={b"X-Request-ID": given})
    assert len(response.headers["x-request-id"]) == 32


@pytest.mark.parametrize("channel", ["native", "grpcio"])
def test_engine_and_log_have_it_too(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, channel: str
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, channel=channel, access_log=True
    )
    headers = {"X-Request-ID": f"of-the-client-{channel}"}
    router.http.post("/v1/chat/completions", json=chat_body(), headers=headers)
    assert engine.metadata[-1]["x-request-id"] == f"of-the-client-{channel}"
    engine.fault("fail,times=1,after=2,status=INTERNAL,message=broken")
    headers = {"X-Request-ID": f"of-the-stream-{channel}"}
    router.http.post("/v1/chat/completions", json=chat_body(stream=True), headers=headers)
    engine.fault("fail,times=1,status=INTERNAL,message=broken")
    headers = {"X-Request-ID": f"of-the-refusal-{channel}"}
    router.http.post("/v1/chat/completions", json=chat_body(), headers=headers)
    lines = router.log.splitlines()
    for name, told in (("stream", "ended with an error"), ("refusal", "502 engine_error")):
        (line,) = [line for line in lines if f"request of-the-{name}-{channel}: " in line]
        assert told in line
        assert "broken" in line
    (access,) = [line for line in lines if line.endswith(f" of-the-client-{channel}")]
    assert "POST /v1/chat/completions" in access
