# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a string literal of Python as it arrives, and passes it on as JSON.

Strategy: as JsonString, with the prefixes, quotes and escapes of Python. What its compiler
refuses is read all the same: a line end in a string is one, and a backslash before what is
no escape is a backslash. JSON has no bytes: each byte is the character of its number. The
placeholders of an f-string stay as they are written.
"""

import unicodedata

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.ascii cimport hex_value
from sglrouter._fast.inbox cimport Inbox
from sglrouter._fast.json_string cimport CLOSED, INCOMPLETE, WENT_ON

cdef enum:
    # A character's name is not longer than this.
    LONGEST_NAME = 100


cdef Py_ssize_t prefix_size(const uint8_t* data, Py_ssize_t size) noexcept:
    """How many letters of a literal's prefix `data` begins with: two at most."""
    cdef Py_ssize_t count = 0
    while count < 2 and count < size and (data[count] | 0x20) in b"rbuf":
        count += 1
    return count


@final
cdef class PythonString:
    """The literal that is being read; its quotes in JSON are written by whoever has it read.

    Args:
        inbox: Where it comes from.
        answer: Where its text goes, as arguments.
    """

    def __cinit__(self, Inbox inbox, Answer answer):
        self.inbox = inbox
        self.answer = answer

    cdef bint open(self, const uint8_t* prefix, Py_ssize_t size) noexcept:
        """Reads the quote that comes next, or three; False if more is needed to tell.

        Args:
            prefix: The letters before it, consumed already.
            size: How many there are.
        """
        cdef Inbox inbox = self.inbox
        cdef uint8_t byte = inbox.data[inbox.at]
        cdef int quotes = 1
        cdef Py_ssize_t i
        # ''' is seen only with its third byte, '' with the one after it.
        while quotes < 3 and inbox.at + quotes < inbox.size:
            if inbox.data[inbox.at + quotes] != byte:
                break
            quotes += 1
        if quotes < 3 and inbox.at + quotes == inbox.size and not inbox.ended:
            return False
        self.raw = self.binary = self.formatted = False
        for i in range(size):
            if prefix[i] | 0x20 == 0x72:  # r
                self.raw = True
            elif prefix[i] | 0x20 == 0x62:  # b
                self.binary = True
            elif prefix[i] | 0x20 == 0x66:  # f
                self.formatted = True
        self.quote = byte
        self.triple = quotes == 3
        inbox.at += 3 if self.triple else 1
        return True

    cdef int read(self) except -2:
        """Reads on: CLOSED, WENT_ON, or INCOMPLETE where an escape or the end is."""
        cdef const uint8_t* data = self.inbox.data
        cdef Py_ssize_t size = self.inbox.size
        cdef Py_ssize_t start = self.inbox.at
        cdef Py_ssize_t at = start
        cdef uint8_t byte
        while at < size:
            byte = data[at]
            if byte == self.quote or byte == 0x5C or byte < 0x20 or byte == 0x22:
                break
            if self.formatted and (byte == 0x7B or byte == 0x7D):
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
            if not self.triple:
                self.inbox.at += 1
                return CLOSED
            if at + 2 >= size and not self.inbox.ended and data[size - 1] == byte:
                return INCOMPLETE
            if at + 2 < size and data[at + 1] == byte and data[at + 2] == byte:
                self.inbox.at += 3
                return CLOSED
        elif byte == 0x7B or byte == 0x7D:
            return self._read_brace(data + at, size - at)
        self.answer.escape(data + at, 1)
        self.inbox.at += 1
        return WENT_ON

    cdef int _read_brace(self, const uint8_t* data, Py_ssize_t size) except -2:
        """Reads a brace of an f-string, or two that stand for one."""
        if size < 2 and not self.inbox.ended:
            return INCOMPLETE
        self.answer.argue(data, 1)
        self.inbox.at += 2 if size > 1 and data[1] == data[0] else 1
        return WENT_ON

    cdef int _read_escape(self, const uint8_t* data, Py_ssize_t size) except -2:
        """Reads a backslash and what belongs to it; INCOMPLETE if that has not all arrived."""
        cdef uint8_t byte
        if size < 2:
            return INCOMPLETE
        byte = data[1]
        if self.raw:
            if byte != self.quote and byte != 0x5C:
                return self._read_backslash()
            # It keeps a quote from being the end, and stays all the same.
            self.answer.escape(data, 2)
            self.inbox.at += 2
            return WENT_ON
        if byte == 0x0A or byte == 0x0D:
            # The line goes on.
            if byte == 0x0D and size < 3:
                return INCOMPLETE
            self.inbox.at += 3 if byte == 0x0D and data[2] == 0x0A else 2
            return WENT_ON
        if byte in b'"\\bfnrt':
            self.answer.argue(data, 2)
            self.inbox.at += 2
            return WENT_ON
        if byte == 0x27:
            return self._say("'", 2)
        if byte == 0x61:  # a
            return self._say("\a", 2)
        if byte == 0x76:  # v
            return self._say("\v", 2)
        if 0x30 <= byte <= 0x37:
            return self._read_octal(data, size)
        if byte == 0x78:  # x
            return self._read_hex(data, size, 2)
        if not self.binary:
            if byte == 0x75:  # u
                return self._read_hex(data, size, 4)
            if byte == 0x55:  # U
                return self._read_hex(data, size, 8)
            if byte == 0x4E:  # N
                return self._read_name(data, size)
        return self._read_backslash()

    cdef int _read_octal(self, const uint8_t* data, Py_ssize_t size) except -2:
        cdef uint32_t point = 0
        cdef Py_ssize_t at = 1
        while at < 4:
            if at == size and not self.inbox.ended:
                return INCOMPLETE
            if at == size or not 0x30 <= data[at] <= 0x37:
                break
            point = 8 * point + data[at] - 0x30
            at += 1
        return self._say(chr(point & 0xFF if self.binary else point), at)

    cdef int _read_hex(self, const uint8_t* data, Py_ssize_t size, int digits) except -2:
        cdef uint32_t point = 0
        cdef int i
        for i in range(digits):
            if 2 + i >= size:
                return INCOMPLETE
            if hex_value(data[2 + i]) < 0:
                return self._read_backslash()
            point = (point << 4) | hex_value(data[2 + i])
        if digits == 4:
            # JSON has the very same, halves of a pair among them.
            self.answer.argue(data, 6)
            self.inbox.at += 6
            return WENT_ON
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            return self._read_backslash()
        return self._say(chr(point), 2 + digits)

    cdef int _read_name(self, const uint8_t* data, Py_ssize_t size) except -2:
        cdef Py_ssize_t at = 2
        cdef str character
        if size < 3:
            return INCOMPLETE
        if data[2] != 0x7B:
            return self._read_backslash()
        while at < size and at < LONGEST_NAME and data[at] != 0x7D:
            at += 1
        if at == LONGEST_NAME:
            return self._read_backslash()
        if at == size:
            return INCOMPLETE
        name = PyBytes_FromStringAndSize(<const char*>data + 3, at - 3).decode("utf-8", "replace")
        try:
            character = unicodedata.lookup(name)
        except KeyError:
            return self._read_backslash()
        return self._say(character, at + 1)

    cdef int _read_backslash(self) except -2:
        """Reads one that is meant."""
        self.answer.argue(b"\\\\", 2)
        self.inbox.at += 1
        return WENT_ON

    cdef int _say(self, str character, Py_ssize_t size) except -2:
        """Passes on what an escape of so many bytes stands for."""
        cdef bytes text = character.encode()
        self.answer.escape(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        self.inbox.at += size
        return WENT_ON
