from libc.stdint cimport uint8_t


cdef class Buffer:
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    cdef int add(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef int add_byte(self, uint8_t byte) except -1
    cdef int add_bytes(self, bytes data) except -1
    cdef bytes take(self)


cdef class Markers:
    cdef tuple markers
    cdef uint8_t starts[256]   # the bytes that markers begin with
    cdef int only              # the one such byte, or -1
    cdef Py_ssize_t longest
    cdef bint loose            # white space may follow a marker's first byte
    cdef Py_ssize_t matched    # how long the last match was

    cdef Py_ssize_t next_start(self, const uint8_t* data, Py_ssize_t size) noexcept
    cdef int match(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept
    cdef int _match_loose(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept


cdef class Operation:
    pass


cdef class Pass(Operation):
    cdef int to
    cdef Markers markers
    cdef int trim


cdef class Read(Operation):
    cdef Markers markers
    cdef Py_ssize_t limit
    cdef bint peek


cdef class Match(Operation):
    cdef Markers markers
    cdef bint skip_space


cdef class Peek(Operation):
    pass


cdef class Value(Operation):
    cdef bint python
    cdef bint drop
    cdef bytes quote


cdef class Text(Operation):
    cdef Py_ssize_t limit


cdef class OutputParser:
    cdef object program          # the generator
    cdef Operation operation     # what it waits for; None once it is over
    cdef object result
    cdef Buffer inbox            # text not consumed yet, from `at` on
    cdef Py_ssize_t at
    cdef Py_ssize_t progress     # how much of it the operation has looked at
    cdef bint fresh              # whether the operation has not begun
    cdef Buffer content
    cdef Buffer reasoning
    cdef Buffer space            # white space that may be nobody's
    cdef bint holding_space
    cdef Buffer record           # text consumed since mark()
    cdef bint recording
    cdef Py_ssize_t recorded     # of what comes next, how much is in `record` already

    cdef object new_id
    cdef object accepts
    cdef list deltas
    cdef Buffer arguments        # of the open call, not in `deltas` yet
    cdef object early            # arguments that came before the name
    cdef Py_ssize_t open_call
    cdef bint in_call
    cdef bint dropping
    cdef bint argued

    # The JSON value that is being read.
    cdef int state
    cdef Buffer stack            # the open brackets
    cdef Buffer token
    cdef uint8_t quote
    cdef bint triple
    cdef bint first_item
    cdef bint after_comma
    cdef bint skipping           # it goes nowhere
    cdef int steps_after_end

    cdef readonly Py_ssize_t called
    cdef readonly Py_ssize_t completed
    cdef readonly bint ended
    cdef readonly bytes marker   # what a loose Pass has stopped at

    cpdef int feed(self, bytes text) except -1
    cpdef int finish(self) except -1
    cdef bint _in_reasoning(self) noexcept
    cdef int passes(self, bytes text) noexcept

    cdef int _run(self) except -1
    cdef int _advance(self, result) except -1
    cdef int _consume(self, Py_ssize_t size) except -1
    cdef int _record(self, Py_ssize_t size) except -1
    cdef int _run_pass(self, Pass operation) except -1
    cdef int _pass_on(self, Pass operation, const uint8_t* data, Py_ssize_t size) except -1
    cdef int _pass_content(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef void _hold_space(self) noexcept
    cdef int _run_read(self, Read operation) except -1
    cdef int _run_match(self, Match operation) except -1
    cdef int _run_peek(self) except -1
    cdef int _skip_space(self) except -1
    cdef int _run_text(self, Text operation) except -1
    cdef uint8_t _top(self) noexcept
    cdef int _run_value(self, Value operation) except -1
    cdef int _mark_byte(self, uint8_t byte, Value operation) except -2
    cdef int _separate(self) except -1
    cdef int _closer(self, uint8_t byte) except -2
    cdef int _token_byte(self, uint8_t byte, Value operation) except -2
    cdef int _end_token(self) except -1
    cdef int _string(self, bint python) except -2
    cdef int _starts_with(self, bytes marker) noexcept
    cdef int _marked_string(self, bytes quote) except -2
    cdef int _string_escape(self, const uint8_t* data, Py_ssize_t size, bint python) except -2
    cdef int _argue(self, const uint8_t* json, Py_ssize_t size) except -1
    cdef int _escape(self, const uint8_t* text, Py_ssize_t size) except -1
    cdef int _flush_arguments(self) except -1
