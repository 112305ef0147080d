from cython cimport final
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.buffer cimport Buffer
from sglrouter._fast.inbox cimport Inbox
from sglrouter._fast.json_string cimport JsonString
from sglrouter._fast.python_value cimport PythonValue


@final
cdef class JsonValue:
    cdef Inbox inbox
    cdef Answer answer
    cdef PythonValue literal  # what reads it if it is written as in Python
    cdef bint python          # whether it is
    cdef bytes quote        # what its strings stand in, too; None for nothing
    cdef int state
    cdef Buffer stack       # the open brackets
    cdef Buffer token       # the beginning of a scalar or a bare word
    cdef JsonString string
    cdef bint after_comma
    cdef set keys           # bare ones of the outermost object; None if they do not matter
    cdef bint repeated      # the member that is read has such a key, and goes nowhere

    cdef void begin(self, bint python, bint in_code, bytes quote) noexcept
    cdef object read(self)
    cdef bint close(self) except -1
    cdef uint8_t _top(self) noexcept
    cdef void _end_part(self) noexcept
    cdef int _cut_token(self) except -1
    cdef int _mark_byte(self, uint8_t byte) except -2
    cdef int _forgotten_comma(self, uint8_t byte) except -2
    cdef int _next_item(self) noexcept
    cdef int _byte_after_space(self, Py_ssize_t at) noexcept
    cdef int _key_at(self, Py_ssize_t at) noexcept
    cdef int _name_at(self, Py_ssize_t at) noexcept
    cdef void _end_repetition(self) noexcept
    cdef int _begin_string(self) except -1
    cdef int _separate(self) except -1
    cdef int _close_bracket(self, uint8_t byte) except -2
    cdef int _token_byte(self, uint8_t byte) except -2
    cdef int _end_token(self) except -1
    cdef int _quoted(self, bytes word) except -1
