"""The client of one request, written to without gunicorn's own loop over the body.

What is sent is framed as gunicorn frames it and counted in gunicorn's response, so that
status, access log and keep-alive stay gunicorn's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gevent

from sglrouter._fast.chunked import BodyWriter
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.clock import Clock
from sglrouter.server.body_intake import BodyUnreader
from sglrouter.server.presence import ConnectionWatch

_WRITE = 2

# What every response begins with, whatever it will be. A client that has said its last
# word is asked with a byte of it whether it still reads.
_BEGINNING = b"HTTP/1."


class Endable(Protocol):
    """A client whose request can be ended."""

    def end(self, error: RouterError) -> None:
        """Has the request end with an error."""


class WaitingClients:
    """The clients that wait for an answer.

    Attributes:
        clients: Those that wait now.
        error: What all that begin to wait end with; None while they are served.
    """

    def __init__(self) -> None:
        self.clients: set[Endable] = set()
        self.error: RouterError | None = None

    def end_all(self, error: RouterError) -> None:
        """Has all that wait, and all that will, end with an error."""
        self.error = error
        for client in list(self.clients):
            client.end(error)


class DirectClient:
    """The client of one request; see sglrouter.http.client.Client.

    Args:
        response: gunicorn's response.
        watch: Watches its connection.
        unreader: What its request is read through.
        waiting: The clients of the worker.
        clock: The worker's.
    """

    has_greenlet = True

    def __init__(
        self,
        response: Any,
        watch: ConnectionWatch,
        unreader: BodyUnreader,
        waiting: WaitingClients,
        clock: Clock,
    ) -> None:
        self._response = response
        self._socket = response.sock
        self._watch = watch
        self._unreader = unreader
        self._waiting = waiting
        self.clock = clock
        self._writing: Any = None
        self._on_end: Callable[[RouterError], None] | None = None
        self._ping: Callable[[], None] | None = None
        self._asked = 0
        self.writer: BodyWriter | None = None

    def send(self, body: bytes, *, last: bool = False) -> bool:
        """Writes a part of the body now, the headers in the same packet as the first."""
        response, writer = self._response, self.writer
        head = b""
        if writer is None:
            head = self._headers()
            writer = self.writer = BodyWriter(self._socket.fileno(), response.chunked)
        if last:
            # Nothing may follow.
            self._ping = None
        try:
            return writer.write(body, last, head)
        finally:
            response.sent = writer.written
            if last and response.chunked:
                # Else gunicorn would end the body once more, or close the connection.
                response.chunked = False
                response.response_length = response.sent

    def wait_until_taken(self) -> None:
        """Waits until the client has taken what was kept."""
        if self.writer is not None:
            # It stays kept until it is sent: a sink that saw nothing would write into it.
            self._socket.sendall(self.writer.kept)
            self.writer.take_kept()

    def when_taken(self, then: Callable[[OSError | None], None]) -> None:
        """Has `then` called when the client has taken what was kept."""
        if self._writing is None:
            self._writing = gevent.get_hub().loop.io(self._socket.fileno(), _WRITE)
        self._writing.start(self._on_writable, then)

    def watch(
        self, on_end: Callable[[RouterError], None], ping: Callable[[], None] | None = None
    ) -> None:
        """Has `on_end` called when the client is gone, or the worker ends the request."""
        if self._unreader.intake is not None:
            self._unreader.release()
        self._on_end, self._ping = on_end, ping
        self._watch.start(self._on_gone, self._ask)
        self._waiting.clients.add(self)
        if self._waiting.error is not None:
            self.end(self._waiting.error)

    def unwatch(self) -> None:
        """Ends the watch."""
        self._waiting.clients.discard(self)
        if self._writing is not None:
            self._writing.stop()
            self._writing.close()
            self._writing = None
        self._watch.stop()
        # They know us, too: a cycle would stay until the next collection of garbage.
        self._on_end = self._ping = None
        if self.writer is not None:
            # What was written past send() belongs into the access log, too.
            self._response.sent = self.writer.written

    def end(self, error: RouterError) -> None:
        """Has the request end with an error."""
        if self._on_end is not None:
            self._on_end(error)

    def _on_writable(self, then: Callable[[OSError | None], None]) -> None:
        assert self.writer is not None
        error: OSError | None = None
        try:
            if not self.writer.flush():
                return
        except OSError as exc:
            error = exc
        self._writing.stop()
        then(error)

    def _on_gone(self) -> None:
        self.end(ClientGone())

    def _ask(self) -> None:
        """Writes something that brings a reset back from a client that has closed."""
        response = self._response
        if self.writer is not None and self.writer.kept:
            return
        if self.writer is not None or response.headers_sent:
            if self._ping is not None:
                self._ping()
        elif self._asked < len(_BEGINNING):
            response.send_headers = self._send_headers
            beginning = _BEGINNING[self._asked : self._asked + 1]
            self._asked += BodyWriter(self._socket.fileno(), False).write(beginning)

    def _send_headers(self) -> None:
        """In place of the response's, once a part of them has been sent."""
        if not self._response.headers_sent:
            self._socket.sendall(self._headers())

    def _headers(self) -> bytes:
        """What gunicorn would send as the response's head."""
        response = self._response
        recorder = _Recorder()
        response.sock = recorder
        try:
            type(response).send_headers(response)
        finally:
            response.sock = self._socket
        return recorder.data[self._asked :]


class _Recorder:
    """Stands in for a socket to learn what would be sent."""

    data = b""

    def sendall(self, data: bytes) -> None:
        self.data += data
