from cython cimport final
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.inbox cimport Inbox

cdef enum:
    # How far reading a part of a value came.
    NO_PART = -1     # what comes next is no such part
    INCOMPLETE = 0   # more text is needed
    WENT_ON = 1      # something was read
    CLOSED = 2       # the end of the string was read, too


@final
cdef class JsonString:
    cdef Inbox inbox
    cdef Answer answer
    cdef uint8_t quote      # what the string ends with; 0 for `marker`
    cdef bytes marker

    cdef void open(self) noexcept
    cdef int open_marked(self, bytes marker) noexcept
    cdef int read(self) except -2
    cdef int _read_marked(self) except -2
    cdef int _read_escape(self, const uint8_t* data, Py_ssize_t size) except -2
    cdef int starts_with(self, bytes marker) noexcept
