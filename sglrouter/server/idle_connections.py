"""Connections that wait for their next request, and who has to go where there is no room.

Strategy: a wait has a time at which it is over, and that can be brought forward. That is how
a worker that stops gets rid of idle connections, and how a full one makes room: first for
those that have been idle longest, then for those that have been open for a while and asked
nothing. A request that has arrived by then is still served. The worker's clock looks for
waits that are over, so that none needs a timer of its own.
"""

from __future__ import annotations

from itertools import takewhile
from time import monotonic
from typing import Any

import gevent

from sglrouter.http.clock import TICK, Clock

# Seconds that a connection may take for its first request before it has to make room.
_FRESH = 1.0


class Wait:
    """A connection's wait for its next request.

    Attributes:
        since: When it began, by time.monotonic().
        due: When it is over.
        grace: Seconds that it still has once the worker stops.
        dismissed: Whether it is over, or about to be.
        makes_room: Whether its connection counts as gone already.
        waits: All of its kind that go on; it is in there meanwhile.
    """

    since = due = grace = 0.0
    dismissed = makes_room = False
    waits: dict[Wait, None] | None = None

    def dismiss(self) -> None:
        """Ends it, unless a request has arrived."""
        raise NotImplementedError


class Room:
    """How many connections a worker has, and which of them could go.

    Args:
        limit: Connections that are served; those beyond it are told that there is no room.
        reserve: How many of those are held at a time.
        clock: The worker's.

    Attributes:
        due: When the clock is to look at the waits: each time.
    """

    def __init__(self, limit: int, reserve: int, clock: Clock) -> None:
        self._limit = limit
        self._reserve = reserve
        self._clock = clock
        self._inside = 0
        self._outside = 0
        self._leaving = 0
        # Those that have served a request, those that have not, those beyond the limit;
        # oldest first.
        self._idle: dict[Wait, None] = {}
        self._fresh: dict[Wait, None] = {}
        self._surplus: dict[Wait, None] = {}
        self.due = 0.0

    @property
    def full(self) -> bool:
        """Whether the next connection would be beyond the limit."""
        return self._inside - self._leaving >= self._limit and self._candidate() is None

    def enter(self) -> bool:
        """Counts a new connection; returns whether there is room for it."""
        if self._inside - self._leaving >= self._limit:
            candidate = self._candidate()
            if candidate is None:
                self._outside += 1
                return False
            candidate.makes_room = True
            self._leaving += 1
            self._dismiss(candidate)
        self._inside += 1
        return True

    def leave(self, *, inside: bool) -> None:
        """Counts a connection out; `inside` is what enter() said of it."""
        if inside:
            self._inside -= 1
        else:
            self._outside -= 1

    def thin_out(self) -> None:
        """Ends the oldest connection beyond the limit that has asked nothing."""
        if self._outside < self._reserve:
            return
        for wait in self._surplus:
            if not wait.dismissed:
                self._dismiss(wait)
                return

    def add(self, wait: Wait, seconds: float, grace: float, *, inside: bool, served: bool) -> None:
        """Begins a wait.

        Args:
            wait: The wait.
            seconds: The time that the connection has.
            grace: The time that it still has once the worker stops.
            inside: Whether there is room for it.
            served: Whether it has served a request.
        """
        wait.since = now = monotonic()
        wait.due = now + seconds
        wait.grace = grace
        wait.dismissed = wait.makes_room = False
        wait.waits = self._surplus if not inside else self._idle if served else self._fresh
        wait.waits[wait] = None
        self._clock.watch(self)

    def remove(self, wait: Wait) -> None:
        """Says that a wait is over, one way or the other."""
        if wait.waits is not None:
            del wait.waits[wait]
            wait.waits = None
            if wait.makes_room:
                wait.makes_room = False
                self._leaving -= 1

    def empty(self) -> None:
        """Leaves each waiting connection only its grace."""
        now = monotonic()
        for waits in (self._idle, self._fresh, self._surplus):
            for wait in list(waits):
                wait.due = min(wait.due, now + wait.grace)
                if not wait.grace and not wait.dismissed:
                    self._dismiss(wait)

    def on_time(self, now: float) -> None:
        """The clock: looks for waits that are over."""
        for waits in (self._idle, self._fresh, self._surplus):
            # The oldest come first: all of one kind have the same time.
            for wait in tuple(takewhile(lambda wait: wait.due <= now, waits)):
                if not wait.dismissed:
                    self._dismiss(wait)
        self.due = now + TICK
        if not (self._idle or self._fresh or self._surplus):
            self._clock.forget(self)

    @staticmethod
    def _dismiss(wait: Wait) -> None:
        wait.dismissed = True
        wait.dismiss()

    def _candidate(self) -> Wait | None:
        for wait in self._idle:
            if not wait.dismissed:
                return wait
        now = monotonic()
        for wait in self._fresh:
            if now - wait.since < _FRESH:
                return None
            if not wait.dismissed:
                return wait
        return None


class RequestWait(Wait):
    """The wait of a greenlet that reads a request: over, its block is left.

    Args:
        room: The worker's.
        seconds: See Room.add(), as of the others.
        grace: See there.
        inside: See there.
        served: See there.
    """

    def __init__(
        self, room: Room, seconds: float, grace: float, *, inside: bool, served: bool
    ) -> None:
        self._room = room
        self._times = (seconds, grace)
        self._inside, self._served = inside, served
        self._greenlet = gevent.getcurrent()
        self._timeout = gevent.Timeout(None, False)
        self._timer: Any = None

    def __enter__(self) -> None:
        self._room.add(self, *self._times, inside=self._inside, served=self._served)
        self._timeout.start()

    def __exit__(self, *exc_info: object) -> bool:
        self._room.remove(self)
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
        return bool(self._timeout.__exit__(*exc_info))

    def dismiss(self) -> None:
        """See Wait."""
        # Less urgent than the sockets: what has arrived is read first.
        self._timer = gevent.get_hub().loop.timer(0.0, priority=-1)
        self._timer.start(self._greenlet.throw, self._timeout)
