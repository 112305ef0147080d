from cython cimport final
from libc.stdint cimport uint8_t, uint32_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.inbox cimport Inbox


@final
cdef class PythonString:
    cdef Inbox inbox
    cdef Answer answer
    cdef uint8_t quote      # what the literal ends with
    cdef bint triple        # it ends with three of them
    cdef bint raw           # a backslash is a backslash
    cdef bint binary        # escapes are those of bytes
    cdef bint formatted     # two braces are one

    cdef bint open(self, const uint8_t* prefix, Py_ssize_t size) noexcept
    cdef int read(self) except -2
    cdef int _read_brace(self, const uint8_t* data, Py_ssize_t size) except -2
    cdef int _read_escape(self, const uint8_t* data, Py_ssize_t size) except -2
    cdef int _read_octal(self, const uint8_t* data, Py_ssize_t size) except -2
    cdef int _read_hex(self, const uint8_t* data, Py_ssize_t size, int digits) except -2
    cdef int _read_name(self, const uint8_t* data, Py_ssize_t size) except -2
    cdef int _read_backslash(self) except -2
    cdef int _say(self, str character, Py_ssize_t size) except -2


cdef Py_ssize_t prefix_size(const uint8_t* data, Py_ssize_t size) noexcept
