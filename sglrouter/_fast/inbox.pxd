from cython cimport final
from libc.stdint cimport uint8_t

from sglrouter._fast.buffer cimport Buffer

# What an operation gives that cannot go on before more text has arrived.
cdef object MORE


@final
cdef class Inbox(Buffer):
    cdef Py_ssize_t at           # where what is not consumed begins
    cdef bint ended              # no more text will arrive
    cdef Py_ssize_t progress     # what an operation keeps from piece to piece; 0 as it begins
    cdef bytes marker            # what a loose Pass has stopped at
    cdef int depth               # of calls that are quoted in a value, for a Guard
    cdef uint8_t previous        # the byte before `at`, where a Guard may ask for it

    # What may be wanted back.
    cdef Buffer record           # text consumed since mark()
    cdef bint recording
    cdef Py_ssize_t known        # up to where the text is in `record` already

    cdef int feed(self, bytes text) except -1
    cdef int consume(self, Py_ssize_t size) except -1
    cdef int note(self, Py_ssize_t size) except -1
    cdef int skip_space(self) except -1
    cdef int mark(self, bytes seen) except -1
    cdef void forget(self) noexcept
    cdef bytes take_record(self)
    cdef int push(self, bytes text) except -1
