# cython: boundscheck=False, wraparound=False, cdivision=True
"""The parts of an answer as they become certain: content, reasoning, calls.

Strategy: everything is collected until it is taken, arguments as one run of JSON for each
call. What comes here is final, but for two things: white space, which around calls is
content only if other content follows, and arguments without a call, which go with the
next call that begins.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from sglrouter._fast.ascii cimport is_space
from sglrouter._fast.buffer cimport Buffer

cdef const char* HEX = b"0123456789abcdef"


@final
cdef class Answer:
    """What is known of an answer.

    Args:
        new_id: Makes the id of a call from its name and number.
        accepts: Says whether calls of a function are passed on; None if all are.
    """

    def __cinit__(self, new_id, accepts=None):
        self.content = Buffer()
        self.reasoning = Buffer()
        self.space = Buffer()
        self.arguments = Buffer()
        self.early = Buffer()
        self.held = Buffer()
        self.deltas = []
        self.new_id = new_id
        self.accepts = accepts
        self.holding_space = True
        self.open_call = -1

    # Content.

    cdef int pass_content(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t at = 0
        if self.holding_space:
            # Around calls, white space alone is not content.
            while at < size and is_space(data[at]):
                at += 1
            if at == size:
                return self.space.add(data, size)
            self.content.add(self.space.data, self.space.size)
            self.space.size = 0
            self.holding_space = False
        return self.content.add(data, size)

    cdef void hold_space(self) noexcept:
        """Says that markup has just ended: white space alone after it is not content."""
        self.holding_space = True
        self.space.size = 0

    # Calls.

    cdef int begin_call(self, str name) except -1:
        """Begins a call; arguments that came before the name go with it."""
        self.drop_held()
        self._flush_arguments()
        self.dropping = self.accepts is not None and not self.accepts(name)
        if self.dropping:
            self.open_call = -1
        else:
            self.open_call = self.called
            self.called += 1
            self.deltas.append((self.open_call, self.new_id(name, self.open_call), name, b""))
            self.arguments.add(self.early.data, self.early.size)
        self.early.size = 0
        self.in_call = True
        self.argued = self.arguments.size > 0
        return 0

    cdef int argue(self, const uint8_t* json, Py_ssize_t size) except -1:
        """Adds to the arguments of the open call, or of the next one if none is open."""
        if size == 0 or self.dropping or self.skipping:
            return 0
        if self.holding:
            return self.held.add(json, size)
        if not self.in_call:
            return self.early.add(json, size)
        self.argued = True
        return self.arguments.add(json, size)

    cdef int argue_bytes(self, bytes json) except -1:
        return self.argue(<const uint8_t*>PyBytes_AS_STRING(json), PyBytes_GET_SIZE(json))

    cdef int escape(self, const uint8_t* text, Py_ssize_t size) except -1:
        """Adds text to a JSON string in the arguments."""
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t start = 0
        cdef uint8_t byte
        cdef uint8_t code[6]
        while at < size:
            byte = text[at]
            if byte >= 0x20 and byte != 0x22 and byte != 0x5C:
                at += 1
                continue
            self.argue(text + start, at - start)
            if byte == 0x22 or byte == 0x5C:
                code[0], code[1] = 0x5C, byte
                self.argue(code, 2)
            elif byte == 0x0A:
                self.argue(b"\\n", 2)
            elif byte == 0x0D:
                self.argue(b"\\r", 2)
            elif byte == 0x09:
                self.argue(b"\\t", 2)
            else:
                code[0], code[1], code[2], code[3] = 0x5C, 0x75, 0x30, 0x30
                code[4], code[5] = HEX[byte >> 4], HEX[byte & 15]
                self.argue(code, 6)
            at += 1
            start = at
        return self.argue(text + start, size - start)

    # Arguments that are not certain yet.

    cdef int release_held(self) except -1:
        """Passes on what is held; zero bytes in it stand for nothing."""
        cdef Buffer held = self.held
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t start = 0
        self.holding = False
        while at < held.size:
            if held.data[at] == 0:
                self.argue(held.data + start, at - start)
                start = at + 1
            at += 1
        self.argue(held.data + start, at - start)
        held.size = 0
        return 0

    cdef void cut_held(self, Py_ssize_t size) noexcept:
        """Drops what is held, but for the first bytes."""
        self.held.size = min(self.held.size, size)

    cdef void drop_held(self) noexcept:
        """Drops what is held."""
        self.holding = False
        self.held.size = 0

    cdef int leave_call(self) except -1:
        """Leaves the open call as it is: it never becomes complete."""
        self.drop_held()
        self._flush_arguments()
        self.in_call = False
        self.dropping = False
        self.open_call = -1
        return 0

    cdef int end_call(self) except -1:
        """Completes the open call; one without arguments gets an empty object."""
        self.drop_held()
        if self.in_call and not self.dropping:
            if not self.argued:
                self.argue(b"{}", 2)
            self._flush_arguments()
            self.completed += 1
        self.in_call = False
        self.dropping = False
        self.open_call = -1
        self.hold_space()
        return 0

    cdef void forget_early(self) noexcept:
        """Drops arguments that came before a name: they were no arguments."""
        self.early.size = 0

    # What the owner of the answer wants.

    cdef int finish(self) except -1:
        """Says that nothing follows: an answer of white space is one, too."""
        if self.called == 0 and self.space.size:
            self.content.add(self.space.data, self.space.size)
        self.space.size = 0
        return 0

    cdef tuple take(self):
        """Returns (content, reasoning, call deltas) since the last take."""
        cdef list deltas
        self._flush_arguments()
        deltas = self.deltas
        if deltas:
            self.deltas = []
        return self.content.take(), self.reasoning.take(), deltas

    cdef int _flush_arguments(self) except -1:
        cdef bytes json
        cdef Py_ssize_t last = len(self.deltas) - 1
        if self.arguments.size == 0:
            return 0
        json = self.arguments.take()
        if last >= 0 and self.deltas[last][0] == self.open_call:
            _, call_id, name, before = self.deltas[last]
            self.deltas[last] = (self.open_call, call_id, name, before + json)
        else:
            self.deltas.append((self.open_call, None, None, json))
        return 0
