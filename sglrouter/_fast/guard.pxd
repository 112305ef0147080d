from cython cimport final
from libc.stdint cimport uint8_t

from sglrouter._fast.inbox cimport Inbox


@final
cdef class Guard:
    cdef list roles       # of the markers, in their order
    cdef list starts      # the number of the place after each marker, or -1
    cdef list line_starts # the same for a marker at a line's start
    cdef list places      # (markers, where each leads, whether other text may follow, or the end)

    cdef int judge(
        self, Inbox inbox, int marker, const uint8_t* data, Py_ssize_t at, Py_ssize_t size,
        bint at_line
    ) except -3
    cdef int _cut_off(self, int place, bytes rest) except -3
    cdef int _follow(
        self, int place, const uint8_t* data, Py_ssize_t at, Py_ssize_t size, bint ended
    ) except -3
