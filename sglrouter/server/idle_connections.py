"""Connections that wait for their next request, and who has to go where there is no room.

Strategy: a wait is a timeout that can be brought forward. That is how a worker that stops
gets rid of idle connections, and how a full one makes room: first for those that have been
idle longest, then for those that have been open for a while and asked nothing. A request
that has arrived by then is still served.
"""

from __future__ import annotations

from typing import Any

import gevent

# Seconds that a connection may take for its first request before it has to make room.
_FRESH = 1.0


class Room:
    """How many connections a worker has, and which of them could go.

    Args:
        limit: Connections that are served; those beyond it are told that there is no room.
        reserve: How many of those are held at a time.
    """

    def __init__(self, limit: int, reserve: int) -> None:
        self._limit = limit
        self._reserve = reserve
        self._inside = 0
        self._outside = 0
        self._leaving = 0
        # Those that have served a request, those that have not, those beyond the limit;
        # oldest first.
        self._idle: dict[RequestWait, None] = {}
        self._fresh: dict[RequestWait, None] = {}
        self._surplus: dict[RequestWait, None] = {}

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
                wait.bring_forward(0.0)
                return

    def wait(self, seconds: float, grace: float, *, inside: bool, served: bool) -> RequestWait:
        """A connection's wait for its next request; see RequestWait."""
        where = self._surplus if not inside else self._idle if served else self._fresh
        return RequestWait(seconds, grace, where, self)

    def empty(self) -> None:
        """Leaves each waiting connection only its grace."""
        for waits in (self._idle, self._fresh, self._surplus):
            for wait in waits:
                wait.bring_forward()

    def forget(self, wait: RequestWait) -> None:
        """Says that a wait which was to make room is over, one way or the other."""
        if wait.makes_room:
            self._leaving -= 1

    def _dismiss(self, wait: RequestWait) -> None:
        wait.makes_room = True
        self._leaving += 1
        wait.bring_forward(0.0)

    def _candidate(self) -> RequestWait | None:
        for wait in self._idle:
            if not wait.dismissed:
                return wait
        now = gevent.get_hub().loop.now()
        for wait in self._fresh:
            if now - wait.since < _FRESH:
                return None
            if not wait.dismissed:
                return wait
        return None


class RequestWait:
    """A gevent.Timeout that can be brought forward while it runs.

    Args:
        seconds: The time that the connection has.
        grace: The time that it still has once it is brought forward.
        waits: All that are going on; this one is in it meanwhile.
        room: Who is told of the end of a wait that was to make room.

    Attributes:
        since: When it began, by the event loop's clock.
        makes_room: Whether its connection counts as gone already.
    """

    def __init__(
        self,
        seconds: float,
        grace: float,
        waits: dict[RequestWait, None],
        room: Room,
    ) -> None:
        self._greenlet = gevent.getcurrent()
        self._timeout = gevent.Timeout(seconds, False)
        self._grace = grace
        self._sooner: Any = None
        self._waits = waits
        self._room = room
        self.since = gevent.get_hub().loop.now()
        self.makes_room = False

    @property
    def dismissed(self) -> bool:
        """Whether it has been brought forward."""
        return self._sooner is not None

    def __enter__(self) -> None:
        self._waits[self] = None
        self._timeout.start()

    def __exit__(self, *exc_info: object) -> bool:
        del self._waits[self]
        if self._sooner is not None:
            self._sooner.stop()
            self._sooner.close()
            self._room.forget(self)
        return bool(self._timeout.__exit__(*exc_info))

    def bring_forward(self, grace: float | None = None) -> None:
        """Leaves only the grace; a request that has arrived by then is served."""
        if self._sooner is None:
            # Less urgent than the sockets, as the timeout itself is.
            seconds = self._grace if grace is None else grace
            self._sooner = gevent.get_hub().loop.timer(seconds, priority=-1)
            self._sooner.start(self._greenlet.throw, self._timeout)
