"""One connection of the native channel: a socket, its HTTP/2 session, its watchers.

Strategy: everything happens in callbacks of the event loop. What arrives is handed to
the calls it is for, and what they caused to be written goes out in one send before the
loop goes on.
"""

from __future__ import annotations

import logging
import socket as sockets
from dataclasses import dataclass
from typing import Any, Protocol

import gevent
from gevent import socket
from gevent.event import Event as Signal

from sglrouter._fast.h2 import Session, SessionError, Stream, error_name
from sglrouter.endpoint import Endpoint
from sglrouter.engines.channel.channel import ChannelOptions, Status

logger = logging.getLogger(__name__)

MAX_MESSAGE = 256 * 1024 * 1024
# Calls on one connection before another is opened.
STREAMS_PER_CONNECTION = 1000
CONNECT_TIMEOUT = 5.0
# HTTP/2 has no more ids than 2**31; other calls of the same turn may be on their way.
LAST_STREAM_ID = 2**31 - 2**16
# The kernel's probes find a dead peer sooner than pings may be sent.
_PROBE_IDLE = 30
_PROBE_INTERVAL = 10
_PROBE_TIMEOUT_MS = 30_000

_READ, _WRITE = 1, 2


@dataclass(slots=True)
class ChannelCounts:
    """What a channel has done, for metrics.

    Attributes:
        connects, failed_connects, lost: Connections made, tried in vain, and broken.
        streams, resets, refused: Calls begun, reset by the peer, and refused unseen.
        received, sent: Bytes of closed connections; see Http2Channel.counts().
        stalls: How often the socket did not take what there was to send.
    """

    connects: int = 0
    failed_connects: int = 0
    lost: int = 0
    streams: int = 0
    resets: int = 0
    refused: int = 0
    received: int = 0
    sent: int = 0
    stalls: int = 0


class ConnectionOwner(Protocol):
    """The channel that a connection belongs to."""

    endpoint: Endpoint
    options: ChannelOptions
    counts_so_far: ChannelCounts

    def on_spoken(self) -> None:
        """The peer has spoken HTTP/2: the connection is good."""

    def on_closed(self, connection: Connection, reason: str, *, lost: bool) -> None:
        """The connection has ended; new calls need another."""


class OwnedCall(Protocol):
    """A call that a connection carries."""

    def request_parts(self) -> tuple[bytes, bytes, list[tuple[bytes, bytes]]]:
        """Path, message and headers, as Session.open() takes them."""

    def on_opened(self, connection: Connection, stream: Stream) -> None:
        """The request is on its way."""

    def on_news(self) -> None:
        """Something of the answer has arrived, or its end."""

    def end(self, status: Status) -> None:
        """The call is over."""


def open_socket(endpoint: Endpoint) -> Any:
    """Connects; raises OSError."""
    sock = socket.create_connection((endpoint.host, endpoint.port), CONNECT_TIMEOUT)
    sock.settimeout(None)
    sock.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
    sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PROBE_IDLE),
        ("TCP_KEEPINTVL", _PROBE_INTERVAL),
        ("TCP_USER_TIMEOUT", _PROBE_TIMEOUT_MS),
    ):
        if hasattr(sockets, name):
            sock.setsockopt(sockets.IPPROTO_TCP, getattr(sockets, name), value)
    return sock


