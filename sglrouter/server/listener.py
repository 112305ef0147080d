"""The listening socket, as a worker accepts from it.

Strategy: a full worker goes on accepting, a small number of connections at a time, so that
whoever asks whether it lives is answered, and everybody else is told to come again. Where
there are other workers, it first leaves them a moment to take what they have room for.

What the kernel is to do for each connection is set on the listening socket, from which
they inherit it: to ask after a client that has been silent for long, and to give up one
that takes nothing, or is not heard of, for `send_timeout`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from gevent.server import StreamServer

from sglrouter.server.idle_connections import Room

# Connections beyond the limit that a worker has at a time.
RESERVE = 64

# Seconds that other workers have for what a full one would have to refuse.
_FOR_OTHERS = 0.05
_MOST_AT_ONCE = 100
# Seconds of silence after which the kernel asks whether the client is still there.
_KEEPALIVE_AFTER = 15
_KEEPALIVE_EVERY = 15


def bound_sends(listener: Any, timeout: float) -> None:
    """Has the kernel give up clients that take nothing for so many seconds."""
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_AFTER)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(timeout * 1000))


class RouterServer(StreamServer):  # type: ignore[misc]  # gevent has no types
    """Accepts connections.

    Args:
        listener: The listening socket.
        handle: Serves a connection.
        pool: Where connections are served; holds the reserve, too.
        room: The worker's.
        alone: Whether no other worker accepts from the same socket.
    """

    def __init__(
        self,
        listener: Any,
        handle: Callable[..., None],
        pool: Any,
        room: Room,
        *,
        alone: bool,
    ) -> None:
        self._room = room
        self._alone = alone
        if not alone:
            self.max_accept = 1
        super().__init__(listener, handle=handle, spawn=pool)

    def _do_read(self) -> None:
        if self.full() or (self._room.full and not self._alone):
            self._wait()
        else:
            super()._do_read()

    def _wait(self) -> None:
        self.stop_accepting()
        self._timer = self.loop.timer(_FOR_OTHERS)
        self._timer.start(self._accept_what_nobody_took)

    def _accept_what_nobody_took(self) -> None:
        self._room.thin_out()
        self.stop_accepting()
        usual, self.max_accept = self.max_accept, _MOST_AT_ONCE
        try:
            if not self.full():
                super()._do_read()
        finally:
            self.max_accept = usual
        if self.closed or self._timer is not None:
            # An accept that failed is tried again later.
            return
        if self.full() or self._room.full:
            self._wait()
        else:
            self.start_accepting()
