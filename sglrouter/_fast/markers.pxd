from cython cimport final
from libc.stdint cimport uint8_t


@final
cdef class Markers:
    cdef tuple markers
    cdef uint8_t starts[256]   # the bytes that markers begin with
    cdef int only              # the one such byte, or -1
    cdef bint loose            # white space may follow a marker's first byte
    cdef Py_ssize_t matched    # how long the last match was

    cdef Py_ssize_t next_start(self, const uint8_t* data, Py_ssize_t size) noexcept
    cdef int match(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept
    cdef int _match_loose(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept
