"""Cutting live TCP connections, which no gRPC server offers.

The sockets belong to gRPC's core, so they are found among the process's open files by
their addresses and shut down there: the peer sees the connection close, as when a
process is killed or a cable pulled.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PEER_PORT = re.compile(r":(\d+)$")


class Connections:
    """The connections of the server that listens on `port`."""

    def __init__(self) -> None:
        self.port = 0

    def drop(self, peer: str) -> None:
        """Cuts the connection of one peer, named as gRPC names it ("ipv4:host:port")."""
        if (found := _PEER_PORT.search(peer)) is not None:
            self._cut(lambda port: port == int(found[1]))

    def drop_all(self) -> None:
        """Cuts every connection."""
        self._cut(lambda _: True)

    def _cut(self, wanted: Callable[[int], bool]) -> None:
        for name in os.listdir("/dev/fd"):
            with _borrowed_socket(int(name)) as sock:
                if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                try:
                    here, there = sock.getsockname(), sock.getpeername()
                except OSError:
                    continue  # listening, or closed already
                if here[1] == self.port and wanted(there[1]):
                    sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def _borrowed_socket(descriptor: int) -> Iterator[socket.socket | None]:
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        yield None
        return
    try:
        yield sock
    finally:
        sock.detach()
