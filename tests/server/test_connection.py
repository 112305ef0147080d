"""A connection's states, with a real socket and an application that does as it is told."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import gevent
import gevent.socket
import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger

from sglrouter.errors import RouterError
from sglrouter.http.clock import Clock
from sglrouter.server.connection import Connection, State
from sglrouter.server.direct_client import WaitingClients
from sglrouter.server.idle_connections import Room
from sglrouter.server.plain_serving import PlainServing
from sglrouter.waiting import about_to_wait
from tests.patience import PATIENCE

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
ODD = b"GET /odd HTTP/1.1\r\nHost: h\r\nX: 1\r\nX: 2\r\n\r\n"
Application = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Served:
    """A connection whose greenlet runs."""

    def __init__(self, application: Application, *, keepalive: int = 60) -> None:
        cfg = Config()
        cfg.set("keepalive", keepalive)
        clock = Clock()
        self.worker = SimpleNamespace(
            cfg=cfg, nr=0, max_requests=10**9, alive=True, log=Logger(cfg)
        )
        self.room = Room(1, 1, clock)
        self.waiting = WaitingClients()
        serving = PlainServing(self.worker, application, self.room, self.waiting, clock)
        self.ours, self.client = gevent.socket.socketpair()
        self.connection = Connection(self.ours, serving, inside=self.room.enter())
        self.greenlet = gevent.spawn(self.serve, b"")

    def serve(self, data: bytes) -> bytes | None:
        return self.connection.serve(("127.0.0.1", 1), ("127.0.0.1", 80), data)

    @property
    def handed_over(self) -> bytes | None:
        handed_over: bytes | None = self.greenlet.get(timeout=PATIENCE)
        return handed_over

    def receive(self, end: bytes) -> bytes:
        self.client.settimeout(PATIENCE)
        received = b""
        while end not in received:
            piece = self.client.recv(65536)
            assert piece, received
            received += piece
        return received


def hello(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = environ["PATH_INFO"].encode() + environ["wsgi.input"].read()
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


@contextmanager
def served(application: Application = hello, **options: int) -> Iterator[Served]:
    connection = Served(application, **options)
    try:
        yield connection
    finally:
        connection.client.close()
        connection.greenlet.kill()
        connection.connection.close()
        connection.ours.close()


def test_a_request_is_answered_and_the_connection_idle_again() -> None:
    with served() as it:
        it.client.sendall(POST)
        answer = it.receive(b"/abody")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\nServer: gunicorn\r\n")
        assert b"\r\nConnection: keep-alive\r\n" in answer
        assert it.connection.state is State.IDLE
        assert it.worker.nr == 1


def test_many_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    with served() as it:
        it.client.sendall(b"".join(GET.replace(b"/a", b"/%d." % i) for i in range(50)))
        answer = it.receive(b"/49.")
        places = [answer.index(b"\r\n\r\n/%d." % i) for i in range(50)]
        assert places == sorted(places)


def test_others_have_their_turn_between_requests_that_are_sent_ahead() -> None:
    turns: list[int] = []
    with served() as it:
        it.client.sendall(GET * 50)
        while it.worker.nr < 50:
            turns.append(it.worker.nr)
            gevent.sleep(0)
    assert len(turns) > 50 // 8


@pytest.mark.parametrize("size", [1, 10, len(GET)])
def test_a_request_in_pieces_is_waited_for(size: int) -> None:
    with served() as it:
        for start in range(0, len(POST), size):
            it.client.sendall(POST[start : start + size])
            gevent.sleep(0.001)
        assert it.receive(b"/abody")


def test_what_is_not_plain_is_handed_over_with_what_follows() -> None:
    with served() as it:
        it.client.sendall(GET + ODD + GET)
        assert it.receive(b"/a")
        assert it.handed_over == ODD + GET
        assert it.connection.state is State.HANDED_OVER
        # And back: what gunicorn has read beyond its request is served.
        it.greenlet = gevent.spawn(it.serve, GET.replace(b"/a", b"/back"))
        assert it.receive(b"/back")


def test_a_request_that_has_to_wait_is_handed_over_as_it_came() -> None:
    def waits(_environ: dict[str, Any], _start_response: Any) -> list[bytes]:
        about_to_wait()
        raise AssertionError("it waits in a callback")

    with served(waits) as it:
        it.client.sendall(POST + GET)
        assert it.handed_over == POST + GET
        # It will be counted where it is served.
        assert it.worker.nr == 0
    # Elsewhere nobody is stopped.
    about_to_wait()


def test_a_body_that_takes_its_time_is_left_to_the_greenlet() -> None:
    with served() as it:
        it.client.sendall(POST[:-1])
        assert it.handed_over == POST[:-1]


def test_a_client_that_leaves_ends_the_connection() -> None:
    with served() as it:
        it.client.sendall(GET)
        assert it.receive(b"/a")
        it.client.close()
        assert it.handed_over is None
        assert it.connection.state is State.CLOSED


def test_a_client_that_has_said_its_last_word_is_answered() -> None:
    with served() as it:
        it.client.sendall(GET * 20)
        it.client.shutdown(socket.SHUT_WR)
        received = b""
        while piece := it.client.recv(65536):
            received += piece
            if received.count(b"\r\n\r\n/a") == 20:
                break
        assert received.count(b"\r\n\r\n/a") == 20
        assert it.handed_over is None


def test_a_client_that_wants_the_connection_closed_has_it_closed() -> None:
    with served() as it:
        it.client.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + GET)
        assert b"\r\nConnection: close\r\n" in it.receive(b"/a")
        assert it.handed_over is None
        assert it.worker.nr == 1


def test_an_idle_connection_is_given_up_in_time() -> None:
    with served(keepalive=1) as it:
        it.client.sendall(GET)
        assert it.receive(b"/a")
        assert it.handed_over is None


def test_an_idle_connection_makes_room() -> None:
    with served() as it:
        it.client.sendall(GET)
        assert it.receive(b"/a")
        assert it.room.enter()
        assert it.handed_over is None
        # Its place was taken once.
        assert it.room.full


def test_a_request_that_has_arrived_when_room_is_made_is_served() -> None:
    with served() as it:
        it.client.sendall(GET)
        assert it.receive(b"/a")
        it.client.sendall(POST)
        it.room.empty()
        assert it.receive(b"/abody")


def test_a_client_that_takes_nothing_is_waited_for_without_losing_anything() -> None:
    body = bytes(range(256)) * 20_000

    def large(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("content-length", str(len(body)))])
        return [body]

    with served(large) as it:
        it.client.sendall(GET + GET)
        gevent.sleep(0.05)
        # The second waits its turn.
        assert it.worker.nr == 1
        assert it.connection.state is State.SERVING
        received = b""
        while received.count(body) < 2:
            received += it.client.recv(1 << 20)
        assert it.worker.nr == 2


def test_a_field_of_several_lines_is_never_sent() -> None:
    def split(_environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("x", "a\r\nSet-Cookie: b")])
        return [b""]

    with served(split) as it:
        it.client.sendall(GET)
        assert it.handed_over is None
        it.ours.close()
        assert it.client.recv(1000) == b""


def test_an_application_that_fails_costs_its_own_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(_environ: dict[str, Any], _start_response: Any) -> list[bytes]:
        raise ValueError("a bug")

    with served(fails) as it:
        it.client.sendall(GET)
        assert it.handed_over is None
    assert "a connection failed" in caplog.text


def test_a_worker_that_stops_says_that_the_connection_closes() -> None:
    with served() as it:
        it.client.sendall(GET)
        assert it.receive(b"/a")
        it.worker.alive = False
        it.client.sendall(GET)
        assert b"\r\nConnection: close\r\n" in it.receive(b"/a")
        assert it.handed_over is None


def test_who_waits_for_an_answer_hears_that_the_worker_stops() -> None:
    with served() as it:
        reasons: list[RouterError] = []
        it.connection.client.watch(reasons.append)
        error = RouterError("over", status=503)
        it.waiting.end_all(error)
        it.connection.client.unwatch()
        it.waiting.end_all(error)
        assert reasons == [error]