class Connection:
    """One socket, its session and its watchers."""

    def __init__(self, owner: ConnectionOwner, sock: Any) -> None:
        self._owner = owner
        self._sock = sock
        self.session = Session(
            sock.fileno(), owner.endpoint.target.encode(), owner.options.window, MAX_MESSAGE
        )
        self._loop = gevent.get_hub().loop
        interval = owner.options.keepalive
        self._reading = self._loop.io(sock.fileno(), _READ)
        self._writing = self._loop.io(sock.fileno(), _WRITE)
        self._ticking = self._loop.timer(interval, repeat=interval)
        self._flush_planned = False
        self._open = True
        self._used_up = False
        # Why it has ended, if it has.
        self.reason = ""
        self._spoken = Signal()
        self._reading.start(self._on_readable)
        self._ticking.start(self._on_tick)
        self.flush_soon()

    @property
    def usable(self) -> bool:
        """Whether new calls may go here."""
        return (
            self._open
            and self.session.settled
            and self.session.goaway is None
            and not self._used_up
        )

    @property
    def has_room(self) -> bool:
        """Whether a new call would be sent at once."""
        return self.session.active < min(self.session.max_streams, STREAMS_PER_CONNECTION)

    @property
    def farewell(self) -> str:
        """What the peer said when it announced its going; empty if it did not."""
        if self.session.goaway is None:
            return ""
        _, code, debug = self.session.goaway
        words = debug.decode("utf-8", "replace")
        return ": ".join(part for part in (error_name(code) if code else "", words) if part)

    def wait_until_settled(self) -> None:
        """Waits for the peer's settings, or the end; gives up on a peer that is silent."""
        if not self._spoken.wait(CONNECT_TIMEOUT):
            self._lose(f"the peer has not spoken HTTP/2 for {CONNECT_TIMEOUT:g} seconds")

    def open(self, call: OwnedCall) -> None:
        """Sends a call's request."""
        try:
            stream = self.session.open(*call.request_parts(), call)
        except SessionError as exc:
            call.end(Status("UNAVAILABLE", str(exc), unseen=True))
            self._lose(str(exc))
            return
        self._used_up = stream.id >= LAST_STREAM_ID
        call.on_opened(self, stream)
        # Calls that are made in one turn of the loop go out in one send.
        self.flush_soon()

    def cancel(self, stream: Stream) -> None:
        """Resets a call that has not ended."""
        if self._open:
            self.session.cancel(stream)
            self.flush_soon()

    def flush_soon(self) -> None:
        """Flushes once before the loop goes on, for all who ask."""
        if not self._flush_planned and self._open:
            self._flush_planned = True
            self._loop.run_callback(self._flush_planned_now)

    def flush(self) -> None:
        """Writes what there is; what the socket does not take waits for it."""
        if not self._open:
            return
        try:
            done = self.session.flush()
        except SessionError as exc:
            self._lose(str(exc))
            return
        if not done:
            self._owner.counts_so_far.stalls += 1
            self._writing.start(self._on_writable)
        # To write may end streams: those that are reset, and those that could not begin.
        self._tell(self.session.take_news())
        if self._retired and not self.session.active:
            self.close(": ".join(part for part in (self._why_retired, self.farewell) if part))

    @property
    def _why_retired(self) -> str:
        return "it has used up its stream ids" if self._used_up else "the engine said goodbye"

    @property
    def _retired(self) -> bool:
        return self._used_up or self.session.goaway is not None

    def close(self, reason: str) -> None:
        """Says goodbye and ends every call."""
        if self._open:
            try:
                self.session.close()
                self.session.flush()
            except SessionError:
                pass
            self._shut(reason, lost=False)

    def _flush_planned_now(self) -> None:
        self._flush_planned = False
        self.flush()

    def _on_writable(self) -> None:
        self._writing.stop()
        self.flush()

    def _on_readable(self) -> None:
        try:
            news = self.session.on_readable()
        except SessionError as exc:
            self._lose(str(exc))
            return
        except Exception as exc:
            logger.exception("the connection to %s failed", self._owner.endpoint)
            self._lose(f"internal error: {exc}")
            return
        if self.session.settled and not self._spoken.is_set():
            self._owner.on_spoken()
            self._spoken.set()
        self._tell(news)
        self.flush()

    @staticmethod
    def _tell(news: list[Stream]) -> None:
        for stream in news:
            try:
                if stream.owner is not None:
                    stream.owner.on_news()
            except Exception:
                # One call's trouble is not the others'.
                logger.exception("a call failed on news")

    def _on_tick(self) -> None:
        """Pings a peer that has calls to answer; gives up on one that does not respond."""
        if not self.session.active:
            return
        self.session.ping()
        answered = self.session.pongs
        self.flush()
        if not self._open:
            return

        def check() -> None:
            if self._open and self.session.pongs == answered:
                self._lose("the engine does not answer pings")

        gevent.spawn_later(self._owner.options.keepalive_timeout, check)

    def _lose(self, reason: str) -> None:
        self._shut(": ".join(part for part in (reason, self.farewell) if part), lost=True)

    def _shut(self, reason: str, *, lost: bool) -> None:
        if not self._open:
            return
        self._open = False
        self.reason = reason
        for watcher in (self._reading, self._writing, self._ticking):
            watcher.stop()
            watcher.close()
        unfinished = self.session.abandon()
        self._sock.close()
        self._owner.on_closed(self, reason, lost=lost)
        self._spoken.set()
        status = Status("UNAVAILABLE", f"the connection to {self._owner.endpoint} ended: {reason}")
        for stream in unfinished:
            try:
                if stream.owner is not None:
                    # One that waited for room has never left.
                    stream.owner.end(status if stream.begun else status._replace(unseen=True))
            except Exception:
                logger.exception("a call failed at its end")
        # Streams that had ended by themselves keep their own end.
        self._tell(self.session.take_news())
