# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a model's output piece by piece: reasoning, content and tool calls.

Strategy: a format is a *program*, a generator that yields one operation after another
("pass text on up to this marker", "read a name", "pass a JSON value on") and reads like
a parser of the whole text. The operations run here, in compiled code: each takes what has
arrived, keeps where it is, and wakes the program only when it is done. So a long argument
in one-byte pieces costs no Python at all, the time is linear in the text, and what is
held back is never more than could still be part of a marker.

The text's cutting cannot matter, because no operation looks at where a piece ends: it
holds back what it cannot decide yet. What has gone out is never taken back; a program
that is not sure yet marks where it stands, and either accepts what followed as markup
or rejects it, which makes it content.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memmove

# What became of a text that Pass handles.
CONTENT = 0
REASONING = 1
STRING = 2
DROP = 3

# How much white space around a string argument is not part of it.
KEEP = 0
ONE_NEWLINE = 1
ALL_SPACE = 2

cdef enum:
    TO_CONTENT = 0
    TO_REASONING = 1
    TO_STRING = 2
    TO_NOTHING = 3

    TRIM_NONE = 0
    TRIM_ONE_NEWLINE = 1
    TRIM_ALL = 2

    # States of a JSON value.
    AT_VALUE = 0
    AT_KEY = 1
    AT_COLON = 2
    AFTER_VALUE = 3
    IN_STRING = 4
    IN_KEY = 5
    IN_TOKEN = 6
    IN_KEY_TOKEN = 7
    VALUE_DONE = 8

    DEEPEST = 1000

    # Of white space in a marker.
    MOST_SPACE = 64

cdef const char* HEX = b"0123456789abcdef"


cdef inline bint _is_space(uint8_t byte) noexcept:
    return byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09


cdef inline int _hex_value(uint8_t byte) noexcept:
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    byte |= 0x20
    return byte - 0x57 if 0x61 <= byte <= 0x66 else -1


