"""The client of the requests that a connection serves in callbacks.

Strategy: what a response consists of is kept until the first of it is written; head and body
leave in one packet then. What the client does not take is kept, too, and written when the
socket has room.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import gevent

from sglrouter._fast.chunked import BodyWriter
from sglrouter.errors import ClientGone, RouterError
from sglrouter.server.plain_serving import PlainServing
from sglrouter.server.presence import HalfClosed

_WRITE = 2

# What every response begins with, whatever it will be. A client that has said its last
# word is asked with a byte of it whether it still reads.
_BEGINNING = b"HTTP/1."


class CallbackClient:
    """See sglrouter.http.client.PlainClient.

    Args:
        sock: Its socket.
        serving: What its requests are served with.

    Attributes:
        writer: See Client.
        clock: See Client.
        status: Of the response to its last request.
        headers: The same.
        closes: Whether its connection is closed after that.
    """

    has_greenlet = False

    def __init__(self, sock: Any, serving: PlainServing) -> None:
        self._socket = sock
        self._serving = serving
        self.clock = serving.clock
        self.writer: BodyWriter | None = None
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.closes = False
        self._writing: Any = None
        # How much of the beginning it has been asked with.
        self._asked = 0
        self._half_closed: HalfClosed | None = None
        self._on_end: Callable[[RouterError], None] | None = None
        self._on_ping: Callable[[], None] | None = None

    def start_response(self, status: str, headers: list[tuple[str, str]], *_: object) -> None:
        """WSGI's: the response's head."""
        self.status, self.headers = status, headers

    def send(self, body: bytes, *, last: bool = False) -> bool:
        """See Client."""
        writer = self.writer
        if last:
            # Nothing may follow.
            self._on_ping = None
        if writer is not None:
            return writer.write(body, last)
        writer = self.writer = BodyWriter(self._socket.fileno(), True)
        return writer.write(body, last, self._head("Transfer-Encoding: chunked\r\n"))

    def send_whole(self, body: bytes) -> bool:
        """Writes a whole body; see Client.send()."""
        if not any(name == "content-length" for name, _ in self.headers):
            self.headers.append(("content-length", str(len(body))))
        if self.status.startswith("204"):
            # It must say nothing of a body.
            self.headers = [field for field in self.headers if field[0] != "content-length"]
        writer = self.writer = BodyWriter(self._socket.fileno(), False)
        return writer.write(body, True, self._head(""))

    def when_taken(self, then: Callable[[OSError | None], None]) -> None:
        """See Client."""
        if self._writing is None:
            self._writing = gevent.get_hub().loop.io(self._socket.fileno(), _WRITE)
        self._writing.start(self._on_writable, then)

    def watch(
        self, on_end: Callable[[RouterError], None], ping: Callable[[], None] | None = None
    ) -> None:
        """See Client."""
        self._on_end, self._on_ping = on_end, ping
        waiting = self._serving.waiting
        waiting.clients.add(self)
        if waiting.error is not None:
            self.end(waiting.error)

    def unwatch(self) -> None:
        """See Client."""
        self._serving.waiting.clients.discard(self)
        self._on_end = self._on_ping = None
        if self._half_closed is not None:
            self._half_closed.stop()
            self._half_closed = None

    def end(self, error: RouterError) -> None:
        """Has the request end with an error."""
        if self._on_end is not None:
            self._on_end(error)

    def gone(self) -> bool:
        """It has left; returns whether anybody has heard of it."""
        if self._on_end is None:
            return False
        self._on_end(ClientGone())
        return True

    def last_word(self, on_gone: Callable[[], None]) -> None:
        """It will send nothing more; `on_gone` is called once it does not listen either."""
        self._half_closed = HalfClosed(self._socket, on_gone, self._ask)

    def next_response(self) -> None:
        """The last response is over."""
        self.stop_writing()
        self.writer = None
        self._asked = 0

    def close(self) -> None:
        """Lets go of the socket, before it is closed."""
        if self._writing is not None:
            self._writing.stop()
            self._writing.close()
            self._writing = None

    def stop_writing(self) -> None:
        """Writes nothing more of what is kept."""
        if self._writing is not None:
            self._writing.stop()

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

    def _ask(self) -> None:
        """Writes something that brings a reset back from a client that has closed."""
        if self.writer is not None:
            if not self.writer.kept and self._on_ping is not None:
                self._on_ping()
        elif self._asked < len(_BEGINNING):
            byte = _BEGINNING[self._asked : self._asked + 1]
            self._asked += BodyWriter(self._socket.fileno(), False).write(byte)

    def _head(self, framing: str) -> bytes:
        """The response's head, but for what of it has been sent."""
        self.closes = self.closes or not self._serving.worker.alive
        fields = "".join([f"{name}: {value}\r\n" for name, value in self.headers])
        head = (
            f"HTTP/1.1 {self.status}\r\n{self._serving.common_fields(self.closes)}"
            f"{framing}{fields}\r\n"
        )
        if head.count("\n") != len(self.headers) + 5 + bool(framing):
            raise OSError(errno.EINVAL, "a field of the response has more than one line")
        data = head.encode("latin-1")
        return data[self._asked :] if self._asked else data
