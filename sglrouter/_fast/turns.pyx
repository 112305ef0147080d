"""Turns of the event loop, compiled: a look at the clock costs less than a call of Python.

See sglrouter.turns, which is what to import.
"""

from sglrouter._fast.chunked cimport monotonic

# Seconds that the work for one request may go on before others get their turn.
LONGEST_TURN = 0.005

cdef double TURN = LONGEST_TURN


cdef class Turns:
    """Rests where work has gone on for long.

    Args:
        pause: Lets others go on.
    """

    cdef object _pause
    cdef double _until

    def __init__(self, pause):
        self._pause = pause
        self._until = monotonic() + TURN

    cpdef check(self):
        """To be called between parts of the work."""
        if monotonic() >= self._until:
            self.rest()

    cpdef rest(self):
        """Lets others go on now: to be called before and after a part that is known to be long."""
        self._pause()
        self._until = monotonic() + TURN


cdef class taking_turns:
    """The items, with a pause wherever those before have taken long."""

    cdef object _items
    cdef object _pause
    cdef double _until

    def __init__(self, items, pause):
        self._items = iter(items)
        self._pause = pause
        # The first turn begins with the first item.
        self._until = 0.0

    def __iter__(self):
        return self

    def __next__(self):
        cdef double now
        item = next(self._items)
        now = monotonic()
        if now >= self._until:
            if self._until != 0.0:
                self._pause()
                now = monotonic()
            self._until = now + TURN
        return item
