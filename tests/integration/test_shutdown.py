"""Stopping, crashing and reporting for duty: what systemd and a restart rely on."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import gevent.socket
import httpx
import pytest

from sglrouter.http.clock import Clock
from sglrouter.server.idle_connections import RequestWait, Room
from tests.integration.sockets import raw_client
from tests.patience import PATIENCE, PROMPT
from tests.processes import RouterProcess, chat_body, joined, sse_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sglrouter.sim import SimulatedEngine
    from tests.conftest import StartRouter

# How long an idle connection could hold up the exit, and what a prompt exit stays below.
KEEPALIVE = 30
LIVENESS = b"GET /liveness HTTP/1.1\r\nHost: router\r\n\r\n"
LONG_ANSWER = " ".join(f"word{number}" for number in range(60))


@pytest.fixture
def serve(start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path) -> StartRouter:
    """Starts routers in front of `engine`."""

    def start(**settings: object) -> RouterProcess:
        return start_router(
            **{
                "engine": f"grpc://{engine.address}",
                "tokenizer": tiny_model,
                "model_name": "tiny",
                "keepalive": KEEPALIVE,
                **settings,
            }
        )

    return start


@pytest.fixture
def slowly(engine: SimulatedEngine) -> Iterator[None]:
    """An answer so slow that it runs until a test lets it go."""
    engine.script(LONG_ANSWER)
    engine.options.token_delay = 0.2
    yield
    engine.options.token_delay = 0.0


def wait_for(condition: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def connect(router: RouterProcess) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", router.port), timeout=PATIENCE)
    connection.settimeout(PATIENCE)
    return connection


def refuses(router: RouterProcess) -> bool:
    try:
        connect(router).close()
    except OSError:
        return True
    return False


def read_answer(connection: socket.socket) -> bytes:
    """One short response, or b"" if the connection was closed instead."""
    answer = b""
    while not answer.endswith(b'{"status":"ok"}'):
        data = connection.recv(4096)
        if not data:
            break
        answer += data
    return answer


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def worker_pids(router: RouterProcess) -> set[int]:
    children = Path(f"/proc/{router.pid}/task/{router.pid}/children").read_text()
    return {int(pid) for pid in children.split()}


def process_status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Keeps a process from running, as if the machine were busy."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: process_status(pid)["State"].startswith("T"), "it does not stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_told(pid: int, number: signal.Signals) -> bool:
    """Whether a signal waits for a process that is stopped."""
    return bool(int(process_status(pid)["ShdPnd"], 16) & 1 << (number - 1))


def test_a_running_stream_ends_and_idle_connections_do_not_wait(
    serve: StartRouter, engine: SimulatedEngine, slowly: None
) -> None:
    router = serve()
    with connect(router) as idle, connect(router) as silent:
        idle.sendall(LIVENESS)
        assert b" 200 OK" in read_answer(idle)
        with router.http.stream(
            "POST", "/v1/chat/completions", json=chat_body(stream=True)
        ) as response:
            pieces = response.iter_text()
            text = next(pieces)
            told = time.monotonic()
            router.signal(signal.SIGTERM)
            wait_for(lambda: refuses(router), "connections are still accepted")
            # They are closed while the stream goes on.
            assert is_closed(idle)
            assert is_closed(silent)
            assert time.monotonic() - told < PROMPT
            assert engine.active == 1
            engine.options.token_delay = 0.0
            text += "".join(pieces)
    events = list(sse_data(text))
    assert events[-1] == "[DONE]"
    assert joined([json.loads(event) for event in events[:-1]]) == LONG_ANSWER
    # The stream's own connection is open at the client and idle now: it does not hold
    # the exit up either.
    assert router.wait(PROMPT) == 0, router.log
    assert "Traceback" not in router.log


def test_a_stream_beyond_graceful_timeout_is_cut(
    serve: StartRouter, engine: SimulatedEngine
) -> None:
    router = serve(graceful_timeout=1, heartbeat=0.1)
    engine.script(LONG_ANSWER)
    engine.fault("hang,after=2")
    with router.http.stream(
        "POST", "/v1/chat/completions", json=chat_body(stream=True)
    ) as response:
        pieces = response.iter_text()
        next(pieces)
        router.signal(signal.SIGTERM)
        started = time.monotonic()
        *_, error, done = sse_data("".join(pieces))
    assert json.loads(error)["error"]["code"] == "server_shutting_down"
    assert done == "[DONE]"
    assert router.wait() == 0, router.log
    assert time.monotonic() - started < PROMPT
    engine.wait_until(lambda: engine.active == 0)


def test_a_connection_made_before_sigterm_is_served(serve: StartRouter) -> None:
    router = serve()
    with connect(router) as fresh:
        # Accepted in order: when a later one has been served, this one is not in the queue.
        assert router.http.get("/liveness").status_code == 200
        router.signal(signal.SIGTERM)
        wait_for(lambda: refuses(router), "connections are still accepted")
        fresh.sendall(LIVENESS)
        answer = read_answer(fresh)
        assert b" 200 OK" in answer
        assert b"connection: close" in answer.lower()
        assert is_closed(fresh)
    assert router.wait(PROMPT) == 0


def test_a_request_that_has_arrived_is_served(serve: StartRouter) -> None:
    router = serve()
    (worker,) = worker_pids(router)
    with connect(router) as idle:
        idle.sendall(LIVENESS)
        assert b" 200 OK" in read_answer(idle)
        # The worker sees the request and SIGTERM at the same time.
        with stopped(worker):
            idle.sendall(LIVENESS)
            router.signal(signal.SIGTERM)
            wait_for(lambda: is_told(worker, signal.SIGTERM), "the worker was not told")
        assert b" 200 OK" in read_answer(idle)
        assert is_closed(idle)
    assert router.wait(PROMPT) == 0


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP"])
def test_a_wait_that_is_brought_forward(sent: bytes) -> None:
    """What arrives before the loop looks is read; else the wait ends, and early."""
    ours, theirs = gevent.socket.socketpair()
    room = Room(10, 1, Clock())

    def wait() -> bytes | None:
        with RequestWait(room, KEEPALIVE, 0.0, inside=True, served=True):
            data: bytes = ours.recv(100)
            return data
        return None

    started = time.monotonic()
    waiting = gevent.spawn(wait)
    gevent.sleep(0)
    if sent:
        theirs.send(sent)
    room.empty()
    room.empty()
    assert waiting.get() == (sent or None)
    assert time.monotonic() - started < PROMPT
    ours.close()
    theirs.close()


def test_a_killed_worker_is_replaced(serve: StartRouter) -> None:
    router = serve()
    (first,) = worker_pids(router)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: bool(worker_pids(router) - {first}), "no worker in its place")
    router.wait_until_ready()
    assert router.chat().status_code == 200
    assert first not in worker_pids(router)


def test_each_of_two_workers_answers(serve: StartRouter) -> None:
    router = serve(workers=2)
    wait_for(lambda: len(worker_pids(router)) == 2, "the second worker is missing")
    for idle in worker_pids(router):
        with stopped(idle):
            # On a connection of its own: a kept one would wait for the worker that holds it.
            answer = httpx.post(
                f"{router.url}/v1/chat/completions", json=chat_body(), timeout=PATIENCE
            )
            assert answer.status_code == 200, answer.text
    router.signal(signal.SIGTERM)
    assert router.wait(PROMPT) == 0


def test_systemd_is_told_when_the_port_is_open(
    serve: StartRouter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        router = serve()
        assert "READY=1" in systemd.recv(4096).decode().splitlines()
        # Nothing else was said before, and nothing since.
        systemd.setblocking(False)
        with pytest.raises(BlockingIOError):
            systemd.recv(4096)
        assert router.http.get("/liveness").status_code == 200


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/completions", {"prompt": "x"}),
        ("/generate", {"text": "x"}),
    ],
)
def test_each_request_that_is_left_gets_an_error_for_its_end(
    serve: StartRouter, engine: SimulatedEngine, path: str, fields: dict[str, object]
) -> None:
    router = serve(graceful_timeout=3)
    engine.script(LONG_ANSWER)
    engine.fault("hang,after=2,times=1", "hang")
    with ExitStack() as stack:
        asked = router.http.stream("POST", path, json=fields | {"stream": True})
        stream = stack.enter_context(asked)
        pieces = stream.iter_text()
        text = next(pieces)
        # Whole answers, one of them not even begun, and a body that is still being sent.
        waiting = [stack.enter_context(raw_client(router.port)) for _ in range(3)]
        waiting[0].send(json.dumps(fields).encode(), path)
        engine.wait_until(lambda: engine.active == 2)
        waiting[1].send(json.dumps(fields | {"stream": True}).encode(), path)
        engine.wait_until(lambda: engine.active == 3)
        waiting[2].send(b'{"', path, size=100)
        router.signal(signal.SIGTERM)
        text += "".join(pieces)
        *_, error, done = sse_data(text)
        assert done == "[DONE]"
        assert json.loads(error)["error"]["code"] == "server_shutting_down"
        for client in waiting:
            head, body = client.response()
            assert head.startswith(b"http/1.1 503 "), head
            assert b"retry-after: 1" in head
            assert b"connection: close" in head
            assert json.loads(body)["error"]["code"] == "server_shutting_down"
            assert client.ended()
    assert router.wait(PROMPT) == 0, router.log
    assert "Traceback" not in router.log
    engine.wait_until(lambda: engine.active == 0)


def test_a_worker_that_has_served_its_share_ends_its_streams_too(
    serve: StartRouter, engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--max-requests 3")
    router = serve(graceful_timeout=2)
    (first,) = worker_pids(router)
    engine.script(LONG_ANSWER)
    engine.fault("hang,after=2,times=1")
    with router.http.stream(
        "POST", "/v1/chat/completions", json=chat_body(stream=True)
    ) as response:
        pieces = response.iter_text()
        text = next(pieces)
        while worker_pids(router) == {first}:
            httpx.get(f"{router.url}/liveness", timeout=PATIENCE)
        text += "".join(pieces)
    *_, error, done = sse_data(text)
    assert json.loads(error)["error"]["code"] == "server_shutting_down"
    assert done == "[DONE]"
    wait_for(lambda: first not in worker_pids(router), "the old worker stays")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_nothing_is_lost_when_workers_change(
    serve: StartRouter, engine: SimulatedEngine, slowly: None, number: signal.Signals
) -> None:
    router = serve(graceful_timeout=60)
    before = worker_pids(router)
    with router.http.stream(
        "POST", "/v1/chat/completions", json=chat_body(stream=True)
    ) as response:
        pieces = response.iter_text()
        text = next(pieces)
        router.signal(number)
        if number == signal.SIGHUP:
            wait_for(lambda: bool(worker_pids(router) - before), "no new worker")
            answer = httpx.get(f"{router.url}/v1/models", timeout=PATIENCE)
            assert answer.status_code == 200
        engine.options.token_delay = 0.0
        text += "".join(pieces)
    *events, done = sse_data(text)
    assert done == "[DONE]"
    assert joined([json.loads(event) for event in events]) == LONG_ANSWER
