from cython cimport final
from sglrouter._fast.answer cimport Answer
from sglrouter._fast.inbox cimport Inbox
from sglrouter._fast.json_value cimport JsonValue
from sglrouter._fast.operations cimport Operation


@final
cdef class OutputParser:
    cdef object program          # the generator
    cdef Operation operation     # what it waits for; None once it is over
    cdef Inbox inbox
    cdef Answer answer
    cdef JsonValue value         # what Value operations read with
    cdef int steps_after_end
    cdef bint _settled           # no more of the text can be reasoning

    cpdef int feed(self, bytes text) except -1
    cpdef int finish(self) except -1
    cdef bint feed_token(self, bytes text) except -1
    cpdef Py_ssize_t feed_tokens(self, list texts) except -1
    cdef bint _in_reasoning(self) noexcept
    cdef int passes(self, bytes text) noexcept

    cdef int _run(self) except -1
    cdef int _advance(self, result) except -1
