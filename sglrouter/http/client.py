"""The client's end of a request, where the server lets us at it.

Under our own worker a response may be written from the event loop, without waking a
greenlet for every token, and a client that leaves is noticed at once. A plain request has
no greenlet at all: its response is a Delivery, which the server begins once the
application has returned. Under any other WSGI server there is no such thing, and responses
are iterated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, cast

import falcon

from sglrouter._fast.chunked import BodyWriter
from sglrouter.errors import RouterError
from sglrouter.http.clock import Clock

# Where the worker puts it in the WSGI environment.
ENVIRON_KEY = "sglrouter.client"


class Client(Protocol):
    """The client of one request.

    Attributes:
        writer: Writes parts of the body as send() does, once that has sent the first; None
            before.
        clock: Keeps deadlines.
        has_greenlet: Whether the request is served in a greenlet, and may wait.
    """

    writer: BodyWriter | None
    clock: Clock
    has_greenlet: bool

    def send(self, body: bytes, *, last: bool = False) -> bool:
        """Writes a part of the body now, the headers before the first.

        Never blocks. What the client does not take is kept, and then nothing more may
        be sent before that is taken.

        Args:
            body: The part.
            last: Whether it is the end of the body.

        Returns:
            Whether all of it was taken.

        Raises:
            OSError: The client is gone.
        """

    def when_taken(self, then: Callable[[OSError | None], None]) -> None:
        """Has `then` called, from the event loop, when the client has taken what was kept.

        Args:
            then: Called with the error if the client is gone.
        """

    def watch(
        self, on_end: Callable[[RouterError], None], ping: Callable[[], None] | None = None
    ) -> None:
        """Watches the client; the request's body is dealt with by now.

        Args:
            on_end: Called, from the event loop, when the request has to end early, with
                the reason: ClientGone, or the server stops.
            ping: Called, from the event loop, to write something where the response has
                begun: only that tells whether a client that will send nothing more still
                reads. May raise OSError.
        """

    def unwatch(self) -> None:
        """Ends the watch."""


class PlainClient(Client, Protocol):
    """The client of a request that is served in callbacks."""

    def send_whole(self, body: bytes) -> bool:
        """Writes a whole body, with its length in the headers; see send()."""


class WaitingClient(Client, Protocol):
    """The client of a request that is served in a greenlet."""

    def wait_until_taken(self) -> None:
        """Waits until the client has taken what was kept.

        Raises:
            OSError: The client is gone.
        """


class Recipient(Protocol):
    """Who has asked for a delivery, and hears how it goes."""

    def opened(self) -> None:
        """The response may begin."""

    def refused(self, error: Exception) -> None:
        """Nothing has been sent, and there is nothing to send but this error."""

    def over(self, trouble: Exception | None) -> None:
        """All has been sent, or the client is gone: then what was found out by."""


# Makes the status, headers and body of the response to an error.
Failure = Callable[[Exception], tuple[str, list[tuple[str, str]], bytes]]


class Delivery(Protocol):
    """A response that is written by callbacks of the event loop.

    Attributes:
        failure: Makes the response to an error. Whoever has begun the delivery forgets it
            when the response is over.
    """

    failure: Failure | None

    def begin(self, recipient: Recipient) -> None:
        """Begins; to be called once the application has returned."""

    def start(self) -> None:
        """Sends what there is, after it was opened."""

    def close(self) -> None:
        """Gives it up; nothing more is told or written."""


def client_of(req: falcon.Request) -> Client | None:
    """The request's client; None where the server does not give it."""
    return cast("Client | None", req.env.get(ENVIRON_KEY))


def waiting_client_of(req: falcon.Request) -> WaitingClient | None:
    """The client of a request that may wait; None where the server does not give it."""
    return cast("WaitingClient | None", req.env.get(ENVIRON_KEY))


def plain_client_of(req: falcon.Request) -> PlainClient | None:
    """The client of a request in callbacks; None for one that has a greenlet or thread."""
    client = client_of(req)
    return None if client is None or client.has_greenlet else cast("PlainClient", client)


@contextmanager
def watching(client: Client | None, on_end: Callable[[RouterError], None]) -> Iterator[None]:
    """Watches the client meanwhile, where it can be watched."""
    if client is None:
        yield
        return
    client.watch(on_end)
    try:
        yield
    finally:
        client.unwatch()


def answer(resp: falcon.Response, body: bytes, client: WaitingClient | None) -> None:
    """Makes `body` the whole response; head and body leave in one packet if they can."""
    if client is None:
        resp.data = body
    else:
        resp.content_length = len(body)
        resp.stream = WholeBody(client, body)


class WholeBody(Iterator[bytes]):
    """A body that is written in one piece as soon as the server asks for it."""

    def __init__(self, client: WaitingClient, body: bytes) -> None:
        self._client = client
        self._body = body

    def __next__(self) -> bytes:
        if not self._client.send(self._body, last=True):
            self._client.wait_until_taken()
        raise StopIteration
