from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.guard cimport Guard
from sglrouter._fast.inbox cimport Inbox
from sglrouter._fast.json_value cimport JsonValue
from sglrouter._fast.markers cimport Markers

cdef enum:
    TO_CONTENT = 0
    TO_REASONING = 1
    TO_STRING = 2
    TO_NOTHING = 3

    TRIM_NONE = 0
    TRIM_ONE_NEWLINE = 1
    TRIM_ALL = 2


cdef class Operation:
    cdef object run(self, Inbox inbox, Answer answer, JsonValue value)


cdef class Pass(Operation):
    cdef int to
    cdef Markers markers
    cdef int trim
    cdef bint recorded
    cdef Guard guard

    cdef bint _trim_start(self, Inbox inbox, Answer answer) noexcept
    cdef int _pass_on(self, Answer answer, const uint8_t* data, Py_ssize_t size) except -1


cdef class Read(Operation):
    cdef Markers markers
    cdef Py_ssize_t limit
    cdef bint peek
    cdef Guard guard


cdef class Match(Operation):
    cdef Markers markers
    cdef bint skip_space
    cdef Guard guard


cdef class Peek(Operation):
    pass


cdef class Text(Operation):
    cdef Py_ssize_t limit


cdef class Value(Operation):
    cdef bint python
    cdef bint in_code
    cdef bint drop
    cdef bytes quote
    cdef Py_ssize_t limit
