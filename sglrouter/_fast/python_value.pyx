# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a literal of Python as it arrives, and passes it on as strict JSON.

Strategy: as JsonValue, a state and a stack of open brackets. What is not known before the
next comma is held back until then, and no longer: whether a parenthesis makes a tuple,
whether a brace makes a set, and whether a short string is all there is of its item. In code,
what is no literal but an expression is the text that it is written with.

What JSON and JavaScript write in Python's place is read, too: true, null, bare words, and
brackets that were forgotten where a later one closes them.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.math cimport isinf
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.ascii cimport is_space
from sglrouter._fast.buffer cimport Buffer
from sglrouter._fast.inbox cimport MORE, Inbox
from sglrouter._fast.json_number cimport is_number
from sglrouter._fast.json_string cimport CLOSED, INCOMPLETE, NO_PART, WENT_ON
from sglrouter._fast.python_string cimport PythonString, prefix_size

cdef enum:
    # States of a value.
    AT_ITEM = 0        # an item, or the bracket's end
    AFTER_ITEM = 1
    IN_STRING = 2
    AFTER_STRING = 3   # where another literal would continue it
    IN_WORDS = 4       # anything that begins with neither a quote nor a bracket
    VALUE_DONE = 5

    # Brackets in the stack: an opener as it is written, or one of these.
    SET = 0x53
    BRACE = 0x62       # a dict or a set
    PARENTHESIS = 0x70 # a tuple, or nothing

    DEEPEST = 1000
    # A string is held back up to here, and its source up to twice of that.
    LONGEST_DOUBT = 64
    # How far is looked ahead: white space, and a name.
    MOST_SPACE = 16
    LONGEST_NAME = 64
    # A number beyond this is text: converting takes quadratic time.
    LONGEST_NUMBER = 400

# What stands in what is held for a bracket that is not decided yet.
cdef const uint8_t* PLACE = b"\0"

CONSTANTS = {
    b"True": b"true",
    b"False": b"false",
    b"None": b"null",
    b"true": b"true",
    b"false": b"false",
    b"null": b"null",
    b"NaN": b"null",
    b"nan": b"null",
    b"Infinity": b"null",
    b"-Infinity": b"null",
    b"undefined": b"null",
    b"set()": b"[]",
    b"frozenset()": b"[]",
    b"list()": b"[]",
    b"tuple()": b"[]",
    b"dict()": b"{}",
}


cdef bytes _scalar(bytes word):
    """The JSON of a constant or a number; None for anything else."""
    cdef bytes sign = b""
    cdef bytes number
    constant = CONSTANTS.get(word)
    if constant is not None:
        return constant
    number = word
    if word[:1] == b"-" or word[:1] == b"+":
        sign = word[:1].replace(b"+", b"")
        number = word[1:].lstrip()
    if is_number(sign + number) and number[:1] != b"-":
        return sign + number
    if len(number) > LONGEST_NUMBER or not number.isascii() or number[:1] not in _FIRST:
        return None
    text = number.decode()
    try:
        return sign + b"%d" % int(text, 0)
    except ValueError:
        pass
    if not any(mark in text for mark in ".eE"):
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if isinf(value) else sign + repr(value).encode()


_FIRST = frozenset(bytes((byte,)) for byte in b"0123456789.")


