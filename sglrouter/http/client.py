"""The client's end of a request, where the server lets us at it.

Under our own worker a response may be written from the event loop, without waking the
request's greenlet for every token, and a client that leaves is noticed at once. Under
any other WSGI server there is no such thing, and responses are iterated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, cast

import falcon

from sglrouter._fast.chunked import BodyWriter
from sglrouter.errors import RouterError

# Where the worker puts it in the WSGI environment.
ENVIRON_KEY = "sglrouter.client"


class Client(Protocol):
    """The client of one request.

    Attributes:
        writer: Writes parts of the body as send() does, once that has sent the first; None
            before.
    """

    writer: BodyWriter | None

    def send(self, body: bytes, *, last: bool = False) -> bool:
        """Writes a part of the body now, the headers before the first.

        Never blocks. What the client does not take is kept, and then nothing more may
        be sent before wait_until_taken().

        Args:
            body: The part.
            last: Whether it is the end of the body.

        Returns:
            Whether all of it was taken.

        Raises:
            OSError: The client is gone.
        """

    def wait_until_taken(self) -> None:
        """Waits until the client has taken what was kept.

        Raises:
            OSError: The client is gone.
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


def client_of(req: falcon.Request) -> Client | None:
    """The request's client; None where the server does not give it."""
    return cast("Client | None", req.env.get(ENVIRON_KEY))


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


def answer(resp: falcon.Response, body: bytes, client: Client | None) -> None:
    """Makes `body` the whole response; head and body leave in one packet if they can."""
    if client is None:
        resp.data = body
    else:
        resp.content_length = len(body)
        resp.stream = WholeBody(client, body)


class WholeBody(Iterator[bytes]):
    """A body that is written in one piece as soon as the server asks for it."""

    def __init__(self, client: Client, body: bytes) -> None:
        self._client = client
        self._body = body

    def __next__(self) -> bytes:
        if not self._client.send(self._body, last=True):
            self._client.wait_until_taken()
        raise StopIteration
