"""A full worker says so at once, still tells that it lives, and lets idle clients go first."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.integration.sockets import RawClient, raw_client
from tests.patience import PATIENCE, PROMPT
from tests.processes import RouterProcess, chat_body

LIMIT = 4


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router that is soon full."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "worker_connections": LIMIT,
            "keepalive": 60,
        }
    )
    router.start()
    # Its connection counts.
    router.http.close()
    yield router
    router.stop()


@pytest.fixture
def busy(router: RouterProcess, engine: SimulatedEngine) -> Iterator[list[RawClient]]:
    """Clients that have the worker full of running streams."""
    engine.script([[7]] * 3000)
    engine.fault("hang,after=2")
    with ExitStack() as stack:
        clients = [stack.enter_context(raw_client(router.port)) for _ in range(LIMIT)]
        for client in clients:
            client.post(stream=True)
            client.until(b'"content"')
        yield clients
    engine.wait_until(lambda: engine.active == 0)


def ask(port: int, path: str) -> bytes:
    with raw_client(port) as client:
        client.get(path)
        head, _ = client.response()
        assert b"connection: close" in head
        assert client.ended()
        return head


@pytest.mark.usefixtures("busy")
def test_a_full_worker_refuses_at_once(router: RouterProcess, engine: SimulatedEngine) -> None:
    calls = len(engine.requests)
    for body in (b"{}", json.dumps(chat_body()).encode(), b"x" * 3_000_000):
        with raw_client(router.port) as client:
            started = time.monotonic()
            client.send(body)
            head, answer = client.response()
            assert time.monotonic() - started < PROMPT
            assert head.startswith(b"http/1.1 503 "), head
            assert b"retry-after: 1" in head
            assert b"connection: close" in head
            assert b"x-request-id: " in head
            assert json.loads(answer)["error"]["code"] == "overloaded"
            assert client.ended()
    assert len(engine.requests) == calls
    assert ask(router.port, "/v1/models").startswith(b"http/1.1 503 ")


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("path", ["/liveness", "/health", "/ready"])
def test_a_full_worker_tells_that_it_lives(router: RouterProcess, path: str) -> None:
    with ExitStack() as stack:
        # Nor do those who have been let in and say nothing hold it up.
        for _ in range(100):
            stack.enter_context(raw_client(router.port))
        started = time.monotonic()
        assert ask(router.port, path).startswith(b"http/1.1 200 ")
        assert time.monotonic() - started < PROMPT


def test_there_is_room_again_when_somebody_has_left(
    router: RouterProcess, engine: SimulatedEngine, busy: list[RawClient]
) -> None:
    assert ask(router.port, "/v1/models").startswith(b"http/1.1 503 ")
    busy[0].close()
    engine.wait_until(lambda: engine.active == LIMIT - 1)
    with raw_client(router.port) as client:
        client.get("/v1/models")
        head, _ = client.response()
        assert head.startswith(b"http/1.1 200 ")
        assert b"connection: keep-alive" in head


def test_the_longest_idle_makes_room(router: RouterProcess) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(raw_client(router.port)) for _ in range(LIMIT)]
        for client in idle:
            client.get("/liveness")
            client.response()
        with raw_client(router.port) as newcomer:
            newcomer.get("/v1/models")
            head, _ = newcomer.response()
            assert head.startswith(b"http/1.1 200 "), head
            assert b"connection: keep-alive" in head
            assert idle[0].ended()
            for client in idle[1:]:
                client.get("/liveness")
                head, _ = client.response()
                assert head.startswith(b"http/1.1 200 ")


def test_silent_newcomers_make_room(router: RouterProcess) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(raw_client(router.port)) for _ in range(LIMIT)]
        deadline = time.monotonic() + PATIENCE
        # They have a second for their request.
        while True:
            with raw_client(router.port) as client:
                client.get("/v1/models")
                head, _ = client.response()
            if head.startswith(b"http/1.1 200 "):
                break
            assert time.monotonic() < deadline
        assert silent[0].ended()


def test_a_full_worker_leaves_clients_to_one_that_is_not(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, worker_connections=LIMIT, workers=2
    )
    router.http.close()
    engine.script([[7]] * 3000)
    engine.fault("hang,after=2")
    with ExitStack() as stack:
        # Whichever worker is full first: the other one takes the rest. It has a moment for
        # each; whoever is refused because that was too short comes again, as he is told.
        deadline = time.monotonic() + PATIENCE
        admitted = 0
        while admitted < 2 * LIMIT:
            client = stack.enter_context(raw_client(router.port))
            client.post(stream=True)
            admitted += client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
            assert time.monotonic() < deadline
        engine.wait_until(lambda: engine.active == 2 * LIMIT)
        assert ask(router.port, "/v1/models").startswith(b"http/1.1 503 ")
        assert ask(router.port, "/liveness").startswith(b"http/1.1 200 ")
    engine.wait_until(lambda: engine.active == 0)
