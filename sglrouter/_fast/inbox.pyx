# cython: boundscheck=False, wraparound=False, cdivision=True
"""The text that has arrived and is not consumed yet, and what of it may be wanted back.

Strategy: operations look at the bytes from `at` on and move `at`; what lies before it is
given up with the next piece. From mark() on, what is consumed is copied to a record: a
program that is not sure yet can have it back, and nothing is copied while it is sure.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memmove

from sglrouter._fast.ascii cimport is_space
from sglrouter._fast.buffer cimport Buffer

cdef object MORE = object()


@final
cdef class Inbox(Buffer):
    """Text that is not consumed yet."""

    def __cinit__(self):
        self.record = Buffer()

    cdef int feed(self, bytes text) except -1:
        """Takes more text."""
        if self.at > 0:
            memmove(self.data, self.data + self.at, self.size - self.at)
            self.size -= self.at
            self.known -= self.at
            self.at = 0
        return self.add(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    cdef int consume(self, Py_ssize_t size) except -1:
        self.at += size
        return self.note(size)

    cdef int note(self, Py_ssize_t size) except -1:
        """Records the last `size` bytes that were consumed, but for what was put back."""
        cdef Py_ssize_t start = max(self.at - size, self.known)
        if not self.recording or start >= self.at:
            return 0
        return self.record.add(self.data + start, self.at - start)

    cdef int skip_space(self) except -1:
        """Consumes the white space that comes next."""
        cdef Py_ssize_t size = 0
        while self.at + size < self.size and is_space(self.data[self.at + size]):
            size += 1
        return self.consume(size)

    cdef int mark(self, bytes seen) except -1:
        """Records what is consumed from here on; `seen` is as if it had been."""
        self.record.size = 0
        self.known = self.at
        self.recording = True
        return self.record.add_bytes(seen)

    cdef void forget(self) noexcept:
        """Ends the record: nothing of it is wanted back."""
        self.recording = False
        self.record.size = 0

    cdef bytes take_record(self):
        """Ends the record and returns it; of what was put back, nothing comes again."""
        if not self.recording:
            return b""
        self.recording = False
        self.at = max(self.at, self.known)
        return self.record.take()

    cdef int push(self, bytes text) except -1:
        """Puts text before what comes next: it stands for text that was consumed already."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
        cdef bytes rest
        if size == 0:
            return 0
        self.known = max(self.known, self.at)
        if size <= self.at:
            self.at -= size
            memcpy(self.data + self.at, PyBytes_AS_STRING(text), size)
            return 0
        rest = PyBytes_FromStringAndSize(<char*>self.data + self.at, self.size - self.at)
        self.known += size - self.at
        self.size = 0
        self.at = 0
        self.add_bytes(text)
        return self.add_bytes(rest)
