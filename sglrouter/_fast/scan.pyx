# cython: boundscheck=False, wraparound=False, cdivision=True
"""Finds stop strings in text that arrives in pieces.

Strategy: each stop string is matched by its own Knuth-Morris-Pratt automaton, one
step a byte, so the time is linear however often a match nearly happens. Text is
passed on at once, but for the longest tail that may still become a stop string.
Matching bytes is matching characters: no UTF-8 sequence occurs inside another.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport uint8_t, uint32_t


cdef class StopMatcher:
    """Passes text on up to the first stop string.

    The first is the one that is complete first; of several that end on the same
    byte, the longest. What counts is the text alone, not how it was cut.

    Args:
        stops: The stop strings in UTF-8; none is empty.
        keep: Whether the matched string stays in the text.

    Attributes:
        matched: The stop string found, or None.
    """

    def __cinit__(self, stops, bint keep=False):
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t i
        cdef bytes stop
        self.stops = tuple(stops)
        self.keep = keep
        self.held = b""
        for stop in self.stops:
            if not stop:
                raise ValueError("an empty stop string matches everywhere")
            total += PyBytes_GET_SIZE(stop)
        self.failures = <uint32_t*>PyMem_Calloc(total + 1, sizeof(uint32_t))
        self.bases = <uint32_t*>PyMem_Calloc(len(self.stops) + 1, sizeof(uint32_t))
        self.states = <uint32_t*>PyMem_Calloc(len(self.stops) + 1, sizeof(uint32_t))
        if self.failures == NULL or self.bases == NULL or self.states == NULL:
            raise MemoryError()
        total = 0
        for i, stop in enumerate(self.stops):
            self.bases[i] = <uint32_t>total
            _failure_table(stop, self.failures + total)
            total += PyBytes_GET_SIZE(stop)

    def __dealloc__(self):
        PyMem_Free(self.failures)
        PyMem_Free(self.bases)
        PyMem_Free(self.states)

    cpdef bytes feed(self, bytes text):
        """Takes more text; returns what may go out now. Nothing after a match."""
        cdef const uint8_t* data
        cdef Py_ssize_t fresh = PyBytes_GET_SIZE(self.held)
        cdef Py_ssize_t size
        cdef Py_ssize_t at
        cdef Py_ssize_t i
        cdef Py_ssize_t found
        cdef Py_ssize_t longest
        cdef uint32_t state
        cdef bytes stop
        if text is None:
            raise TypeError("text is None")
        if self.matched is not None:
            return b""
        text = self.held + text
        data = <const uint8_t*>PyBytes_AS_STRING(text)
        size = PyBytes_GET_SIZE(text)
        for at in range(fresh, size):
            found = -1
            longest = 0
            for i in range(len(self.stops)):
                stop = <bytes>self.stops[i]
                state = _step(stop, self.failures + self.bases[i], self.states[i], data[at])
                self.states[i] = state
                if state == PyBytes_GET_SIZE(stop) and PyBytes_GET_SIZE(stop) > longest:
                    found = i
                    longest = PyBytes_GET_SIZE(stop)
            if found >= 0:
                self.matched = self.stops[found]
                self.held = b""
                return text[: at + 1 if self.keep else at + 1 - longest]
        longest = 0
        for i in range(len(self.stops)):
            longest = max(longest, <Py_ssize_t>self.states[i])
        self.held = text[size - longest :]
        return text[: size - longest]

    def finish(self):
        """Returns the text held back, at the end of the sample."""
        held = self.held
        self.held = b""
        return held


cdef void _failure_table(bytes stop, uint32_t* table) noexcept:
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(stop)
    cdef uint32_t length = 0
    cdef Py_ssize_t i
    table[0] = 0
    for i in range(1, PyBytes_GET_SIZE(stop)):
        while length and data[i] != data[length]:
            length = table[length - 1]
        if data[i] == data[length]:
            length += 1
        table[i] = length


cdef inline uint32_t _step(bytes stop, const uint32_t* table, uint32_t state, uint8_t byte) noexcept:
    """The automaton's next state: how much of `stop` the text now ends with."""
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(stop)
    if state == PyBytes_GET_SIZE(stop):
        state = table[state - 1]
    while state and byte != data[state]:
        state = table[state - 1]
    return state + 1 if byte == data[state] else 0
