# cython: boundscheck=False, wraparound=False, cdivision=True
"""Bytes that grow at one end.

Strategy: room is doubled when it runs out and never given back, so that adding a byte
costs the same however many there are.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport uint8_t
from libc.string cimport memcpy


cdef class Buffer:
    """Bytes that grow at one end."""

    cdef int add(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t wanted = self.size + size
        cdef void* grown
        if size == 0:
            return 0  # perhaps from nowhere, which memcpy() must not be given
        if wanted > self.capacity:
            wanted = max(wanted, 2 * self.capacity, 64)
            grown = PyMem_Realloc(self.data, wanted)
            if grown == NULL:
                raise MemoryError()
            self.data = <uint8_t*>grown
            self.capacity = wanted
        memcpy(self.data + self.size, data, size)
        self.size += size
        return 0

    cdef int add_byte(self, uint8_t byte) except -1:
        return self.add(&byte, 1)

    cdef int add_bytes(self, bytes data) except -1:
        return self.add(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef bytes take(self):
        """Returns what there is, and leaves nothing."""
        cdef bytes taken
        if self.size == 0:
            return b""
        taken = PyBytes_FromStringAndSize(<char*>self.data, self.size)
        self.size = 0
        return taken

    def __dealloc__(self):
        PyMem_Free(self.data)
