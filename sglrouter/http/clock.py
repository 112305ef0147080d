"""One timer for all deadlines of a worker.

Strategy: to start and stop a timer of the event loop for each request costs more than to
look at all requests ten times a second. So what has a deadline is in one list, and one
timer, which runs while there is anything in it, looks for those that are over. They are
found a tenth of a second late at most.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any, Protocol

import gevent

logger = logging.getLogger(__name__)

# Seconds between two looks.
TICK = 0.1


class Timed(Protocol):
    """What has a deadline.

    Attributes:
        due: When it is over, by time.monotonic().
    """

    due: float

    def on_time(self, now: float) -> None:
        """The time is over: sets another `due`, or stops the clock's watch."""


class Clock:
    """The deadlines of a worker; made in its process."""

    def __init__(self) -> None:
        self._watched: dict[Timed, None] = {}
        self._timer: Any = None

    def watch(self, item: Timed) -> None:
        """Calls an item's on_time() each time that it is due."""
        self._watched[item] = None
        if self._timer is None:
            self._timer = gevent.get_hub().loop.timer(TICK, repeat=TICK)
            self._timer.start(self._tick)

    def forget(self, item: Timed) -> None:
        """Calls it no more."""
        self._watched.pop(item, None)

    def _tick(self) -> None:
        if not self._watched:
            self._timer.stop()
            self._timer.close()
            self._timer = None
            return
        now = monotonic()
        for item in [item for item in self._watched if item.due <= now]:
            # One may end another.
            if item in self._watched:
                try:
                    item.on_time(now)
                except Exception:
                    # One item's trouble is not the others'.
                    logger.exception("a deadline could not be kept")
                    self.forget(item)
