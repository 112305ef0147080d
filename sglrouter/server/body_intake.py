"""The reading of request bodies: how long a client may take, and how much all may hold.

Strategy: gunicorn reads heads and bodies through one object, and while a request is served
what it reads is body. A body that came with its head costs nothing here. For each further
piece there is a deadline, which what has arrived moves on at the least rate allowed, and
no silence may be longer than the first of them. What all bodies of the worker hold together
is counted, until their requests wait for an engine or are over.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

import gevent
from gunicorn.http.unreader import SocketUnreader

from sglrouter.errors import RouterError

# A body below this is read whatever the others hold.
_SMALL = 64 * 1024


class BodyBounds(NamedTuple):
    """What clients are allowed.

    Attributes:
        timeout: Longest silence in seconds, and the time that any body may take.
        rate: Bytes for which a body may take another second.
        together: Bytes that all bodies of the worker may hold.
    """

    timeout: float
    rate: int
    together: int


class Bodies:
    """All bodies that are being read by this worker.

    Args:
        bounds: What clients are allowed.
        on_over: Called with the size of each that was waited for, once it is dealt with.
    """

    def __init__(self, bounds: BodyBounds, on_over: Callable[[int], object]) -> None:
        self.bounds = bounds
        self.on_over = on_over
        self.held = 0
        self._readers: set[Any] = set()

    def end_all(self, error: RouterError) -> None:
        """Has every body that is waited for end with an error."""
        loop = gevent.get_hub().loop
        for reader in self._readers:
            # Only the event loop may throw without being left behind.
            loop.run_callback(self._end, reader, error)

    def _end(self, reader: Any, error: RouterError) -> None:
        if reader in self._readers:
            reader.throw(error)

    def receive(self, sock: Any, size: int, deadline: float) -> bytes:
        """Reads what there is of a body, once there is something.

        Raises:
            TimeoutError: There is nothing before the deadline.
            RouterError: end_all() has been called.
        """
        reader = gevent.getcurrent()
        self._readers.add(reader)
        sock.settimeout(max(deadline - monotonic(), 0.001))
        try:
            data: bytes = sock.recv(size)
        finally:
            self._readers.discard(reader)
            sock.settimeout(None)
        return data


class Intake:
    """The body of one request.

    Args:
        bodies: Those of all.
    """

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._begun = 0.0
        self._received = 0

    def receive(self, sock: Any, size: int) -> bytes:
        """Reads a piece.

        Raises:
            RouterError: It takes too long (408), all bodies together are too large, or
                the worker stops (503).
        """
        bounds = self._bodies.bounds
        now = monotonic()
        if not self._begun:
            self._begun = now
        allowed = self._begun + bounds.timeout + self._received / bounds.rate
        try:
            data = self._bodies.receive(sock, size, min(allowed, now + bounds.timeout))
        except TimeoutError as exc:
            raise RouterError(
                f"The request body came too slowly: {self._received} bytes in "
                f"{monotonic() - self._begun:.0f} seconds",
                status=408,
                type="invalid_request_error",
                code="request_timeout",
            ) from exc
        self._received += len(data)
        self._bodies.held += len(data)
        if self._bodies.held > bounds.together and self._received > _SMALL:
            raise RouterError(
                "Too many large requests are being read at once",
                status=503,
                code="overloaded",
            )
        return data

    def release(self) -> None:
        """Says that the body is dealt with."""
        self._bodies.held -= self._received
        # One that never came to its end, too, has taken memory.
        self._bodies.on_over(self._received)
        self._received = 0


class BodyUnreader(SocketUnreader):  # type: ignore[misc]  # gunicorn has no types
    """What gunicorn reads a connection through.

    Attributes:
        request: The request that is being served; None while the next head is read.
        intake: Its body, if any of that had to be waited for.
        bodies: Those of all.
    """

    bodies: Bodies
    request: Any = None
    intake: Intake | None = None

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Reads from the socket."""
        if self.request is None:
            try:
                head: bytes = self.sock.recv(self.mxchunk)
            except TimeoutError as exc:
                # The kernel found the client dead. gunicorn takes it for a fault of ours.
                raise ConnectionResetError(exc.errno, "the client is gone") from exc
            return head
        if self.intake is None:
            self.intake = Intake(self.bodies)
        size = self.mxchunk if not size_hint else min(max(size_hint, self.mxchunk),
                                                      self.max_body_chunk)  # fmt: skip
        try:
            return self.intake.receive(self.sock, size)
        except RouterError:
            # Where the next request would begin is not known.
            self.request.must_close = True
            raise

    def end_request(self) -> None:
        """Says that the request has been served."""
        self.request = None
        if self.intake is not None:
            self.release()

    def release(self) -> None:
        """Says that its body is dealt with."""
        if self.intake is not None:
            self.intake.release()
            self.intake = None


def unread(request: Any) -> int | None:
    """How many bytes of a request's body are left to be read; None if nobody knows."""
    reader = request.body.reader
    length: int | None = getattr(reader, "length", None)
    if length is None and getattr(reader, "parser", None) is None:
        return 0
    return length
