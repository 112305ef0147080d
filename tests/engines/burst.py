"""An engine that has its whole answer ready, and sends as much at once as it is let."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Self

from hyperframe.frame import (
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.engines import frames

_PREFIX_SIZE = 5


class Burst:
    """Answers every Generate with the same messages; other calls it does not have.

    Args:
        messages: The answer.
    """

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._content = frames.framed(*messages)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for sock in self._sockets:
            sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        for sock in self._sockets:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        connection = _Connection(sock, self._content)
        reader = frames.FrameReader()
        try:
            sock.sendall(frames.settings())
            while received := sock.recv(1 << 16):
                for frame in reader.feed(received):
                    connection.hear(frame)
        except OSError:
            pass


class _Connection:
    def __init__(self, sock: socket.socket, content: bytes) -> None:
        self._sock = sock
        self._content = content
        self._window = 65535
        self._connection_window = 65535
        # Of each answer: how much is sent, and what its window still lets through.
        self._sent: dict[int, int] = {}
        self._windows: dict[int, int] = {}

    def hear(self, frame: Frame) -> None:
        stream = frame.stream_id
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            self._window = frame.settings.get(SettingsFrame.INITIAL_WINDOW_SIZE, self._window)
            self._sock.sendall(SettingsFrame(0, flags=["ACK"]).serialize())
        elif isinstance(frame, PingFrame) and "ACK" not in frame.flags:
            self._sock.sendall(PingFrame(0, frame.opaque_data, flags=["ACK"]).serialize())
        elif isinstance(frame, HeadersFrame):
            self._windows[stream] = self._window
        elif isinstance(frame, DataFrame) and "END_STREAM" in frame.flags:
            self._answer(stream, frame.data)
        elif isinstance(frame, RstStreamFrame):
            self._sent.pop(stream, None)
        elif isinstance(frame, WindowUpdateFrame) and stream == 0:
            self._connection_window += frame.window_increment
            for each in list(self._sent):
                self._go_on(each)
        elif isinstance(frame, WindowUpdateFrame):
            self._windows[stream] += frame.window_increment
            self._go_on(stream)

    def _answer(self, stream: int, request: bytes) -> None:
        # The path is compressed; only a generation's request is longer than its prefix.
        if len(request) <= _PREFIX_SIZE:
            fields = [*frames.GRPC_HEADERS, ("grpc-status", "12")]
            self._sock.sendall(frames.headers(stream, fields, end=True))
            return
        self._sent[stream] = 0
        self._sock.sendall(frames.headers(stream))
        self._go_on(stream)

    def _go_on(self, stream: int) -> None:
        if stream not in self._sent:
            return
        at = self._sent[stream]
        size = min(len(self._content) - at, self._windows[stream], self._connection_window)
        out = frames.in_data(stream, self._content[at : at + size], ()) if size else b""
        self._sent[stream] = at + size
        self._windows[stream] -= size
        self._connection_window -= size
        if at + size == len(self._content):
            del self._sent[stream]
            out += frames.trailers(stream)
        self._sock.sendall(out)
