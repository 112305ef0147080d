from cython cimport final
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.buffer cimport Buffer
from sglrouter._fast.inbox cimport Inbox
from sglrouter._fast.python_string cimport PythonString

cdef enum:
    MOST_DOUBTS = 20


@final
cdef class PythonValue:
    cdef Inbox inbox
    cdef Answer answer
    cdef PythonString string
    cdef bint in_code        # an expression that is no literal is its text
    cdef int state
    cdef Buffer stack        # the open brackets
    cdef Buffer token        # the source of the item, as long as its text may be the value
    cdef bint after_comma
    cdef bint is_key         # the item is a key, or would be one in a dict
    cdef bint in_doubt       # the string may turn out to be part of an expression
    cdef Py_ssize_t item_at  # where it begins in what is held
    cdef int depth           # of brackets in an expression
    cdef uint8_t in_quotes   # the quote of the string in an expression that is being read
    cdef Py_ssize_t[MOST_DOUBTS] places  # of brackets in what is held that are not decided yet
    cdef int doubts          # how many there are

    cdef void begin(self, bint in_code) noexcept
    cdef object read(self)
    cdef bint close(self) except -1
    cdef uint8_t _top(self) noexcept
    cdef int _release(self) except -1
    cdef int _separate(self) except -1
    cdef void _end_item(self) noexcept
    cdef int _item_byte(self, uint8_t byte) except -2
    cdef int _open_bracket(self, uint8_t byte) except -2
    cdef int _decide(self, uint8_t opener) except -1
    cdef int _mark_byte(self, uint8_t byte) except -2
    cdef int _close_bracket(self, uint8_t byte) except -2
    cdef int _pop(self) except -1
    cdef int _open_string(self) except -2
    cdef int _string_bytes(self) except -2
    cdef int _after_string(self, uint8_t byte) except -2
    cdef int _end_string(self) except -1
    cdef int _word_byte(self, uint8_t byte) except -2
    cdef int _end_words(self) except -1
    cdef int _literal_at(self, Py_ssize_t at) noexcept
    cdef int _marker_at(self, Py_ssize_t at) noexcept
    cdef int _keyword_at(self, Py_ssize_t at) noexcept
