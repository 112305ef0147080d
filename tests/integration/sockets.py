"""Clients on bare sockets, which see every byte and misbehave as they like."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import PATIENCE
from tests.processes import chat_body


class RawClient:
    """A client that sees every byte.

    Args:
        port: Of this machine, where to connect to.
        receive_buffer: Its socket's, in bytes; 0 for the system's own.
    """

    def __init__(self, port: int, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        self.data = b""

    def post(self, version: str = "1.1", **fields: object) -> None:
        """Sends a chat completion's request."""
        self.send(json.dumps(chat_body(**fields)).encode(), version=version)

    def send(
        self, body: bytes, path: str = "/v1/chat/completions", *, version: str = "1.1",
        size: int | None = None,
    ) -> None:  # fmt: skip
        """Sends a POST; `size` is what its head says of the body."""
        self.socket.sendall(
            b"POST %b HTTP/%b\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b"
            % (path.encode(), version.encode(), len(body) if size is None else size, body)
        )

    def get(self, path: str) -> None:
        """Sends a GET."""
        self.socket.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode())

    def receive(self) -> bytes:
        """Reads what there is; nothing at the end."""
        piece = self.socket.recv(65536)
        self.data += piece
        return piece

    def until(self, end: bytes) -> bytes:
        """Reads up to and with `end`, and keeps what follows."""
        while end not in self.data:
            assert self.receive(), f"closed after {self.data[-200:]!r}"
        found, _, self.data = self.data.partition(end)
        return found + end

    def chunked_body(self) -> bytes:
        """Reads one body, chunk by chunk as the RFC has it."""
        body = b""
        while True:
            size = int(self.until(b"\r\n"), 16)
            while len(self.data) < size + 2:
                assert self.receive()
            piece, self.data = self.data[:size], self.data[size + 2 :]
            if not size:
                return body
            body += piece

    def response(self) -> tuple[bytes, bytes]:
        """Reads a response of known length; returns its head in small letters and its body."""
        head = self.until(b"\r\n\r\n").lower()
        size = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(self.data) < size:
            assert self.receive(), f"closed after {self.data[-200:]!r}"
        body, self.data = self.data[:size], self.data[size:]
        return head, body

    def ended(self) -> bool:
        """Whether the server ends the connection, properly or not."""
        try:
            return not self.receive()
        except ConnectionResetError:
            return True

    def end_sending(self) -> None:
        """Says that nothing more will be sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self, *, reset: bool = False) -> None:
        """Leaves."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@contextmanager
def raw_client(port: int, receive_buffer: int = 0) -> Iterator[RawClient]:
    """A client that is closed in the end."""
    client = RawClient(port, receive_buffer)
    try:
        yield client
    finally:
        client.close()
