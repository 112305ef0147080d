"""Whether the client of a connection is still there.

Strategy: a client that leaves ends its side of the connection, and so does one that only
has nothing more to say (`shutdown(SHUT_WR)`, `nc -N`) and waits for its answer. TCP tells
them apart by what comes back for the next byte: from a client that has closed, a reset. So
at an end we write something that belongs into the answer anyway, and look for the reset
soon after, and then less and less often; and now and then we write a little more.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

import gevent

logger = logging.getLogger(__name__)

_READ = 1
# Seconds until the first look for a reset. Each wait is twice the one before.
_FIRST_LOOK = 0.005
# Once a wait was as long as this something more is written, since the client may leave
# later; each such patience is twice the one before.
_ASK_AGAIN = 0.5
_LONGEST_PATIENCE = 15.0


def note_loss(error: OSError) -> None:
    """Tells the log of a client that was given up, rather than left."""
    if error.errno == errno.ETIMEDOUT:
        logger.warning("a client took nothing, or was not heard of, for too long")


class HalfClosed:
    """Finds out whether a client that has said its last word still listens.

    Args:
        sock: Its socket.
        on_gone: Called, from the event loop, when it does not.
        ask: Called, from the event loop, to write something; without waiting. May raise
            OSError.
    """

    def __init__(self, sock: Any, on_gone: Callable[[], None], ask: Callable[[], None]) -> None:
        self._socket = sock
        self._on_gone = on_gone
        self._question = ask
        self._timer: Any = None
        self._patience = _ASK_AGAIN
        self._ask()

    def stop(self) -> None:
        """Asks no more."""
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _ask(self) -> None:
        """Writes something, and looks soon what comes of it."""
        try:
            self._question()
        except OSError:
            self._on_gone()
        else:
            self._look_after(_FIRST_LOOK)

    def _look_after(self, wait: float) -> None:
        self._timer = gevent.get_hub().loop.timer(wait)
        self._timer.start(self._look, wait)

    def _look(self, wait: float) -> None:
        self.stop()
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._on_gone()
        elif wait < self._patience:
            self._look_after(2 * wait)
        else:
            self._patience = min(2 * self._patience, _LONGEST_PATIENCE)
            self._ask()


class ConnectionWatch:
    """Notices that the client of a connection leaves, while a greenlet serves it.

    It serves all requests of the connection: a new watcher for each would cost a call
    into the kernel.
    """

    def __init__(self, sock: Any) -> None:
        self._socket = sock
        self._watcher: Any = None
        self._half_closed: HalfClosed | None = None

    def start(self, on_gone: Callable[[], None], ask: Callable[[], None]) -> None:
        """Begins to watch.

        Args:
            on_gone: Called, from the event loop, when the client is gone.
            ask: See HalfClosed.
        """
        if self._watcher is None:
            self._watcher = gevent.get_hub().loop.io(self._socket.fileno(), _READ)
        self._watcher.start(self._on_readable, on_gone, ask)

    def stop(self) -> None:
        """Stops watching until the next start."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._half_closed is not None:
            self._half_closed.stop()
            self._half_closed = None

    def close(self) -> None:
        """Ends it, before the socket is closed."""
        self.stop()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None

    def _on_readable(self, on_gone: Callable[[], None], ask: Callable[[], None]) -> None:
        try:
            ended = not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError as exc:
            note_loss(exc)
            self.stop()
            on_gone()
            return
        # What is there is the next request: it waits, and so nothing more can be seen.
        self.stop()
        if ended:
            self._half_closed = HalfClosed(self._socket, on_gone, ask)
