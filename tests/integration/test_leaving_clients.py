"""A client that has said its last word gets its answer; one that has left is noticed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.integration.sockets import RawClient, raw_client
from tests.processes import RouterProcess, joined, sse_data

WORDS = "one two three four five six"


@contextmanager
def pace(engine: SimulatedEngine, first: float, token: float) -> Iterator[None]:
    engine.options.first_delay, engine.options.token_delay = first, token
    try:
        yield
    finally:
        engine.options.first_delay = engine.options.token_delay = 0.0


def streamed(client: RawClient, version: str) -> str:
    head = client.until(b"\r\n\r\n")
    assert head.startswith(b"HTTP/%b 200 OK\r\n" % version.encode()), head
    if version == "1.1":
        body = client.chunked_body()
    else:
        while client.receive():
            pass
        body = client.data
    *events, done = sse_data(body.decode())
    assert done == "[DONE]"
    return joined([json.loads(event) for event in events])


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("when", ["at once", "before the first token", "in the middle"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_half_closed_client_gets_its_answer(
    router: RouterProcess, engine: SimulatedEngine, stream: bool, when: str, version: str
) -> None:
    engine.script(WORDS)
    with pace(engine, 1.5, 0.2), raw_client(router.port) as client:
        client.post(version, stream=stream)
        if when == "before the first token":
            engine.wait_until(lambda: engine.active == 1)
        elif when == "in the middle":
            if stream:
                while b'"one' not in client.data:
                    assert client.receive()
            else:
                engine.wait_until(lambda: engine.active == 1)
        client.end_sending()
        if stream:
            assert streamed(client, version) == WORDS
        else:
            head, body = client.response()
            assert head.startswith(b"http/%b 200 ok\r\n" % version.encode()), head
            assert json.loads(body)["choices"][0]["message"]["content"] == WORDS
        # Nothing more can come, so nothing is waited for.
        assert client.ended()


@pytest.mark.parametrize("stream", [True, False])
def test_a_half_closed_client_gets_an_error_that_comes_late(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, stream: bool
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, first_token_timeout=1
    )
    engine.fault("hang")
    with raw_client(router.port) as client:
        client.post(stream=stream)
        client.end_sending()
        head, body = client.response()
    assert head.startswith(b"http/1.1 504 "), head
    assert json.loads(body)["error"]["code"] == "engine_timeout"


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/openapi.json"])
def test_a_half_closed_client_may_ask_anything(router: RouterProcess, path: str) -> None:
    with raw_client(router.port) as client:
        client.get(path)
        client.end_sending()
        head, body = client.response()
    assert head.startswith(b"http/1.1 200 ok\r\n")
    json.loads(body)


@pytest.mark.parametrize("stream", [True, False])
def test_a_half_closed_client_that_leaves_later_is_noticed(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script([[7]] * 3000)
    with pace(engine, 30.0, 0.0), raw_client(router.port) as client:
        client.post(stream=stream)
        client.end_sending()
        engine.wait_until(lambda: engine.active == 1)
        # It is asked the first time before it leaves.
        assert client.receive() == b"H"
        client.close()
        engine.wait_until(lambda: engine.active == 0)


@pytest.mark.parametrize("stream", [True, False])
def test_how_fast_a_client_that_closes_is_noticed(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script([[7]] * 3000)
    with pace(engine, 30.0, 0.0):
        waits = []
        for _ in range(10):
            with raw_client(router.port) as client:
                client.post(stream=stream)
                engine.wait_until(lambda: engine.active == 1)
                started = time.monotonic()
            engine.wait_until(lambda: engine.active == 0)
            waits.append(time.monotonic() - started)
    # Other processes may hold up some of them.
    assert min(waits) < 0.3, waits


def test_a_silent_stream_that_grpcio_brings_notices_it_too(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    pytest.importorskip("grpc")
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, channel="grpcio", heartbeat=300
    )
    engine.script([[7]] * 3000)
    engine.fault("hang,after=2")
    with raw_client(router.port) as client:
        client.post(stream=True)
        client.until(b'"content"')
    engine.wait_until(lambda: engine.active == 0)
    engine.fault()
    engine.script(WORDS)
    with pace(engine, 0.5, 0.1), raw_client(router.port) as client:
        client.post(stream=True)
        client.end_sending()
        assert streamed(client, "1.1") == WORDS
