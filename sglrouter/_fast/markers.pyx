# cython: boundscheck=False, wraparound=False, cdivision=True
"""Looks for literal strings in text of which more may come.

Strategy: bytes that no marker begins with are passed over at once, by memchr() where all
markers begin alike. Only at the others is anything compared, and what has arrived of a
marker so far is told from what is none.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp

from sglrouter._fast.ascii cimport is_space

cdef enum:
    # Of white space in a marker.
    MOST_SPACE = 64


@final
cdef class Markers:
    """Literal strings to look for.

    Of several that match at one place, the first in the list counts.

    Args:
        markers: The strings in UTF-8; none is empty.
        loose: Whether white space may follow a marker's first byte.
    """

    def __cinit__(self, markers, bint loose=False):
        cdef bytes marker
        self.markers = tuple(markers)
        self.loose = loose
        for marker in self.markers:
            if not marker:
                raise ValueError("an empty marker is everywhere")
            self.starts[<uint8_t>marker[0]] = 1
        firsts = {marker[0] for marker in self.markers}
        self.only = firsts.pop() if len(firsts) == 1 else -1

    cdef Py_ssize_t next_start(self, const uint8_t* data, Py_ssize_t size) noexcept:
        """Where the first byte is that a marker could begin with; `size` if none is."""
        cdef Py_ssize_t at = 0
        cdef const void* found
        if self.only >= 0:
            found = memchr(data, self.only, size)
            return size if found == NULL else <const uint8_t*>found - data
        while at < size and not self.starts[data[at]]:
            at += 1
        return at

    cdef int match(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept:
        """Which marker `data` begins with; -1 for none, -2 if more bytes are needed."""
        cdef Py_ssize_t length
        cdef int i
        cdef bytes marker
        if self.loose:
            return self._match_loose(data, size, last)
        for i in range(len(self.markers)):
            marker = <bytes>self.markers[i]
            length = PyBytes_GET_SIZE(marker)
            if length <= size:
                if memcmp(data, PyBytes_AS_STRING(marker), length) == 0:
                    self.matched = length
                    return i
            elif not last and memcmp(data, PyBytes_AS_STRING(marker), size) == 0:
                return -2
        return -1

    cdef int _match_loose(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept:
        cdef Py_ssize_t space = 1
        cdef Py_ssize_t length
        cdef int i
        cdef const char* marker
        while space < size and space <= MOST_SPACE and is_space(data[space]):
            space += 1
        for i in range(len(self.markers)):
            marker = PyBytes_AS_STRING(<bytes>self.markers[i])
            length = PyBytes_GET_SIZE(<bytes>self.markers[i]) - 1
            if <uint8_t>marker[0] != data[0]:
                continue
            if length <= size - space:
                if memcmp(data + space, marker + 1, length) == 0:
                    self.matched = space + length
                    return i
            elif not last and memcmp(data + space, marker + 1, size - space) == 0:
                return -2
        return -1
