# cython: boundscheck=False, wraparound=False, cdivision=True
"""The operations that the programs of output formats wait for.

Strategy: an operation takes what has arrived from an inbox, moves it on to an answer, and
gives either its result or MORE. It holds its options only, so that programs share it; its
place in the text is the inbox's, and a value's is the JsonValue's. Where a piece ends
does not matter, because what cannot be decided yet is left in the inbox.

An operation begins where the one before it has handed over, and so each says where it
hands over itself. At the end of the text every operation gives something.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.ascii cimport is_space
from sglrouter._fast.guard cimport Guard
from sglrouter._fast.inbox cimport MORE, Inbox
from sglrouter._fast.json_value cimport JsonValue
from sglrouter._fast.markers cimport Markers

# What becomes of a text that Pass handles.
CONTENT = TO_CONTENT
REASONING = TO_REASONING
STRING = TO_STRING
DROP = TO_NOTHING

# How much white space around a string argument is not part of it.
KEEP = TRIM_NONE
ONE_NEWLINE = TRIM_ONE_NEWLINE
ALL_SPACE = TRIM_ALL


cdef class Operation:
    """Something that a program can wait for."""

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        """Goes on with what has arrived: gives the result, or MORE if that was not enough."""
        raise NotImplementedError("an operation of no kind")


cdef class Pass(Operation):
    """Passes text on up to a marker.

    Text goes where it belongs while it arrives; only what may be the beginning of a marker,
    and white space that may have to be trimmed, waits. The marker itself goes nowhere.
    Nothing of this is recorded by OutputParser.mark(), unless it is to be.

    Gives the marker's number. Hands over after the marker.

    At the end of the text gives -1. The beginning of a marker is text then, but not in a
    STRING: an argument that was cut off is what it was before its marker began.

    Args:
        to: CONTENT, REASONING, STRING (a JSON string of the call's arguments, quotes
            not included) or DROP.
        markers: What to stop at; without any, it passes on all the rest.
        trim: KEEP, ONE_NEWLINE (one at each end) or ALL_SPACE; for STRING.
        loose: Whether white space may follow a marker's first byte. The marker as it is
            written is OutputParser.marker then.
        recorded: Whether the text is recorded as well, without the marker.
        guard: Tells which of the markers count; not for loose ones.
    """

    def __cinit__(
        self, int to, markers=(), int trim=0, bint loose=False, bint recorded=False,
        Guard guard=None
    ):
        self.recorded = recorded
        self.to = to
        self.markers = Markers(markers, loose)
        self.trim = trim
        self.guard = guard

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        cdef Markers markers = self.markers
        cdef const uint8_t* data
        cdef Py_ssize_t size
        cdef Py_ssize_t start = 0
        cdef int found = -1
        cdef bint last = inbox.ended and self.to != TO_STRING
        if self.to == TO_STRING and self.trim != TRIM_NONE and inbox.progress == 0:
            if not self._trim_start(inbox, answer):
                return -1 if inbox.ended else MORE
        data = inbox.data + inbox.at
        size = inbox.size - inbox.at
        while start < size:
            start += markers.next_start(data + start, size - start)
            if start == size:
                break
            found = markers.match(data + start, size - start, last)
            if found >= 0 and self.guard is not None:
                found = self.guard.judge(
                    inbox, found, data, start + markers.matched, size,
                    (data[start - 1] if start > 0 else inbox.previous) == 0x0A,
                )
            if found != -1:
                break
            start += 1
        if start > 0:
            inbox.previous = data[start - 1]
        self._pass_on(answer, data, start)
        inbox.at += start
        if self.recorded:
            inbox.note(start)
        if found >= 0:
            if self.to == TO_STRING:
                # White space before the marker belongs to the markup.
                if self.trim == TRIM_ONE_NEWLINE and answer.space.size:
                    answer.escape(answer.space.data, answer.space.size - 1)
                answer.space.size = 0
            if markers.loose:
                inbox.marker = PyBytes_FromStringAndSize(<const char*>data + start, markers.matched)
            inbox.at += markers.matched
            return found
        if not inbox.ended:
            return MORE
        # With the end known, nothing was held back but for the end of a string.
        if self.to == TO_STRING:
            answer.space.size = 0
            inbox.at = inbox.size
        return -1

    cdef bint _trim_start(self, Inbox inbox, Answer answer) noexcept:
        """Drops the white space before a string; False if more of it may follow."""
        cdef Py_ssize_t size = inbox.size - inbox.at
        cdef Py_ssize_t start = 0
        if size == 0:
            return False
        if self.trim == TRIM_ALL:
            while start < size and is_space(inbox.data[inbox.at + start]):
                start += 1
        elif inbox.data[inbox.at] == 0x0A:
            start = 1
        inbox.at += start
        if self.trim == TRIM_ALL and start == size and not inbox.ended:
            return False
        inbox.progress = 1
        inbox.previous = 0  # a value that begins is no line of it that begins
        answer.space.size = 0
        return True

    cdef int _pass_on(self, Answer answer, const uint8_t* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t keep
        if size == 0 or self.to == TO_NOTHING:
            return 0
        if self.to == TO_REASONING:
            return answer.reasoning.add(data, size)
        if self.to == TO_CONTENT:
            return answer.pass_content(data, size)
        if self.trim == TRIM_NONE:
            return answer.escape(data, size)
        # The last white space may be the markup's: one newline, or all of it.
        keep = size
        if self.trim == TRIM_ONE_NEWLINE:
            if data[size - 1] == 0x0A:
                keep -= 1
        else:
            while keep > 0 and is_space(data[keep - 1]):
                keep -= 1
        if keep > 0 or self.trim == TRIM_ONE_NEWLINE:
            answer.escape(answer.space.data, answer.space.size)
            answer.space.size = 0
        answer.escape(data, keep)
        return answer.space.add(data + keep, size - keep)


cdef class Read(Operation):
    """Reads text up to a marker, for the program alone.

    Gives (text, the marker's number). Hands over after the marker, or before it with `peek`.

    Gives None if the end of the text or `limit` bytes without a marker come first. Those
    bytes stay consumed; what follows them is next.

    Args:
        markers: What to stop at.
        limit: Most bytes to read.
        peek: Whether the marker is left where it is.
        guard: Tells which of the markers count.
    """

    def __cinit__(self, markers, Py_ssize_t limit=1024, bint peek=False, Guard guard=None):
        self.markers = Markers(markers)
        self.limit = limit
        self.peek = peek
        self.guard = guard

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        cdef Markers markers = self.markers
        cdef const uint8_t* data = inbox.data + inbox.at
        cdef Py_ssize_t size = inbox.size - inbox.at
        cdef Py_ssize_t start = inbox.progress
        # Not beyond the limit, however much has arrived.
        cdef Py_ssize_t seen = min(size, self.limit + 1)
        cdef int found = -1
        cdef bytes text
        while start < seen:
            start += markers.next_start(data + start, seen - start)
            if start == seen:
                break
            found = markers.match(data + start, size - start, inbox.ended)
            if found >= 0 and self.guard is not None:
                found = self.guard.judge(
                    inbox, found, data, start + markers.matched, size,
                    start > 1 and data[start - 1] == 0x0A,
                )
            if found != -1:
                break
            start += 1
        if start > self.limit or (found < 0 and inbox.ended):
            inbox.consume(start if inbox.ended else min(start, self.limit))
            return None
        if found < 0:
            inbox.progress = start
            return MORE
        text = PyBytes_FromStringAndSize(<const char*>data, start)
        inbox.consume(start if self.peek else start + markers.matched)
        return text, found


cdef class Match(Operation):
    """Consumes one of several literals if it is next.

    Gives its number and hands over after it. Gives -1 if there is none, also at the end of
    the text, and hands over where it would have begun: after the white space, if that is
    skipped.

    Args:
        literals: The longer of two with a common beginning first.
        skip_space: Whether white space before it is consumed, match or not.
        guard: Tells which of the literals count.
    """

    def __cinit__(self, literals, bint skip_space=False, Guard guard=None):
        self.markers = Markers(literals)
        self.guard = guard
        self.skip_space = skip_space

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        cdef Py_ssize_t size
        cdef int found
        if self.skip_space:
            inbox.skip_space()
        size = inbox.size - inbox.at
        if size == 0:
            return -1 if inbox.ended else MORE
        found = self.markers.match(inbox.data + inbox.at, size, inbox.ended)
        if found >= 0 and self.guard is not None:
            found = self.guard.judge(
                inbox, found, inbox.data + inbox.at, self.markers.matched, size, True
            )
        if found == -2:
            return MORE
        if found >= 0:
            inbox.consume(self.markers.matched)
        return found


cdef class Peek(Operation):
    """Looks at the next byte that is no white space.

    Consumes the white space, gives the byte as bytes and hands over before it. Gives b""
    at the end of the text.
    """

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        inbox.skip_space()
        if inbox.at < inbox.size:
            return PyBytes_FromStringAndSize(<char*>inbox.data + inbox.at, 1)
        return b"" if inbox.ended else MORE


cdef class Text(Operation):
    """Reads a string in single or double quotes, at its opening quote, for the program alone.

    Gives it as JSON text, quotes included, its escapes as they are written. Hands over
    after the closing quote.

    Gives None where no quote is next, and consumes nothing; and None if the end of the text
    or `limit` bytes come before the closing quote, which stay consumed.
    """

    def __cinit__(self, Py_ssize_t limit=1024):
        self.limit = limit

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        cdef const uint8_t* data = inbox.data + inbox.at
        cdef Py_ssize_t size = inbox.size - inbox.at
        cdef Py_ssize_t at = max(inbox.progress, 1)
        cdef bytes text
        if size == 0:
            return None if inbox.ended else MORE
        if data[0] != 0x22 and data[0] != 0x27:
            return None
        while at < size and at < self.limit and data[at] != data[0]:
            if data[at] == 0x5C:
                if at + 1 == size:
                    break
                at += 1
            at += 1
        if at < size and data[at] == data[0] and at < self.limit:
            if data[0] == 0x22:
                text = PyBytes_FromStringAndSize(<const char*>data, at + 1)
            else:
                text = PyBytes_FromStringAndSize(<const char*>data + 1, at - 1)
                text = b'"' + text.replace(b"\\'", b"'").replace(b'"', b'\\"') + b'"'
            inbox.consume(at + 1)
            return text
        if inbox.ended or at >= self.limit:
            inbox.consume(min(at, size))
            return None
        inbox.progress = at
        return MORE


cdef class Value(Operation):
    """Passes one value on to the call's arguments, as strict JSON.

    What models write instead of strict JSON is mended on the way: control characters in
    strings, single quotes, True and None, trailing commas, bare words, tuples. Strings
    are passed on as they arrive, other scalars when they are complete. White space
    outside strings is as json.dumps writes it.

    Gives True after a whole value, and hands over after its last byte. Gives False at a byte
    that cannot go on, and hands over before it; the arguments are then what came so far, and
    OutputParser.close_value() makes a value of them. Gives None if the text ends in the value.

    Args:
        python: Whether it is written as in Python.
        in_code: Whether it is an argument in Python code: an expression that is no literal
            is its text then.
        drop: Whether the value goes nowhere.
        quote: A marker that strings stand in, without escapes; then other words need
            no quotes.
        limit: Most bytes to read, of which OutputParser.mark() must have been told. Whatever
            has come of the value until then, beyond it the operation gives None. 0 for none.
    """

    def __cinit__(
        self, bint python=False, bint drop=False, bytes quote=None, bint in_code=False,
        Py_ssize_t limit=0,
    ):
        self.limit = limit
        self.python = python
        self.in_code = in_code
        self.drop = drop
        self.quote = quote

    cdef object run(self, Inbox inbox, Answer answer, JsonValue value):
        if inbox.progress == 0:
            inbox.progress = 1
            value.begin(self.python, self.in_code, self.quote)
            answer.skipping = self.drop
        result = value.read()
        if self.limit and inbox.record.size > self.limit:
            result = None
        if result is not MORE:
            answer.skipping = False
        return result
