"""A server on the level of HTTP/2 frames, which misbehaves as its test says.

For processes that gevent has patched: it serves in greenlets beside its client.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import gevent
from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from sglrouter.engines.channel.channel import Channel
from tests.engines import frames
from tests.engines.calls import Followed
from tests.patience import PATIENCE

T = TypeVar("T", bound=Frame)


def wait_until(condition: Callable[[], bool], what: str = "it") -> None:
    """Waits for something to become true; AssertionError if it does not."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in time"
        gevent.sleep(0.001)


class PeerConnection:
    """One accepted connection and what has come on it.

    By itself it only acknowledges settings, and that only if it was greeted.
    """

    def __init__(self, sock: socket.socket, *, greeted: bool) -> None:
        self.sock = sock
        self.frames: list[Frame] = []
        self.ended = False
        self.reading = True
        self._greeted = greeted
        self._reader = frames.FrameReader()

    def follow(self) -> None:
        """Reads until the client closes."""
        try:
            while True:
                while not self.reading:
                    gevent.sleep(0.001)
                received = self.sock.recv(65536)
                if not received:
                    break
                new = self._reader.feed(received)
                self.frames += new
                if self._greeted and any(
                    type(each) is SettingsFrame and not each.flags for each in new
                ):
                    self.send(SettingsFrame(0, flags=["ACK"]).serialize())
        except OSError:
            pass
        self.ended = True

    def send(self, *parts: bytes) -> None:
        """Sends frames, or whatever it is, in one write."""
        self.sock.sendall(b"".join(parts))

    def of(self, kind: type[T]) -> list[T]:
        """The frames of a kind that have come."""
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def streams(self, count: int = 1) -> list[int]:
        """Waits for requests to be complete; returns the ids of all that are."""

        def complete() -> list[int]:
            return [
                frame.stream_id
                for frame in self.frames
                if isinstance(frame, DataFrame) and "END_STREAM" in frame.flags
            ]

        wait_until(lambda: len(complete()) >= count, f"{count} requests")
        return complete()

    def opened(self) -> list[int]:
        """The ids of the streams that have begun."""
        return [frame.stream_id for frame in self.of(HeadersFrame)]

    def resets(self) -> list[tuple[int, int]]:
        """(stream, code) of each RST_STREAM."""
        return [
            (frame.stream_id, frame.error_code)
            for frame in self.frames
            if isinstance(frame, RstStreamFrame)
        ]

    def credit(self, stream: int) -> int:
        """The bytes that the client has granted a stream besides its first window."""
        return sum(
            frame.window_increment
            for frame in self.frames
            if isinstance(frame, WindowUpdateFrame) and frame.stream_id == stream
        )

    def wait_for_end(self) -> None:
        """Waits for the client to close the connection."""
        wait_until(lambda: self.ended, "the end of the connection")

    def close(self, *, rst: bool = False) -> None:
        """Closes the socket, by TCP reset if so wished."""
        if rst:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            # What the greenlet that reads holds would keep it open.
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


class Peer:
    """Listens, and greets each connection with the bytes it is given for it.

    Args:
        greetings: What is sent at once on the first connection, the second, and so on;
            the last one for all after. By default every connection gets SETTINGS.
    """

    def __init__(self, *greetings: bytes) -> None:
        self._greetings: Sequence[bytes] = greetings or (frames.settings(),)
        self.connections: list[PeerConnection] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._greenlets = [gevent.spawn(self._accept)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        gevent.killall(self._greenlets)
        self._listener.close()
        for connection in self.connections:
            connection.sock.close()

    def connection(self, index: int = 0) -> PeerConnection:
        """Waits for a connection, counted from 0."""
        wait_until(lambda: len(self.connections) > index, f"connection {index}")
        return self.connections[index]

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            greeting = self._greetings[min(len(self.connections), len(self._greetings) - 1)]
            connection = PeerConnection(sock, greeted=bool(greeting))
            connection.send(greeting)
            self.connections.append(connection)
            self._greenlets.append(gevent.spawn(connection.follow))


def serve(connection: PeerConnection, stream: int) -> None:
    """Answers a call with one message."""
    connection.send(frames.answer(stream, b"fine"))


def is_served(followed: Followed) -> bool:
    """Whether a call comes to that message, which is waited for."""
    return followed.drain() == [b"fine"] and followed.status.ok


def in_background(channel: Channel, timeout: float = PATIENCE) -> Any:
    """A call from a greenlet of its own, which gives the call when it has been made."""
    return gevent.spawn(Followed, channel, None, timeout)
