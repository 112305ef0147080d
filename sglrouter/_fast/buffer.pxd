from libc.stdint cimport uint8_t


cdef class Buffer:
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    cdef int add(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef int add_byte(self, uint8_t byte) except -1
    cdef int add_bytes(self, bytes data) except -1
    cdef bytes take(self)
