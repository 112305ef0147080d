"""The client's end of a request, as resources see it."""

from __future__ import annotations

from collections.abc import Callable

import falcon
import falcon.testing
import pytest

from sglrouter._fast.chunked import BodyWriter
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.client import (
    ENVIRON_KEY,
    WholeBody,
    answer,
    client_of,
    plain_client_of,
    waiting_client_of,
    watching,
)
from sglrouter.http.clock import Clock


class Fake:
    """A client that notes what is done to it."""

    writer: BodyWriter | None = None

    def __init__(self, *, has_greenlet: bool = True, takes: bool = True) -> None:
        self.has_greenlet = has_greenlet
        self.clock = Clock()
        self.takes = takes
        self.done: list[object] = []

    def send(self, body: bytes, *, last: bool = False) -> bool:
        self.done.append((body, last))
        return self.takes

    def send_whole(self, body: bytes) -> bool:
        return self.send(body, last=True)

    def wait_until_taken(self) -> None:
        self.done.append("waited")

    def when_taken(self, then: Callable[[OSError | None], None]) -> None:
        then(None)

    def watch(
        self, on_end: Callable[[RouterError], None], ping: Callable[[], None] | None = None
    ) -> None:
        self.done.append(on_end)

    def unwatch(self) -> None:
        self.done.append("unwatched")


def request_of(client: object | None) -> falcon.Request:
    req = falcon.testing.create_req()
    if client is not None:
        req.env[ENVIRON_KEY] = client
    return req


def test_a_client_is_where_the_server_has_put_it() -> None:
    in_greenlet, in_callbacks = Fake(), Fake(has_greenlet=False)
    assert client_of(request_of(None)) is None
    assert plain_client_of(request_of(None)) is None
    assert waiting_client_of(request_of(in_greenlet)) is in_greenlet
    assert plain_client_of(request_of(in_greenlet)) is None
    assert plain_client_of(request_of(in_callbacks)) is in_callbacks
    assert client_of(request_of(in_callbacks)) is in_callbacks


def ended(_reason: RouterError) -> None:
    """Hears that the request has to end."""


def test_a_client_is_watched_meanwhile_however_that_ends() -> None:
    client = Fake()
    with watching(client, ended):
        assert client.done == [ended]
    assert client.done == [ended, "unwatched"]
    with pytest.raises(ClientGone), watching(client, ended):
        raise ClientGone
    assert client.done == [ended, "unwatched"] * 2
    with watching(None, ended):
        pass


def test_a_whole_answer_is_one_piece_that_nobody_writes_again() -> None:
    client, resp = Fake(), falcon.Response()
    answer(resp, b"body", client)
    assert resp.content_length == "4"
    assert isinstance(resp.stream, WholeBody)
    assert client.done == []
    assert list(resp.stream) == []
    assert client.done == [(b"body", True)]


def test_a_client_that_does_not_take_it_is_waited_for() -> None:
    client = Fake(takes=False)
    assert list(WholeBody(client, b"body")) == []
    assert client.done == [(b"body", True), "waited"]


def test_without_a_client_the_server_writes_it() -> None:
    resp = falcon.Response()
    answer(resp, b"body", None)
    assert (resp.data, resp.stream) == (b"body", None)