cdef class Buffer:
    """Bytes that grow at one end."""

    cdef int add(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t wanted = self.size + size
        cdef void* grown
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
        cdef bytes taken
        if self.size == 0:
            return b""
        taken = PyBytes_FromStringAndSize(<char*>self.data, self.size)
        self.size = 0
        return taken

    def __dealloc__(self):
        PyMem_Free(self.data)


cdef class Markers:
    """Literal strings to look for.

    Of several that match at one place, the first in the list counts.

    Args:
        markers: The strings in UTF-8; none is empty.
        loose: Whether white space may follow a marker's first byte.
    """

    def __cinit__(self, markers, bint loose=False):
        cdef bytes marker
        self.markers = tuple(markers)
        self.loose = loose
        for marker in self.markers:
            if not marker:
                raise ValueError("an empty marker is everywhere")
            self.starts[<uint8_t>marker[0]] = 1
            self.longest = max(self.longest, PyBytes_GET_SIZE(marker))
        firsts = {marker[0] for marker in self.markers}
        self.only = firsts.pop() if len(firsts) == 1 else -1

    cdef Py_ssize_t next_start(self, const uint8_t* data, Py_ssize_t size) noexcept:
        """Where the first byte is that a marker could begin with; `size` if none is."""
        cdef Py_ssize_t at = 0
        cdef const void* found
        if self.only >= 0:
            found = memchr(data, self.only, size)
            return size if found == NULL else <const uint8_t*>found - data
        while at < size and not self.starts[data[at]]:
            at += 1
        return at

    cdef int match(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept:
        """Which marker `data` begins with; -1 for none, -2 if more bytes are needed."""
        cdef Py_ssize_t length
        cdef int i
        cdef bytes marker
        if self.loose:
            return self._match_loose(data, size, last)
        for i in range(len(self.markers)):
            marker = <bytes>self.markers[i]
            length = PyBytes_GET_SIZE(marker)
            if length <= size:
                if memcmp(data, PyBytes_AS_STRING(marker), length) == 0:
                    self.matched = length
                    return i
            elif not last and memcmp(data, PyBytes_AS_STRING(marker), size) == 0:
                return -2
        return -1

    cdef int _match_loose(self, const uint8_t* data, Py_ssize_t size, bint last) noexcept:
        cdef Py_ssize_t space = 1
        cdef Py_ssize_t length
        cdef int i
        cdef const char* marker
        while space < size and space <= MOST_SPACE and _is_space(data[space]):
            space += 1
        for i in range(len(self.markers)):
            marker = PyBytes_AS_STRING(<bytes>self.markers[i])
            length = PyBytes_GET_SIZE(<bytes>self.markers[i]) - 1
            if <uint8_t>marker[0] != data[0]:
                continue
            if length <= size - space:
                if memcmp(data + space, marker + 1, length) == 0:
                    self.matched = space + length
                    return i
            elif not last and memcmp(data + space, marker + 1, size - space) == 0:
                return -2
        return -1


cdef class Operation:
    """Something that a program can wait for."""


cdef class Pass(Operation):
    """Passes text on up to a marker, which is consumed. Gives the marker's number, or -1 at the end.

    Args:
        to: CONTENT, REASONING, STRING (a JSON string of the call's arguments, quotes
            not included) or DROP.
        markers: What to stop at.
        trim: KEEP, ONE_NEWLINE (one at each end) or ALL_SPACE; for STRING.
        loose: Whether white space may follow a marker's first byte. The marker as it is
            written is OutputParser.marker then.
    """

    def __cinit__(self, int to, markers=(), int trim=0, bint loose=False):
        self.to = to
        self.markers = Markers(markers, loose)
        self.trim = trim


cdef class Read(Operation):
    """Reads text up to a marker. Gives (text, the marker's number).

    Gives None if the end or `limit` bytes come first; what was read stays consumed.

    Args:
        markers: What to stop at; consumed, but for a `peeked` one.
        limit: Most bytes to read.
        peek: Whether the marker is left where it is.
    """

    def __cinit__(self, markers, Py_ssize_t limit=1024, bint peek=False):
        self.markers = Markers(markers)
        self.limit = limit
        self.peek = peek


cdef class Match(Operation):
    """Consumes one of several literals if it is next. Gives its number, or -1.

    Args:
        literals: The longer of two with a common beginning first.
        skip_space: Whether white space before it is consumed, match or not.
    """

    def __cinit__(self, literals, bint skip_space=False):
        self.markers = Markers(literals)
        self.skip_space = skip_space


cdef class Peek(Operation):
    """Skips white space and gives the next byte as bytes, which stays; b"" at the end."""


cdef class Value(Operation):
    """Passes one JSON value on to the call's arguments, as strict JSON.

    What models write instead of strict JSON is mended on the way: control characters in
    strings, single quotes, True and None, trailing commas, bare words, tuples. Strings
    are passed on as they arrive, other scalars when they are complete. White space
    outside strings is as json.dumps writes it.

    Gives True after a whole value, False at a byte that cannot go on, which is not
    consumed, and None at the end of the text. See OutputParser.close_value().

    Args:
        python: Whether strings are Python's: \\x41, triple quotes, and the like.
        drop: Whether the value goes nowhere.
        quote: A marker that strings stand in, without escapes; then other words need
            no quotes.
    """

    def __cinit__(self, bint python=False, bint drop=False, bytes quote=None):
        self.python = python
        self.drop = drop
        self.quote = quote


cdef class Text(Operation):
    """Reads a quoted string, at its opening quote. Gives its content as JSON text, quotes included.

    Gives None if there is no whole string of at most `limit` bytes.
    """

    def __cinit__(self, Py_ssize_t limit=1024):
        self.limit = limit


cdef class OutputParser:
    """Runs a program over text that arrives in pieces.

    Args:
        program: Called with this parser; returns the generator.
        new_id: Makes the id of a call from its name and number.
        accepts: Says whether calls of a function are passed on; the others are dropped.

    Attributes:
        called: How many calls have begun.
        completed: How many of them are complete.
        ended: Whether the text is over.
    """

    def __cinit__(self, program, new_id, accepts=None):
        self.inbox = Buffer()
        self.content = Buffer()
        self.reasoning = Buffer()
        self.space = Buffer()
        self.arguments = Buffer()
        self.record = Buffer()
        self.token = Buffer()
        self.stack = Buffer()
        self.deltas = []
        self.new_id = new_id
        self.accepts = accepts
        self.holding_space = True
        self.open_call = -1
        self.program = program(self)
        self._advance(None)

    # What the owner calls.

    cpdef int feed(self, bytes text) except -1:
        """Takes more text, whole characters of UTF-8."""
        if text is None:
            raise TypeError("text is None")
        if self.at > 0:
            memmove(self.inbox.data, self.inbox.data + self.at, self.inbox.size - self.at)
            self.inbox.size -= self.at
            self.at = 0
        self.inbox.add_bytes(text)
        self._run()
        return 0

    cpdef int finish(self) except -1:
        """Says that the text is over; what was held back is decided now."""
        if self.ended:
            return 0
        self.ended = True
        self._run()
        if self.called == 0 and self.space.size:
            self.content.add(self.space.data, self.space.size)
        self.space.size = 0
        self.program.close()
        return 0

    def take(self):
        """Returns (content, reasoning, call deltas) since the last take.

        Content and reasoning are bytes, the deltas (number, id, name, arguments), with
        id and name None but for the first of a call.
        """
        self._flush_arguments()
        deltas = self.deltas
        if deltas:
            self.deltas = []
        return self.content.take(), self.reasoning.take(), deltas

    @property
    def in_reasoning(self):
        """Whether what comes next is reasoning."""
        return self._in_reasoning()

    cdef bint _in_reasoning(self) noexcept:
        return type(self.operation) is Pass and (<Pass>self.operation).to == TO_REASONING

    cdef int passes(self, bytes text) noexcept:
        """Whether all of `text` would simply be passed on now: TO_CONTENT, TO_REASONING or -1.

        Then the owner may do so itself, and need not feed it.
        """
        cdef Pass operation
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
        if self.inbox.size > self.at or type(self.operation) is not Pass:
            return -1
        operation = <Pass>self.operation
        if operation.to > TO_REASONING or (operation.to == TO_CONTENT and self.holding_space):
            return -1
        if operation.markers.next_start(<const uint8_t*>PyBytes_AS_STRING(text), size) < size:
            return -1
        return operation.to

    # What programs call.

    def begin_call(self, str name not None):
        """Begins a call; arguments that came before the name go with it."""
        self._flush_arguments()
        if self.accepts is not None and not self.accepts(name):
            self.open_call = -1
            if self.early is not None:
                self.early.clear()
            self.dropping = True
        else:
            self.open_call = self.called
            self.called += 1
            self.deltas.append((self.open_call, self.new_id(name, self.open_call), name, b""))
            self.dropping = False
            if self.early is not None:
                self.arguments.add_bytes(bytes(self.early))
                self.early.clear()
        self.in_call = True
        self.argued = self.arguments.size > 0
        self.record.size = 0
        self.recording = False

    def argue(self, bytes json not None):
        """Adds to the arguments of the call."""
        self._argue(<const uint8_t*>PyBytes_AS_STRING(json), PyBytes_GET_SIZE(json))

    def end_call(self):
        """Completes the call; one without arguments gets an empty object."""
        if self.in_call and not self.dropping:
            if not self.argued:
                self.argue(b"{}")
            self._flush_arguments()
            self.completed += 1
        self.in_call = False
        self.dropping = False
        self.open_call = -1
        self._hold_space()

    def mark(self, bytes seen=b""):
        """From here on, what is consumed may turn out to be content; so may `seen`."""
        self.record.size = 0
        self.recorded = 0
        self.record.add_bytes(seen)
        self.recording = True
        if self.early is not None:
            self.early.clear()

    def accept(self):
        """What was consumed since mark() is markup."""
        self.recording = False
        self.record.size = 0
        self._hold_space()

    def reject(self):
        """What was consumed since mark() is content."""
        if self.recording:
            self.recording = False
            self._pass_content(self.record.data, self.record.size)
            self.record.size = 0
            self.at += self.recorded  # it stands for what has just become content
        if self.early is not None:
            self.early.clear()

    def rewind(self):
        """What was consumed since mark() is read again."""
        cdef bytes seen
        if self.recording:
            self.recording = False
            seen = self.record.take()
            self.at += self.recorded  # it is in the record
            self.push(seen)
        if self.early is not None:
            self.early.clear()

    def say(self, bytes text not None):
        """Passes text on as content."""
        self._pass_content(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    def push(self, bytes text not None):
        """Puts text before what comes next: it stands for text that was consumed already."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
        if self.recording:
            self.recorded += size
        if size <= self.at:
            self.at -= size
            memcpy(self.inbox.data + self.at, PyBytes_AS_STRING(text), size)
            return
        rest = PyBytes_FromStringAndSize(
            <char*>self.inbox.data + self.at, self.inbox.size - self.at
        )
        self.inbox.size = 0
        self.at = 0
        self.inbox.add_bytes(text)
        self.inbox.add_bytes(rest)

    def close_value(self):
        """Closes what a value that could not go on has left open.

        Returns whether there is anything of a value.
        """
        cdef Py_ssize_t i
        cdef bint any_value = self.state != AT_VALUE or self.stack.size > 0
        if self.state == IN_TOKEN or self.state == IN_KEY_TOKEN:
            self._end_token()
        if self.state == IN_STRING or self.state == IN_KEY:
            self._argue(b'"', 1)
        if self.state == IN_KEY or self.state == AT_COLON:
            self._argue(b": null", 6)
        elif self.state == AT_VALUE and self.stack.size and self._top() == 0x7B:
            self._argue(b"null", 4)
        for i in range(self.stack.size - 1, -1, -1):
            self._argue(b"}" if self.stack.data[i] == 0x7B else b"]", 1)
        self.stack.size = 0
        self.state = VALUE_DONE
        return any_value

    # The operations.

    cdef int _run(self) except -1:
        """Runs operations until one needs more text."""
        cdef int done
        while self.operation is not None:
            if type(self.operation) is Pass:
                done = self._run_pass(<Pass>self.operation)
            elif type(self.operation) is Value:
                done = self._run_value(<Value>self.operation)
            elif type(self.operation) is Read:
                done = self._run_read(<Read>self.operation)
            elif type(self.operation) is Match:
                done = self._run_match(<Match>self.operation)
            elif type(self.operation) is Text:
                done = self._run_text(<Text>self.operation)
            else:
                done = self._run_peek()
            if not done:
                return 0
            result = self.result
            self.result = None
            self._advance(result)
        # The program is over: what follows is content.
        self._pass_content(self.inbox.data + self.at, self.inbox.size - self.at)
        self.at = self.inbox.size
        return 0

    cdef int _advance(self, result) except -1:
        """Lets the program go on to its next operation."""
        if self.ended:
            self.steps_after_end += 1
            if self.steps_after_end > 1000:
                raise RuntimeError("a program does not stop at the end of the text")
        self.skipping = False
        try:
            self.operation = self.program.send(result)
        except StopIteration:
            self.operation = None
        self.progress = 0
        self.fresh = True
        if type(self.operation) is Value:
            self.skipping = (<Value>self.operation).drop
            self.state = AT_VALUE
            self.stack.size = 0
            self.token.size = 0
            self.first_item = True
            self.after_comma = False
        return 0

    cdef int _consume(self, Py_ssize_t size) except -1:
        self.at += size
        return self._record(size)

    cdef int _record(self, Py_ssize_t size) except -1:
        """Keeps the last `size` bytes that were consumed, but for what was put back."""
        cdef Py_ssize_t known
        if not self.recording:
            return 0
        known = min(size, self.recorded)
        self.recorded -= known
        return self.record.add(self.inbox.data + self.at - size + known, size - known)

    cdef int _run_pass(self, Pass operation) except -1:
        cdef Markers markers = operation.markers
        cdef const uint8_t* data = self.inbox.data + self.at
        cdef Py_ssize_t size = self.inbox.size - self.at
        cdef Py_ssize_t start = 0
        cdef int found = -1
        cdef bint last = self.ended and operation.to != TO_STRING
        if operation.to == TO_STRING and operation.trim != TRIM_NONE and self.fresh:
            if size == 0:
                if self.ended:
                    self.result = -1
                    return 1
                return 0
            if operation.trim == TRIM_ALL:
                while start < size and _is_space(data[start]):
                    start += 1
                if start == size and not self.ended:
                    self.at += size
                    return 0
            elif data[0] == 0x0A:
                start = 1
            self.at += start
            data += start
            size -= start
            start = 0
            self.fresh = False
            self.space.size = 0
        while start < size:
            start += markers.next_start(data + start, size - start)
            if start == size:
                break
            found = markers.match(data + start, size - start, last)
            if found != -1:
                break
            start += 1
        self._pass_on(operation, data, start)
        self.at += start
        if found >= 0:
            if operation.to == TO_STRING:
                # White space before the marker belongs to the markup.
                if operation.trim == TRIM_ONE_NEWLINE and self.space.size:
                    self._escape(self.space.data, self.space.size - 1)
                self.space.size = 0
            if markers.loose:
                self.marker = PyBytes_FromStringAndSize(<const char*>data + start, markers.matched)
            self.at += markers.matched
            self.result = found
            return 1
        if self.ended:
            # `start` has passed everything: with the end known, nothing is held back. But
            # an argument that was cut off is what it was before its marker began.
            if operation.to == TO_STRING:
                self.space.size = 0
                self.at = self.inbox.size
            self.result = -1
            return 1
        return 0

    cdef int _pass_on(self, Pass operation, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t keep
        if size == 0 or operation.to == TO_NOTHING:
            return 0
        if operation.to == TO_REASONING:
            return self.reasoning.add(data, size)
        if operation.to == TO_CONTENT:
            return self._pass_content(data, size)
        if operation.trim == TRIM_NONE:
            return self._escape(data, size)
        # The last white space may be the markup's: one newline, or all of it.
        keep = size
        if operation.trim == TRIM_ONE_NEWLINE:
            if data[size - 1] == 0x0A:
                keep -= 1
        else:
            while keep > 0 and _is_space(data[keep - 1]):
                keep -= 1
        if keep > 0 or operation.trim == TRIM_ONE_NEWLINE:
            self._escape(self.space.data, self.space.size)
            self.space.size = 0
        self._escape(data, keep)
        return self.space.add(data + keep, size - keep)

    cdef int _pass_content(self, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t at = 0
        if self.holding_space:
            # Around calls, white space alone is not content.
            while at < size and _is_space(data[at]):
                at += 1
            if at == size:
                return self.space.add(data, size)
            self.content.add(self.space.data, self.space.size)
            self.space.size = 0
            self.holding_space = False
        return self.content.add(data, size)

    cdef void _hold_space(self) noexcept:
        self.holding_space = True
        self.space.size = 0

    cdef int _run_read(self, Read operation) except -1:
        cdef const uint8_t* data = self.inbox.data + self.at
        cdef Py_ssize_t size = self.inbox.size - self.at
        cdef Py_ssize_t start = self.progress
        # Not beyond the limit, however much has arrived.
        cdef Py_ssize_t seen = min(size, operation.limit + 1)
        cdef int found = -1
        while start < seen:
            start += operation.markers.next_start(data + start, seen - start)
            if start == seen:
                break
            found = operation.markers.match(data + start, size - start, self.ended)
            if found != -1:
                break
            start += 1
        if start > operation.limit or (found < 0 and self.ended):
            self._consume(min(start, operation.limit) if not self.ended else start)
            self.result = None
            return 1
        if found < 0:
            self.progress = start
            return 0
        self.result = (PyBytes_FromStringAndSize(<const char*>data, start), found)
        if not operation.peek:
            start += PyBytes_GET_SIZE(<bytes>operation.markers.markers[found])
        self._consume(start)
        return 1

    cdef int _run_match(self, Match operation) except -1:
        cdef Py_ssize_t start = 0
        cdef Py_ssize_t size
        cdef int found
        if operation.skip_space:
            self._skip_space()
        size = self.inbox.size - self.at
        if size == 0:
            if not self.ended:
                return 0
            self.result = -1
            return 1
        found = operation.markers.match(self.inbox.data + self.at, size, self.ended)
        if found == -2:
            return 0
        if found >= 0:
            self._consume(PyBytes_GET_SIZE(<bytes>operation.markers.markers[found]))
        self.result = found
        return 1

    cdef int _run_peek(self) except -1:
        self._skip_space()
        if self.at < self.inbox.size:
            self.result = PyBytes_FromStringAndSize(<char*>self.inbox.data + self.at, 1)
            return 1
        if self.ended:
            self.result = b""
            return 1
        return 0

    cdef int _skip_space(self) except -1:
        cdef Py_ssize_t size = 0
        while self.at + size < self.inbox.size and _is_space(self.inbox.data[self.at + size]):
            size += 1
        return self._consume(size)

    cdef int _run_text(self, Text operation) except -1:
        cdef const uint8_t* data = self.inbox.data + self.at
        cdef Py_ssize_t size = self.inbox.size - self.at
        cdef Py_ssize_t at = self.progress
        if size == 0:
            if self.ended:
                self.result = None
                return 1
            return 0
        if data[0] != 0x22 and data[0] != 0x27:
            self.result = None
            return 1
        at = max(at, 1)
        while at < size and at < operation.limit and data[at] != data[0]:
            if data[at] == 0x5C:
                if at + 1 == size:
                    break
                at += 1
            at += 1
        if at < size and data[at] == data[0] and at < operation.limit:
            if data[0] == 0x22:
                self.result = PyBytes_FromStringAndSize(<const char*>data, at + 1)
            else:
                self.result = b'"' + data[1:at].replace(b"\\'", b"'").replace(b'"', b'\\"') + b'"'
            self._consume(at + 1)
            return 1
        if self.ended or at >= operation.limit:
            self._consume(min(at, size))
            self.result = None
            return 1
        self.progress = at
        return 0

    # A JSON value.

    cdef uint8_t _top(self) noexcept:
        return self.stack.data[self.stack.size - 1] if self.stack.size else 0

    cdef int _run_value(self, Value operation) except -1:
        cdef uint8_t byte
        cdef int went
        cdef Py_ssize_t before
        while self.state != VALUE_DONE:
            if self.at == self.inbox.size:
                if not self.ended:
                    return 0
                if self.state == IN_TOKEN or self.state == IN_KEY_TOKEN:
                    # Cut off: as far as it was written, if that is certain to stay.
                    if (
                        self.state == IN_TOKEN
                        and operation.quote is None
                        and _begins_scalar(self.token)
                    ):
                        self._separate()
                        self._argue(self.token.data, self.token.size)
                    self.token.size = 0
                self.result = None
                return 1
            before = self.at
            if self.state == IN_STRING or self.state == IN_KEY:
                if self.quote == 0:
                    went = self._marked_string(operation.quote)
                else:
                    went = self._string(operation.python)
            else:
                byte = self.inbox.data[self.at]
                if self.state == IN_TOKEN or self.state == IN_KEY_TOKEN:
                    went = self._token_byte(byte, operation)
                elif _is_space(byte):
                    went = 1
                    self.at += 1
                else:
                    went = self._mark_byte(byte, operation)
            if went == 0 and self.ended:
                # An escape or a marker that was cut off.
                self.at = self.inbox.size
                self.result = None
            self._record(self.at - before)
            if went == 0:
                return 1 if self.ended else 0
            if went < 0:
                self.result = False
                return 1
        self.result = True
        return 1

    cdef int _mark_byte(self, uint8_t byte, Value operation) except -2:
        """Reads a byte between keys and values: 1 if it fits, 0 if more is needed, -1 if not."""
        cdef uint8_t top = self._top()
        cdef int quotes
        if self.state == AFTER_VALUE:
            if byte == 0x2C:  # ,
                self.after_comma = True
                self.first_item = False
                self.state = AT_KEY if top == 0x7B else AT_VALUE
                self.at += 1
                return 1
            return self._closer(byte)
        if self.state == AT_COLON:
            if byte != 0x3A:
                return -1
            self._argue(b": ", 2)
            self.state = AT_VALUE
            self.at += 1
            return 1
        if byte == 0x7D or byte == 0x5D or byte == 0x29:  # } ] )
            if self.state == AT_VALUE and top == 0x7B:
                self._argue(b"null", 4)
            return self._closer(byte)
        if byte == 0x2C:
            if self.stack.size == 0:
                return -1
            if self.state == AT_VALUE and top == 0x7B:
                self._argue(b"null", 4)
                self.state = AFTER_VALUE
                return 1
            self.at += 1
            return 1
        if byte == 0x22 or byte == 0x27:  # " '
            self.triple = False
            if operation.python:
                # ''' is seen only with its third byte, '' with the one after it.
                quotes = 1
                while quotes < 3 and self.at + quotes < self.inbox.size:
                    if self.inbox.data[self.at + quotes] != byte:
                        break
                    quotes += 1
                if quotes < 3 and self.at + quotes == self.inbox.size and not self.ended:
                    return 0
                if quotes == 3:
                    self.triple = True
                    self.at += 2
            self._separate()
            self._argue(b'"', 1)
            self.quote = byte
            self.state = IN_KEY if self.state == AT_KEY else IN_STRING
            self.at += 1
            return 1
        if operation.quote is not None:
            quotes = self._starts_with(operation.quote)
            if quotes > 0:
                self._separate()
                self._argue(b'"', 1)
                self.quote = 0
                self.state = IN_KEY if self.state == AT_KEY else IN_STRING
                self.at += PyBytes_GET_SIZE(operation.quote)
            if quotes >= 0:
                return quotes
        if self.state == AT_KEY:
            if byte == 0x3A or byte == 0x7B or byte == 0x5B or byte == 0x3C:
                return -1
            self.state = IN_KEY_TOKEN
            return 1
        if byte == 0x7B or byte == 0x5B or byte == 0x28:  # { [ (
            if self.stack.size >= DEEPEST:
                return -1
            self._separate()
            self._argue(b"{" if byte == 0x7B else b"[", 1)
            self.stack.add_byte(byte)
            self.first_item = True
            self.after_comma = False
            self.state = AT_KEY if byte == 0x7B else AT_VALUE
            self.at += 1
            return 1
        if byte == 0x3A or byte == 0x3C:  # : <
            return -1
        self.state = IN_TOKEN
        return 1

    cdef int _separate(self) except -1:
        """Writes the comma before an item or key that is not the first."""
        if self.after_comma:
            self.after_comma = False
            return self._argue(b", ", 2)
        return 0

    cdef int _closer(self, uint8_t byte) except -2:
        cdef uint8_t opener = 0x7B if byte == 0x7D else 0x5B if byte == 0x5D else 0x28
        cdef Py_ssize_t i
        if byte != 0x7D and byte != 0x5D and byte != 0x29:
            return -1
        if self._top() != opener:
            # A closer was forgotten, if there is anything that this one could close.
            for i in range(self.stack.size - 1, -1, -1):
                if self.stack.data[i] == opener:
                    break
            else:
                return -1
            while self._top() != opener:
                self._argue(b"}" if self._top() == 0x7B else b"]", 1)
                self.stack.size -= 1
        self._argue(b"}" if opener == 0x7B else b"]", 1)
        self.stack.size -= 1
        self.after_comma = False
        self.at += 1
        self.state = AFTER_VALUE if self.stack.size else VALUE_DONE
        return 1

    cdef int _token_byte(self, uint8_t byte, Value operation) except -2:
        if operation.quote is not None:
            # A bare word is as long as nothing ends the value.
            if byte == 0x3A if self.state == IN_KEY_TOKEN else (
                byte == 0x2C or byte == 0x7D or byte == 0x5D
                or byte == <uint8_t>PyBytes_AS_STRING(operation.quote)[0]
            ):
                while self.token.size and _is_space(self.token.data[self.token.size - 1]):
                    self.token.size -= 1
                self._end_token()
                return 1
            self.token.add_byte(byte)
            self.at += 1
            return 1
        if operation.python and (byte == 0x28 or byte == 0x5B or byte == 0x7B):
            # A call or an index: no value, and what follows the name will tell.
            self._end_token()
            return 1
        if (
            _is_space(byte)
            or byte == 0x2C or byte == 0x3A or byte == 0x3C  # , : <
            or byte == 0x7D or byte == 0x5D or byte == 0x29
            or byte == 0x22 or byte == 0x27
        ):
            self._end_token()
            return 1
        self.token.add_byte(byte)
        self.at += 1
        return 1

    cdef int _end_token(self) except -1:
        cdef bytes word = self.token.take()
        self._separate()
        if self.state == IN_KEY_TOKEN:
            self._argue(b'"', 1)
            self._escape(<const uint8_t*>PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))
            self._argue(b'"', 1)
            self.state = AT_COLON
            return 0
        if _is_number(word) or word == b"true" or word == b"false" or word == b"null":
            self.argue(word)
        elif word == b"True":
            self._argue(b"true", 4)
        elif word == b"False":
            self._argue(b"false", 5)
        elif word in (b"None", b"NaN", b"nan", b"Infinity", b"-Infinity", b"undefined"):
            self._argue(b"null", 4)
        elif _is_number(word.replace(b"_", b"").lstrip(b"+")):
            self.argue(word.replace(b"_", b"").lstrip(b"+"))
        else:
            self._argue(b'"', 1)
            self._escape(<const uint8_t*>PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))
            self._argue(b'"', 1)
        self.state = AFTER_VALUE if self.stack.size else VALUE_DONE
        return 0

    cdef int _string(self, bint python) except -2:
        """Reads on in a string: 1 if it got on, 0 if an escape is not complete."""
        cdef const uint8_t* data = self.inbox.data
        cdef Py_ssize_t size = self.inbox.size
        cdef Py_ssize_t start = self.at
        cdef Py_ssize_t at = start
        cdef uint8_t byte
        while at < size:
            byte = data[at]
            if byte == self.quote or byte == 0x5C or byte < 0x20 or byte == 0x22:
                break
            at += 1
        if at > start:
            self._argue(data + start, at - start)
            self.at = at
            return 1
        byte = data[at]
        if byte == self.quote:
            if self.triple:
                if at + 2 >= size:
                    if not self.ended and _only(data + at, size - at, byte):
                        return 0
                    if at + 2 >= size:
                        self._escape(data + at, 1)
                        self.at += 1
                        return 1
                if data[at + 1] != byte or data[at + 2] != byte:
                    self._escape(data + at, 1)
                    self.at += 1
                    return 1
                self.at += 2
            self._argue(b'"', 1)
            self.at += 1
            if self.state == IN_KEY:
                self.state = AT_COLON
            else:
                self.state = AFTER_VALUE if self.stack.size else VALUE_DONE
            return 1
        if byte != 0x5C:
            self._escape(data + at, 1)
            self.at += 1
            return 1
        return self._string_escape(data + at, size - at, python)

    cdef int _starts_with(self, bytes marker) noexcept:
        """Whether the marker comes next: 1, 0 if more is needed, -1 if not."""
        cdef Py_ssize_t size = min(self.inbox.size - self.at, PyBytes_GET_SIZE(marker))
        if memcmp(self.inbox.data + self.at, PyBytes_AS_STRING(marker), size) != 0:
            return -1
        return 1 if size == PyBytes_GET_SIZE(marker) else 0

    cdef int _marked_string(self, bytes quote) except -2:
        """Reads on in a string between two markers: 1 if it got on, 0 if more is needed."""
        cdef const uint8_t* data = self.inbox.data + self.at
        cdef Py_ssize_t size = self.inbox.size - self.at
        cdef const void* found = memchr(data, PyBytes_AS_STRING(quote)[0], size)
        cdef Py_ssize_t start = size if found == NULL else <const uint8_t*>found - data
        cdef int closes
        if start > 0:
            self._escape(data, start)
            self.at += start
            return 1
        closes = self._starts_with(quote)
        if closes == 1:
            self._argue(b'"', 1)
            self.at += PyBytes_GET_SIZE(quote)
            if self.state == IN_KEY:
                self.state = AT_COLON
            else:
                self.state = AFTER_VALUE if self.stack.size else VALUE_DONE
            return 1
        if closes == 0:
            return 0
        self._escape(data, 1)
        self.at += 1
        return 1

    cdef int _string_escape(self, const uint8_t* data, Py_ssize_t size, bint python) except -2:
        """Reads a backslash and what belongs to it; 0 if that has not all arrived."""
        cdef uint8_t byte
        cdef int needed
        cdef int i
        cdef uint32_t point
        cdef bytes character
        cdef uint8_t code[6]
        if size < 2:
            return 0
        byte = data[1]
        if byte in b'"\\/bfnrt':
            self._argue(data, 2)
            self.at += 2
            return 1
        if byte == 0x27:  # '
            self._argue(b"'", 1)
            self.at += 2
            return 1
        if python and byte == 0x0A:
            self.at += 2
            return 1
        # u x U
        needed = 4 if byte == 0x75 else 0
        if python and byte == 0x78:
            needed = 2
        elif python and byte == 0x55:
            needed = 8
        if needed:
            for i in range(needed):
                if 2 + i >= size:
                    return 0
                if _hex_value(data[2 + i]) < 0:
                    needed = 0
                    break
        if needed == 4:
            self._argue(data, 6)
            self.at += 6
            return 1
        if needed == 8:
            point = 0
            for i in range(8):
                point = (point << 4) | _hex_value(data[2 + i])
            if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
                character = chr(point).encode()
                self._escape(
                    <const uint8_t*>PyBytes_AS_STRING(character), PyBytes_GET_SIZE(character)
                )
                self.at += 10
                return 1
        if needed == 2:
            code[0], code[1], code[2], code[3] = 0x5C, 0x75, 0x30, 0x30
            code[4], code[5] = data[2], data[3]
            self._argue(code, 6)
            self.at += 4
            return 1
        # No escape of JSON: the backslash is meant.
        self._argue(b"\\\\", 2)
        self.at += 1
        return 1

    # Arguments.

    cdef int _argue(self, const uint8_t* json, Py_ssize_t size) except -1:
        if size == 0 or self.dropping or self.skipping:
            return 0
        if not self.in_call:
            if self.early is None:
                self.early = bytearray()
            self.early += PyBytes_FromStringAndSize(<const char*>json, size)
            return 0
        self.argued = True
        return self.arguments.add(json, size)

    cdef int _escape(self, const uint8_t* text, Py_ssize_t size) except -1:
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
            self._argue(text + start, at - start)
            if byte == 0x22 or byte == 0x5C:
                code[0], code[1] = 0x5C, byte
                self._argue(code, 2)
            elif byte == 0x0A:
                self._argue(b"\\n", 2)
            elif byte == 0x0D:
                self._argue(b"\\r", 2)
            elif byte == 0x09:
                self._argue(b"\\t", 2)
            else:
                code[0], code[1], code[2], code[3] = 0x5C, 0x75, 0x30, 0x30
                code[4], code[5] = HEX[byte >> 4], HEX[byte & 15]
                self._argue(code, 6)
            at += 1
            start = at
        return self._argue(text + start, size - start)

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


cdef bint _only(const uint8_t* data, Py_ssize_t size, uint8_t byte) noexcept:
    cdef Py_ssize_t i
    for i in range(size):
        if data[i] != byte:
            return False
    return True


cdef bint _begins_scalar(Buffer token) noexcept:
    """Whether JSON has a scalar, other than a string, that begins with this."""
    cdef Py_ssize_t i
    cdef uint8_t byte
    cdef const char* word
    if token.size == 0:
        return False
    byte = token.data[0]
    if byte == 0x2D or 0x30 <= byte <= 0x39:
        for i in range(1, token.size):
            byte = token.data[i]
            if not (0x30 <= byte <= 0x39 or byte in b"+-.eE"):
                return False
        return True
    word = b"true" if byte == 0x74 else b"false" if byte == 0x66 else b"null"
    for i in range(token.size):
        # The zero that ends `word` ends the comparison, too.
        if token.data[i] == 0 or token.data[i] != <uint8_t>word[i]:
            return False
    return True


cdef bint _is_number(bytes word) noexcept:
    """Whether JSON has this number."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(word)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(word)
    if at < end and at[0] == 0x2D:
        at += 1
    if at == end:
        return False
    if at[0] == 0x30:
        at += 1
    elif 0x31 <= at[0] <= 0x39:
        while at < end and 0x30 <= at[0] <= 0x39:
            at += 1
    else:
        return False
    if at < end and at[0] == 0x2E:
        at += 1
        if at == end or not 0x30 <= at[0] <= 0x39:
            return False
        while at < end and 0x30 <= at[0] <= 0x39:
            at += 1
    if at < end and (at[0] | 0x20) == 0x65:
        at += 1
        if at < end and (at[0] == 0x2B or at[0] == 0x2D):
            at += 1
        if at == end or not 0x30 <= at[0] <= 0x39:
            return False
        while at < end and 0x30 <= at[0] <= 0x39:
            at += 1
    return at == end
