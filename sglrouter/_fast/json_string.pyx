# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a string of a JSON value as it arrives, and passes it on as JSON.

Strategy: runs of ordinary bytes are passed on at once; only a quote, a backslash or a
control character is looked at alone. Escapes stay as they are, and of what is none the
backslash is meant.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.ascii cimport hex_value
from sglrouter._fast.inbox cimport Inbox


@final
cdef class JsonString:
    """The string that is being read; its quotes in JSON are written by whoever has it read.

    Args:
        inbox: Where it comes from.
        answer: Where its text goes, as arguments.
    """

    def __cinit__(self, Inbox inbox, Answer answer):
        self.inbox = inbox
        self.answer = answer

    cdef void open(self) noexcept:
        """Reads the quote that comes next."""
        self.quote = self.inbox.data[self.inbox.at]
        self.inbox.at += 1

    cdef int open_marked(self, bytes marker) noexcept:
        """Reads a marker that a string stands in: NO_PART, INCOMPLETE or WENT_ON."""
        cdef int opens = self.starts_with(marker)
        if opens == WENT_ON:
            self.marker = marker
            self.quote = 0
            self.inbox.at += PyBytes_GET_SIZE(marker)
        return opens

    cdef int read(self) except -2:
        """Reads on: CLOSED, WENT_ON, or INCOMPLETE where an escape or the end is."""
        cdef const uint8_t* data = self.inbox.data
        cdef Py_ssize_t size = self.inbox.size
        cdef Py_ssize_t start = self.inbox.at
        cdef Py_ssize_t at = start
        cdef uint8_t byte
        if self.quote == 0:
            return self._read_marked()
        while at < size:
            byte = data[at]
            if byte == self.quote or byte == 0x5C or byte < 0x20 or byte == 0x22:
                break
            at += 1
        if at > start:
            self.answer.argue(data + start, at - start)
            self.inbox.at = at
            return WENT_ON
        byte = data[at]
        if byte == 0x5C:
            return self._read_escape(data + at, size - at)
        if byte == self.quote:
            self.inbox.at += 1
            return CLOSED
        self.answer.escape(data + at, 1)
        self.inbox.at += 1
        return WENT_ON

    cdef int _read_marked(self) except -2:
        cdef const uint8_t* data = self.inbox.data + self.inbox.at
        cdef Py_ssize_t size = self.inbox.size - self.inbox.at
        cdef const void* found = memchr(data, PyBytes_AS_STRING(self.marker)[0], size)
        cdef Py_ssize_t start = size if found == NULL else <const uint8_t*>found - data
        cdef int closes
        if start == 0:
            closes = self.starts_with(self.marker)
            if closes == WENT_ON:
                self.inbox.at += PyBytes_GET_SIZE(self.marker)
                return CLOSED
            if closes == INCOMPLETE:
                return INCOMPLETE
            start = 1
        self.answer.escape(data, start)
        self.inbox.at += start
        return WENT_ON

    cdef int starts_with(self, bytes marker) noexcept:
        """Whether the marker comes next: NO_PART, INCOMPLETE or WENT_ON."""
        cdef Py_ssize_t size = min(self.inbox.size - self.inbox.at, PyBytes_GET_SIZE(marker))
        if memcmp(self.inbox.data + self.inbox.at, PyBytes_AS_STRING(marker), size) != 0:
            return NO_PART
        return WENT_ON if size == PyBytes_GET_SIZE(marker) else INCOMPLETE

    cdef int _read_escape(self, const uint8_t* data, Py_ssize_t size) except -2:
        """Reads a backslash and what belongs to it; INCOMPLETE if that has not all arrived."""
        cdef uint8_t byte
        cdef int i
        if size < 2:
            return INCOMPLETE
        byte = data[1]
        if byte in b'"\\/bfnrt':
            self.answer.argue(data, 2)
            self.inbox.at += 2
            return WENT_ON
        if byte == 0x27:  # '
            self.answer.argue(b"'", 1)
            self.inbox.at += 2
            return WENT_ON
        if byte == 0x75:  # u
            for i in range(2, 6):
                if i >= size:
                    return INCOMPLETE
                if hex_value(data[i]) < 0:
                    break
            else:
                self.answer.argue(data, 6)
                self.inbox.at += 6
                return WENT_ON
        # No escape of JSON: the backslash is meant.
        self.answer.argue(b"\\\\", 2)
        self.inbox.at += 1
        return WENT_ON