@final
cdef class PythonValue:
    """The value that is being read; one after another.

    Args:
        inbox: Where it comes from.
        answer: Where it goes, as arguments.
    """

    def __cinit__(self, Inbox inbox not None, Answer answer not None):
        self.inbox = inbox
        self.answer = answer
        self.stack = Buffer()
        self.token = Buffer()
        self.string = PythonString(inbox, answer)

    cdef void begin(self, bint in_code) noexcept:
        """Begins the next value, with the options of operations.Value."""
        self.in_code = in_code
        self.state = AT_ITEM
        self.stack.size = 0
        self.token.size = 0
        self.after_comma = False
        self.is_key = False
        self.in_doubt = False
        self.doubts = 0
        self.answer.drop_held()

    cdef object read(self):
        """Reads on: MORE, or True, False and None as operations.Value gives them."""
        cdef Inbox inbox = self.inbox
        cdef uint8_t byte
        cdef int reached
        cdef Py_ssize_t before
        while self.state != VALUE_DONE:
            if inbox.at == inbox.size:
                if not inbox.ended:
                    return MORE
                # Whatever it was could still have become something else.
                self.token.size = 0
                self.answer.drop_held()
                return None
            before = inbox.at
            byte = inbox.data[before]
            if self.state == IN_STRING:
                reached = self._string_bytes()
            elif self.state == IN_WORDS:
                reached = self._word_byte(byte)
            elif self.state == AFTER_STRING:
                reached = self._after_string(byte)
            elif is_space(byte):
                reached = WENT_ON
                inbox.at += 1
            elif self.state == AT_ITEM:
                reached = self._item_byte(byte)
            else:
                reached = self._mark_byte(byte)
            if reached == INCOMPLETE and inbox.ended:
                # An escape that was cut off.
                inbox.at = inbox.size
            if inbox.recording:
                inbox.note(inbox.at - before)
            if reached == INCOMPLETE and not inbox.ended:
                return MORE
            if reached == NO_PART:
                return False
        return True

    cdef bint close(self) except -1:
        """Closes what is open; returns whether there is anything of a value."""
        cdef bint any_value = self.state != AT_ITEM or self.stack.size > 0
        if self.state == IN_WORDS:
            self._end_words()
        elif self.state == IN_STRING or self.state == AFTER_STRING:
            self._end_string()
        if self.stack.size and self.state == AFTER_ITEM and self.is_key:
            if self._top() == BRACE:
                self._decide(0x7B)
            if self._top() == 0x7B:
                self.answer.argue(b": null", 6)
        elif self.stack.size and self.state == AT_ITEM and not self.is_key:
            if self._top() == 0x7B:
                self.answer.argue(b"null", 4)
        while self.stack.size:
            self._pop()
        self._release()
        self.state = VALUE_DONE
        return any_value

    cdef uint8_t _top(self) noexcept:
        return self.stack.data[self.stack.size - 1] if self.stack.size else 0

    cdef int _release(self) except -1:
        """Passes on what is held, if nothing is in doubt any more."""
        if self.doubts == 0 and not self.in_doubt:
            self.answer.release_held()
        return 0

    cdef int _separate(self) except -1:
        """Writes the comma before an item or key that is not the first."""
        if self.after_comma:
            self.after_comma = False
            return self.answer.argue(b", ", 2)
        return 0

    cdef void _end_item(self) noexcept:
        """Says that a string, an expression or a bracketed value is complete."""
        self.state = AFTER_ITEM if self.stack.size else VALUE_DONE

    # Between items.

    cdef int _item_byte(self, uint8_t byte) except -2:
        """Reads a byte where an item may begin: WENT_ON, INCOMPLETE or NO_PART."""
        cdef uint8_t top = self._top()
        cdef int marker
        if byte == 0x7D or byte == 0x5D or byte == 0x29 or byte == 0x2C:  # } ] ) ,
            if self.stack.size == 0:
                return NO_PART
            if top == 0x7B and not self.is_key:
                self.answer.argue(b"null", 4)
                self.state = AFTER_ITEM
                return WENT_ON
            if byte == 0x2C:
                self.inbox.at += 1
                return WENT_ON
            if top == BRACE and byte == 0x7D:
                self._decide(0x7B)
            elif top == PARENTHESIS and byte == 0x29:
                self._decide(0x28)
            return self._close_bracket(byte)
        if byte == 0x22 or byte == 0x27:  # " '
            self.token.size = 0
            return self._open_string()
        if byte == 0x7B or byte == 0x5B or byte == 0x28:  # { [ (
            return self._open_bracket(byte)
        if byte == 0x3A:
            return NO_PART
        if byte == 0x3C:
            marker = self._marker_at(self.inbox.at)
            if marker != 0:
                return INCOMPLETE if marker < 0 else NO_PART
        self.token.size = 0
        self.depth = 0
        self.in_quotes = 0
        self.state = IN_WORDS
        return WENT_ON

    cdef int _open_bracket(self, uint8_t byte) except -2:
        if self.is_key and self._top() == BRACE:
            self._decide(SET)
        if self.is_key or self.stack.size >= DEEPEST:
            # JSON has no such keys.
            return NO_PART
        if byte != 0x5B and self.doubts == MOST_DOUBTS:
            return NO_PART
        self._separate()
        if byte == 0x5B:
            self.answer.argue(b"[", 1)
            self.stack.add_byte(byte)
        else:
            self.answer.holding = True
            self.answer.argue(PLACE, 1)
            # Nothing is held of what is dropped.
            self.places[self.doubts] = self.answer.held.size - 1
            self.doubts += 1
            self.stack.add_byte(BRACE if byte == 0x7B else PARENTHESIS)
        self.is_key = byte == 0x7B
        self.state = AT_ITEM
        self.inbox.at += 1
        return WENT_ON

    cdef int _decide(self, uint8_t opener) except -1:
        """Says what the innermost bracket in doubt is: 0 for none at all."""
        cdef Py_ssize_t place
        self.doubts -= 1
        place = self.places[self.doubts]
        if opener and 0 <= place < self.answer.held.size:
            self.answer.held.data[place] = 0x7B if opener == 0x7B else 0x5B
        if opener:
            self.stack.data[self.stack.size - 1] = opener
        self.is_key = opener == 0x7B
        return self._release()

    cdef int _mark_byte(self, uint8_t byte) except -2:
        """Reads a byte after an item: WENT_ON or NO_PART."""
        cdef uint8_t top = self._top()
        if top == BRACE and (byte == 0x3A or (self.in_code and byte in b",}")):
            self._decide(0x7B if byte == 0x3A else SET)
            top = self._top()
        elif top == PARENTHESIS and byte == 0x2C:
            self._decide(0x28)
        if self.is_key:
            if byte != 0x3A:
                return NO_PART
            self.answer.argue(b": ", 2)
            self.is_key = False
        elif byte == 0x2C:
            self.after_comma = True
            self.is_key = top == 0x7B
        else:
            return self._close_bracket(byte)
        self.state = AT_ITEM
        self.inbox.at += 1
        return WENT_ON

    cdef int _close_bracket(self, uint8_t byte) except -2:
        """Reads a closing bracket; NO_PART if it is none that could close anything."""
        cdef Py_ssize_t i
        if byte != 0x7D and byte != 0x5D and byte != 0x29:
            return NO_PART
        # If it is not the innermost one's, that has been forgotten.
        i = self.stack.size - 1
        while i >= 0 and _closer(self.stack.data[i]) != byte:
            i -= 1
        if i < 0:
            return NO_PART
        while self.stack.size > i:
            self._pop()
        self.is_key = False
        self.after_comma = False
        self.inbox.at += 1
        self._end_item()
        return WENT_ON

    cdef int _pop(self) except -1:
        """Closes the innermost bracket."""
        cdef uint8_t top = self._top()
        if top == PARENTHESIS:
            self._decide(0)
        else:
            if top == BRACE:
                self._decide(0x7B)
                top = 0x7B
            self.answer.argue(b"}" if top == 0x7B else b"]", 1)
        self.stack.size -= 1
        return 0

    # Strings.

    cdef int _open_string(self) except -2:
        """Reads a quote; the letters of a prefix before it are the token."""
        cdef Py_ssize_t before = self.inbox.at
        if not self.string.open(self.token.data, self.token.size):
            return INCOMPLETE
        self._separate()
        self.token.add(self.inbox.data + before, self.inbox.at - before)
        if self.in_code:
            self.answer.holding = True
            self.item_at = self.answer.held.size
            self.in_doubt = True
        self.state = IN_STRING
        self.answer.argue(b'"', 1)
        return WENT_ON

    cdef int _string_bytes(self) except -2:
        cdef Py_ssize_t before = self.inbox.at
        cdef int reached = self.string.read()
        if self.in_doubt:
            self.token.add(self.inbox.data + before, self.inbox.at - before)
            if (
                self.answer.held.size - self.item_at > LONGEST_DOUBT
                or self.token.size > 2 * LONGEST_DOUBT
            ):
                self.in_doubt = False
                self.token.size = 0
                self._release()
        if reached == CLOSED:
            self.state = AFTER_STRING
        return reached

    cdef int _after_string(self, uint8_t byte) except -2:
        """Reads a byte after a literal: of another one, of an expression, or what ends it."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t before = inbox.at
        cdef Py_ssize_t at = before
        cdef int found
        if is_space(byte):
            if self.stack.size == 0:
                found = self._keyword_at(at)
                if found < 0:
                    return INCOMPLETE
                if found > 0:
                    self._end_string()
                    return WENT_ON
            inbox.at += 1
        elif byte == 0x2C or byte == 0x3A or byte == 0x7D or byte == 0x5D or byte == 0x29:
            self._end_string()
            return WENT_ON
        else:
            if byte == 0x3C:
                found = self._marker_at(at)
                if found < 0:
                    return INCOMPLETE
                if found > 0:
                    self._end_string()
                    return WENT_ON
            if byte == 0x5C:
                if at + 1 == inbox.size:
                    return INCOMPLETE
                if inbox.data[at + 1] == 0x0A:
                    inbox.at += 2
                    if self.in_doubt:
                        self.token.add(inbox.data + before, inbox.at - before)
                    return WENT_ON
            if byte == 0x2B:
                # Strings are joined by a plus as they are without.
                at += 1
                while at < inbox.size and at - before <= MOST_SPACE and is_space(inbox.data[at]):
                    at += 1
            found = self._literal_at(at)
            if found < 0:
                return INCOMPLETE
            if found == 0:
                if not self.in_doubt:
                    return NO_PART
                # It is part of an expression.
                self.answer.cut_held(self.item_at)
                self.in_doubt = False
                self._release()
                self.depth = 0
                self.in_quotes = 0
                self.state = IN_WORDS
                return WENT_ON
            found -= 1
            inbox.at = at + found
            if not self.string.open(inbox.data + at, found):
                inbox.at = before
                return INCOMPLETE
            self.state = IN_STRING
        if self.in_doubt:
            self.token.add(inbox.data + before, inbox.at - before)
        return WENT_ON

    cdef int _end_string(self) except -1:
        self.in_doubt = False
        self.token.size = 0
        self.answer.argue(b'"', 1)
        self._release()
        self._end_item()
        return 0

    # Everything else.

    cdef int _word_byte(self, uint8_t byte) except -2:
        """Adds a byte to the token, or ends the token before it."""
        cdef Inbox inbox = self.inbox
        cdef int found
        if not self.in_code and (byte in b"([{:" or is_space(byte)):
            self._end_words()
            return WENT_ON
        if self.in_quotes:
            if byte == 0x5C:
                if inbox.at + 1 == inbox.size:
                    return INCOMPLETE
                self.token.add_byte(byte)
                inbox.at += 1
            elif byte == self.in_quotes or byte == 0x0A:
                # Strings end with their line.
                self.in_quotes = 0
        elif byte == 0x22 or byte == 0x27:
            if (
                self.depth == 0 and 0 < self.token.size <= 2
                and prefix_size(self.token.data, self.token.size) == self.token.size
            ):
                return self._open_string()
            if not self.in_code:
                self._end_words()
                return WENT_ON
            self.in_quotes = byte
        elif byte == 0x3C:
            found = self._marker_at(inbox.at)
            if found < 0:
                return INCOMPLETE
            if found > 0:
                self._end_words()
                return WENT_ON
        elif byte == 0x28 or byte == 0x5B or byte == 0x7B:
            self.depth += 1
        elif self.depth:
            if byte == 0x29 or byte == 0x5D or byte == 0x7D:
                self.depth -= 1
        elif (
            byte == 0x2C or byte == 0x29 or byte == 0x5D or byte == 0x7D
            or (byte == 0x3A and self.is_key)
        ):
            self._end_words()
            return WENT_ON
        elif self.stack.size == 0 and is_space(byte):
            found = self._keyword_at(inbox.at)
            if found < 0:
                return INCOMPLETE
            if found > 0:
                self._end_words()
                return WENT_ON
        self.token.add_byte(inbox.data[inbox.at])
        inbox.at += 1
        return WENT_ON

    cdef int _end_words(self) except -1:
        """Passes the token on as what it means."""
        cdef Buffer token = self.token
        cdef bytes word
        cdef bytes scalar
        while token.size and is_space(token.data[token.size - 1]):
            token.size -= 1
        word = token.take()
        scalar = _scalar(word)
        self._separate()
        # What a set holds is no key.
        if self.is_key and self.inbox.at < self.inbox.size and (
            self._top() == 0x7B or self.inbox.data[self.inbox.at] == 0x3A
        ):
            word = word if scalar is None or scalar[:1] in b"[{" else scalar
            scalar = None
        if scalar is None:
            self.answer.argue(b'"', 1)
            self.answer.escape(<const uint8_t*>PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))
            self.answer.argue(b'"', 1)
        else:
            self.answer.argue_bytes(scalar)
        self._end_item()
        return 0

    # What comes next: 1 and more for yes, 0 for no, -1 where more is needed to tell.

    cdef int _literal_at(self, Py_ssize_t at) noexcept:
        """Whether a string literal does: one more than its prefix is long."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t size
        if at >= inbox.size:
            return 0 if inbox.ended else -1
        size = prefix_size(inbox.data + at, inbox.size - at)
        if at + size == inbox.size:
            return 0 if inbox.ended else -1
        return <int>size + 1 if inbox.data[at + size] in b"\"'" else 0

    cdef int _marker_at(self, Py_ssize_t at) noexcept:
        """Whether a marker begins there, and not a comparison."""
        cdef Inbox inbox = self.inbox
        if at + 1 >= inbox.size:
            return 0 if inbox.ended else -1
        return inbox.data[at + 1] in b"|/"

    cdef int _keyword_at(self, Py_ssize_t at) noexcept:
        """Whether white space does and the name of another argument, whose comma is missing."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t start = at
        cdef uint8_t byte
        while at < inbox.size and at - start < MOST_SPACE and is_space(inbox.data[at]):
            at += 1
        start = at
        while at < inbox.size and at - start < LONGEST_NAME:
            byte = inbox.data[at]
            if not (
                0x61 <= byte | 0x20 <= 0x7A or byte == 0x5F or byte >= 0x80
                or (at > start and 0x30 <= byte <= 0x39)
            ):
                break
            at += 1
        if at > start:
            start = at
            while at < inbox.size and at - start < MOST_SPACE and is_space(inbox.data[at]):
                at += 1
        elif at < inbox.size:
            return 0
        if at + 1 >= inbox.size and not (at < inbox.size and inbox.data[at] != 0x3D):
            return 0 if inbox.ended else -1
        return inbox.data[at] == 0x3D and inbox.data[at + 1] != 0x3D


cdef uint8_t _closer(uint8_t opener) noexcept:
    """The bracket that closes one of the stack."""
    if opener == 0x7B or opener == BRACE or opener == SET:
        return 0x7D
    return 0x5D if opener == 0x5B else 0x29
