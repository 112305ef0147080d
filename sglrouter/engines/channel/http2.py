"""A channel over our own HTTP/2 session, on gevent's event loop.

Strategy: one non-blocking socket and one read watcher for each connection, no thread
and no greenlet of its own. What arrives is cut into messages in compiled code; calls
with news are told in the same turn of the loop, all at once for all that came, and
whatever they caused to be written goes out in one send. A connection is made when a call
needs it, by a greenlet of its own, so that the call's deadline holds for that, too; while
the engine cannot be reached, calls fail at once and the next attempt waits, longer each
time.

This module gives the session what it does not know: time (deadlines, keepalive,
backoff), connections (GOAWAY, stream limits, loss) and what an end means to gRPC.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict

import gevent
from gevent.event import Event as Signal

from sglrouter._fast.h2 import Stream
from sglrouter._fast.sink import Sink
from sglrouter.endpoint import Endpoint
from sglrouter.engines.channel.channel import Bell, ChannelOptions, Metadata, Status
from sglrouter.engines.channel.http2_connection import ChannelCounts, Connection, open_socket
from sglrouter.engines.channel.outcome import outcome
from sglrouter.waiting import about_to_wait

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 8
FIRST_BACKOFF = 0.2
LONGEST_BACKOFF = 2.0

_REFUSED_STREAM = 7
_DEFAULTS = ChannelOptions()


class Http2Channel:
    """A Channel over plaintext HTTP/2."""

    def __init__(self, endpoint: Endpoint, options: ChannelOptions = _DEFAULTS) -> None:
        assert not endpoint.tls, "TLS is grpcio's"
        self.endpoint = endpoint
        self.options = options
        self._connections: list[Connection] = []
        self._connecting: Signal | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._last_error = ""
        self._closed = False
        self.counts_so_far = ChannelCounts()
        self._connected: bool | None = None

    @property
    def connected(self) -> bool | None:
        """Whether there is a connection; None while nobody has tried."""
        return True if any(each.usable for each in self._connections) else self._connected

    @property
    def active(self) -> int:
        """How many calls are under way."""
        return sum(each.session.active for each in self._connections)

    def counts(self) -> Mapping[str, int]:
        """What the channel has done so far, with the bytes of live connections."""
        counts = asdict(self.counts_so_far)
        counts["connections"] = len(self._connections)
        counts["active"] = self.active
        counts["received"] += sum(each.session.received for each in self._connections)
        counts["sent"] += sum(each.session.sent for each in self._connections)
        return counts

    def unary(
        self, method: str, request: bytes, *, timeout: float, metadata: Metadata = ()
    ) -> tuple[Status, bytes]:
        """Makes one call and waits for its answer."""
        about_to_wait()
        arrived = Signal()
        call = self.stream(method, request, timeout=timeout, arrived=arrived, metadata=metadata)
        messages: list[bytes] = []
        try:
            while True:
                arrived.clear()
                status = call.status
                messages += call.take()
                if status is not None or len(messages) > 1:
                    break
                arrived.wait()
        finally:
            # Does nothing unless the wait was interrupted or the engine goes on and on.
            call.cancel()
        if status is None:
            return Status("INTERNAL", "the engine sent several answers to one call"), b""
        if not status.ok:
            return status, b""
        if len(messages) != 1:
            return Status("INTERNAL", f"the engine sent {len(messages)} answers to one call"), b""
        return status, messages[0]

    def stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> Http2Call:
        """Starts a server-streaming call; waits only for a connection to be made."""
        self.counts_so_far.streams += 1
        call = Http2Call(self, method, request, metadata, timeout, arrived)
        try:
            self._send(call)
        except BaseException:
            call.cancel()
            raise
        return call

    def close(self) -> None:
        """Ends the connections and every call on them."""
        self._closed = True
        for connection in list(self._connections):
            connection.close("the channel was closed")

    def _send(self, call: Http2Call) -> None:
        """Puts a call on a connection, or ends it if there is none to be had."""
        try:
            connection = self._connection(call.deadline)
        except TimeoutError:
            call.expire()
            return
        if connection is None:
            reason = f"cannot connect to {self.endpoint}: {self._last_error}"
            call.end(
                Status("UNAVAILABLE", "the channel was closed")
                if self._closed
                else Status("UNAVAILABLE", reason, unseen=True)
            )
        elif call.status is None:
            connection.open(call)

    def _connection(self, deadline: float) -> Connection | None:
        """A connection with room, made if need be; one to queue on if there can be no more.

        Raises:
            TimeoutError: The deadline came first.
        """
        while not self._closed:
            usable = [each for each in self._connections if each.usable]
            best = min(usable, key=lambda each: each.session.active, default=None)
            # A peer that allows no streams at all would allow none on another connection.
            if best is not None and (
                best.has_room or len(usable) >= MAX_CONNECTIONS or not best.session.active
            ):
                return best
            if self._connecting is None and time.monotonic() < self._retry_at:
                return best
            about_to_wait()
            if self._connecting is None:
                self._connecting = Signal()
                gevent.spawn(self._connect, self._connecting)
            # One attempt serves all who wait.
            if not self._connecting.wait(max(deadline - time.monotonic(), 0.0)):
                raise TimeoutError
        return None

    def _connect(self, done: Signal) -> None:
        try:
            connection = Connection(self, open_socket(self.endpoint))
            self._connections.append(connection)
            if self._closed:
                connection.close("the channel was closed")
            connection.wait_until_settled()
            if connection.usable:
                self.counts_so_far.connects += 1
                self._failures = 0
            else:
                # It may have spoken only to say goodbye: to come back at once would be a loop.
                self._failed(connection.reason or connection.farewell)
                connection.close(self._last_error)
        except OSError as exc:
            self._failed(exc.strerror or str(exc))
        except Exception as exc:
            logger.exception("connecting to %s failed", self.endpoint)
            self._failed(f"internal error: {exc}")
        finally:
            self._connecting = None
            done.set()

    def _failed(self, reason: str) -> None:
        self.counts_so_far.failed_connects += 1
        self._connected = False
        self._last_error = reason
        pause = min(FIRST_BACKOFF * 2**self._failures, LONGEST_BACKOFF)
        self._failures += 1
        # Workers and routers that lost the same engine do not return in step.
        self._retry_at = time.monotonic() + pause * random.uniform(0.8, 1.2)  # noqa: S311

    def on_spoken(self) -> None:
        """The peer has spoken HTTP/2: the connection is good."""
        self._connected = True

    def on_closed(self, connection: Connection, reason: str, *, lost: bool) -> None:
        """A connection has ended; new calls need another."""
        if connection in self._connections:
            self._connections.remove(connection)
            self.counts_so_far.received += connection.session.received
            self.counts_so_far.sent += connection.session.sent
        if lost and connection.session.settled and not self._closed:
            self.counts_so_far.lost += 1
            self._connected = False
            self._last_error = reason


class Http2Call:
    """A server-streaming call."""

    def __init__(
        self,
        channel: Http2Channel,
        method: str,
        request: bytes,
        metadata: Metadata,
        timeout: float,
        arrived: Bell,
    ) -> None:
        self._channel = channel
        self._method = method
        self._request = request
        self._metadata = metadata
        self._arrived = arrived
        self._connection: Connection | None = None
        self._stream: Stream | None = None
        self._status: Status | None = None
        self._resent = False
        self.deadline = time.monotonic() + timeout
        self._sink: Sink | None = None
        self._listener: Callable[[], None] | None = None
        self._timer = gevent.get_hub().loop.timer(max(timeout, 0.0))
        # The loop does not know what time it is where somebody has worked for long.
        self._timer.start(self.expire, update=True)

    def request_parts(self) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]]:
        """Path, message and headers, as Session.open() takes them."""
        left = max(self.deadline - time.monotonic(), 0.001)
        headers = [(b"grpc-timeout", _timeout_header(left)), (b"user-agent", b"sglrouter")]
        headers += [(name.lower().encode(), value.encode()) for name, value in self._metadata]
        return self._method.encode(), self._request, headers

    def take(self) -> list[bytes]:
        """Returns the messages that have arrived since the last take."""
        stream, connection = self._stream, self._connection
        if stream is None or connection is None:
            return []
        messages = stream.take()
        if not stream.closed and connection.session.wants_write:
            connection.flush_soon()
        return messages

    @property
    def status(self) -> Status | None:
        """How the call ended, once it has."""
        return self._status

    @property
    def holds_back(self) -> bool:
        """Whether nothing more may come before the next take()."""
        return self._stream is not None and self._stream.holds_back

    def listen(self, on_news: Callable[[], None] | None) -> bool:
        """Has `on_news` called from the event loop instead of setting the event."""
        self._listener = on_news
        return True

    def divert(self, sink: Sink) -> None:
        """Has `sink` take messages as they arrive, before anybody is told of them."""
        self._sink = sink
        if self._stream is not None:
            self._stream.sink = sink

    def cancel(self) -> None:
        """Tells the engine to stop."""
        if self._status is None:
            if self._connection is not None and self._stream is not None:
                self._connection.cancel(self._stream)
            # Who cancels knows: nobody is told.
            self._listener = None
            self.end(Status("CANCELLED", "cancelled here"))

    def on_opened(self, connection: Connection, stream: Stream) -> None:
        """The request is on its way."""
        self._connection, self._stream = connection, stream
        stream.sink = self._sink

    def on_news(self) -> None:
        """Something of the answer has arrived, or its end."""
        stream = self._stream
        assert stream is not None
        if self._status is not None:
            return
        refused = stream.reset_code == _REFUSED_STREAM and not stream.touched
        if not stream.closed and stream.broken is None:
            self._notify()
        elif refused and not self._resent:
            # The peer says that it has not looked at it: it may be sent again.
            self._resent = True
            self._channel.counts_so_far.refused += 1
            gevent.spawn(self._channel._send, self)
        else:
            if stream.reset_code:
                self._channel.counts_so_far.resets += 1
            farewell = self._connection.farewell if self._connection is not None else ""
            if refused and farewell:
                reason = f"the engine is going away: {farewell}"
                self.end(Status("UNAVAILABLE", reason, unseen=True))
            else:
                status = outcome(stream)
                self.end(status._replace(unseen=True) if refused else status)

    def expire(self) -> None:
        """The deadline is over."""
        if self._status is None:
            if self._connection is not None and self._stream is not None:
                self._connection.cancel(self._stream)
            self.end(Status("DEADLINE_EXCEEDED", "the deadline is over"))

    def end(self, status: Status) -> None:
        """The call is over; only the first end counts."""
        if self._status is None:
            self._status = status
            self._timer.stop()
            self._timer.close()
            if self._stream is not None:
                # Nothing refers to a finished call in a circle that only the collector breaks.
                self._stream.owner = self._stream.sink = None
            self._notify()

    def _notify(self) -> None:
        if self._listener is not None:
            self._listener()
        else:
            self._arrived.set()


def _timeout_header(seconds: float) -> bytes:
    """A grpc-timeout of at most eight digits."""
    milliseconds = int(seconds * 1000) + 1
    return b"%dm" % milliseconds if milliseconds < 10**8 else b"%dS" % min(int(seconds), 10**8 - 1)
