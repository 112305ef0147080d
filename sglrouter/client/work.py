"""One answer under way, which one reader waits for and anybody may cancel.

Strategy: engine calls are touched by one thread at a time, whoever holds the turn.
Readers hold it while they wait. Who cancels leaves word and wakes the reader, who ends
the calls itself; only if nobody reads does the canceller take the turn. Either sees the
other's mark: the word is left before the turn is tried for, and looked for after the
turn is given up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sglrouter.client.home import Home
from sglrouter.engines.exchange import Exchange
from sglrouter.errors import ClientGone, RouterError


class Cancelled(RouterError):
    """Somebody has cancelled the completion, or closed the client."""

    status = 499
    type = "client_closed_request"
    code = "cancelled"

    def __init__(self) -> None:
        super().__init__("The completion was cancelled")


class Work:
    """An answer under way.

    Args:
        exchange: Its engine calls.
        home: Where they are made.
        forget: Called when they are over.

    Attributes:
        over: Set when they are over.
        cancelled: Whether somebody has cancelled it.
    """

    def __init__(self, exchange: Exchange, home: Home, forget: Callable[[Work], object]) -> None:
        self._exchange = exchange
        self._home = home
        self._forget = forget
        self._turn = threading.Lock()
        self.over = threading.Event()
        self.cancelled = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Lets one reader at a time wait for the calls.

        Raises:
            Cancelled: Somebody has cancelled it, before or meanwhile.
            RuntimeError: This thread or process is not where the calls were made.
        """
        self._home.enter()
        try:
            with self._turn:
                self._check()
                try:
                    yield
                except ClientGone:
                    raise Cancelled from None
        finally:
            if self.cancelled:
                self._stop()

    def finish(self) -> None:
        """Says that the calls are over; for the reader, in its turn."""
        self._exchange.cancel()
        self._ended()

    def cancel(self) -> None:
        """Stops the calls and the wait for them. Never waits; for every thread."""
        self._home.call(self._cancel)

    def abandon(self) -> None:
        """Stops calls that nobody can read any more. For every thread, at any moment."""
        if not self.over.is_set():
            self._home.later(self._cancel)

    def _cancel(self) -> None:
        self.cancelled = True
        self._exchange.interrupt()
        self._stop()

    def _stop(self) -> None:
        """Ends the calls, unless somebody has the turn, who then does it."""
        if self._turn.acquire(blocking=False):
            try:
                self._exchange.cancel()
            finally:
                self._turn.release()
            self._ended()

    def _ended(self) -> None:
        self._forget(self)
        self.over.set()

    def _check(self) -> None:
        if self.cancelled:
            raise Cancelled
