"""What the router needs of a gRPC connection, and nothing more.

Strategy: bytes in, bytes out; statuses are values, not exceptions. A streaming call
gathers what arrives by itself; its owner waits on an event that several calls may
share, takes all that has come, and does not block in the call. That fits n samples of
one request as well as an event loop that drains a socket before it wakes anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from sglrouter._fast.sink import Sink

Metadata = Sequence[tuple[str, str]]


class ChannelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a channel looks after its connection, and how far its calls read ahead.

    Servers of gRPC's C core, with defaults, take a ping each 300 seconds, and two more
    that come sooner; then they end the connection.

    Attributes:
        keepalive: Seconds between the pings of a connection with calls under way.
        keepalive_timeout: Seconds until a connection without an answer is given up.
        read_ahead: Most messages of a call that wait to be taken, of grpcio's channel.
        window: The same in bytes, of the native channel. A token's message has some 50
            bytes: this is far ahead of any reader, and little to hold for one that stalls.
    """

    keepalive: float = 310.0
    keepalive_timeout: float = 20.0
    read_ahead: int = 256
    window: int = 256 * 1024


def sendable(metadata: Metadata) -> Metadata:
    """What gRPC can carry of request headers; a value that it cannot would fail the call."""
    return [(name, value) for name, value in metadata if value.isascii() and value.isprintable()]


class Status(NamedTuple):
    """How a call ended.

    Attributes:
        code: The gRPC status code's name, such as "OK" or "UNAVAILABLE".
        message: The peer's words, or the transport's.
        details: The peer's grpc-status-details-bin, as it came.
        unseen: Whether the peer has surely not looked at the request: it may have another.
    """

    code: str
    message: str
    details: bytes = b""
    unseen: bool = False

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.code == "OK"


class Bell(Protocol):
    """What is set when there is something new: an event, or who passes it on."""

    def set(self) -> None:
        """There is something new. Called from any thread, and must not block."""


class Call(Protocol):
    """A server-streaming call under way."""

    def take(self) -> list[bytes]:
        """Returns the messages that have arrived since the last take, in order.

        Never blocks. A channel reads ahead only so far: to take again says that what
        was taken before has been passed on, and makes room for as much.
        """

    @property
    def status(self) -> Status | None:
        """How the call ended, once it has; messages may still wait to be taken."""

    @property
    def holds_back(self) -> bool:
        """Whether nothing more may come before the next take(), so much was taken last."""

    def listen(self, on_news: Callable[[], None] | None) -> bool:
        """Has `on_news` called instead of setting the event; None goes back to that.

        It is called from the event loop and must not block.

        Returns:
            False if the channel has no event loop to call it from.
        """

    def divert(self, sink: Sink) -> None:
        """Has `sink` take messages as they arrive, before anybody is told of them.

        What it leaves is news as ever. A channel without an event loop gives it nothing.
        """

    def cancel(self) -> None:
        """Tells the peer to stop. Does nothing to a call that has ended."""


class Channel(Protocol):
    """A connection to one engine, made and mended as needed."""

    def unary(
        self, method: str, request: bytes, *, timeout: float, metadata: Metadata = ()
    ) -> tuple[Status, bytes]:
        """Makes one call and waits for its answer, `timeout` seconds at most."""

    def stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> Call:
        """Starts a server-streaming call.

        Args:
            method: Full method path, "/package.Service/Method".
            request: The serialized request.
            timeout: Seconds until the call ends with DEADLINE_EXCEEDED.
            arrived: Set whenever there is something new: a message or the end.
            metadata: Request headers.
        """

    @property
    def connected(self) -> bool | None:
        """Whether the engine could be reached of late; None while nobody has tried."""

    @property
    def active(self) -> int:
        """How many calls are under way."""

    def counts(self) -> Mapping[str, int]:
        """What the channel has done so far, by name; empty if it does not count."""

    def close(self) -> None:
        """Ends the connection and every call on it."""
