# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a JSON value as it arrives, and passes it on as strict JSON.

Strategy: a state and a stack of open brackets are all that is kept, so a piece may end
anywhere. Punctuation goes out when it is certain (a comma with the item after it),
strings as they arrive, other scalars when they are complete. What models write instead
of JSON is mended where the meaning is clear; the first byte that has none ends reading.
"""

from cython cimport final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from sglrouter._fast.answer cimport Answer
from sglrouter._fast.ascii cimport is_space
from sglrouter._fast.buffer cimport Buffer
from sglrouter._fast.inbox cimport MORE, Inbox
from sglrouter._fast.json_number cimport is_number
from sglrouter._fast.json_string cimport CLOSED, INCOMPLETE, NO_PART, WENT_ON, JsonString
from sglrouter._fast.python_value cimport PythonValue

cdef enum:
    # States of a value.
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
    # How far is looked ahead for a key and its colon, and how long a number before it may be.
    LONGEST_KEY = 64
    MOST_SPACE = 16


@final
cdef class JsonValue:
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
        self.string = JsonString(inbox, answer)
        self.literal = PythonValue(inbox, answer)

    cdef void begin(self, bint python, bint in_code, bytes quote) noexcept:
        """Begins the next value, with the options of operations.Value."""
        self.python = python
        if python:
            self.literal.begin(in_code)
            return
        self.quote = quote
        self.state = AT_VALUE
        self.keys = None if quote is None else set()
        self.repeated = False
        self.stack.size = 0
        self.token.size = 0
        self.after_comma = False

    cdef object read(self):
        """Reads on: MORE, or True, False and None as operations.Value gives them."""
        cdef Inbox inbox = self.inbox
        cdef uint8_t byte
        cdef int reached
        cdef Py_ssize_t before
        if self.python:
            return self.literal.read()
        while self.state != VALUE_DONE:
            if inbox.at == inbox.size:
                if not inbox.ended:
                    return MORE
                self._cut_token()
                return None
            before = inbox.at
            if self.state == IN_STRING or self.state == IN_KEY:
                reached = self.string.read()
                if reached == CLOSED:
                    self.answer.argue(b'"', 1)
                    self._end_part()
            else:
                byte = inbox.data[before]
                if self.state == IN_TOKEN or self.state == IN_KEY_TOKEN:
                    reached = self._token_byte(byte)
                elif is_space(byte):
                    reached = WENT_ON
                    inbox.at += 1
                else:
                    reached = self._mark_byte(byte)
            if reached == INCOMPLETE and inbox.ended:
                # An escape or a marker that was cut off.
                inbox.at = inbox.size
            if inbox.recording:
                inbox.note(inbox.at - before)
            if reached == INCOMPLETE:
                return None if inbox.ended else MORE
            if reached == NO_PART:
                return False
        return True

    cdef bint close(self) except -1:
        """Closes what is open; returns whether there is anything of a value."""
        cdef Py_ssize_t i
        cdef bint any_value
        if self.python:
            return self.literal.close()
        self._end_repetition()
        any_value = self.state != AT_VALUE or self.stack.size > 0
        if self.state == IN_TOKEN or self.state == IN_KEY_TOKEN:
            self._end_token()
        if self.state == IN_STRING or self.state == IN_KEY:
            self.answer.argue(b'"', 1)
        if self.state == IN_KEY or self.state == AT_COLON:
            self.answer.argue(b": null", 6)
        elif self.state == AT_VALUE and self._top() == 0x7B:
            self.answer.argue(b"null", 4)
        for i in range(self.stack.size - 1, -1, -1):
            self.answer.argue(b"}" if self.stack.data[i] == 0x7B else b"]", 1)
        self.stack.size = 0
        self.state = VALUE_DONE
        return any_value

    cdef uint8_t _top(self) noexcept:
        return self.stack.data[self.stack.size - 1] if self.stack.size else 0

    cdef void _end_part(self) noexcept:
        """Says that a key, a scalar or a bracketed value is complete."""
        if self.state == IN_KEY or self.state == IN_KEY_TOKEN:
            self.state = AT_COLON
        else:
            self.state = AFTER_VALUE if self.stack.size else VALUE_DONE

    # Between keys and values.

    cdef int _mark_byte(self, uint8_t byte) except -2:
        """Reads a byte there: WENT_ON, INCOMPLETE or NO_PART."""
        cdef uint8_t top = self._top()
        cdef int opened
        if self.state == AFTER_VALUE:
            if self.stack.size == 1:
                self._end_repetition()
            if byte == 0x2C:  # ,
                self.after_comma = True
                self.state = AT_KEY if top == 0x7B else AT_VALUE
                self.inbox.at += 1
                return WENT_ON
            opened = self._forgotten_comma(byte)
            if opened != NO_PART:
                return opened
            return self._close_bracket(byte)
        if self.state == AT_COLON:
            if byte != 0x3A:
                return NO_PART
            self.answer.argue(b": ", 2)
            self.state = AT_VALUE
            self.inbox.at += 1
            return WENT_ON
        if byte == 0x7D or byte == 0x5D or byte == 0x29:  # } ] )
            if self.state == AT_VALUE and top == 0x7B:
                self.answer.argue(b"null", 4)
            return self._close_bracket(byte)
        if byte == 0x2C:
            if self.stack.size == 0:
                return NO_PART
            if self.state == AT_VALUE and top == 0x7B:
                self.answer.argue(b"null", 4)
                self.state = AFTER_VALUE
                return WENT_ON
            self.inbox.at += 1
            return WENT_ON
        if byte == 0x22 or byte == 0x27:  # " '
            self.string.open()
            self._begin_string()
            return WENT_ON
        if self.quote is not None:
            opened = self.string.open_marked(self.quote)
            if opened == WENT_ON:
                self._begin_string()
            if opened != NO_PART:
                return opened
        if self.state == AT_KEY:
            if byte == 0x3A or byte == 0x7B or byte == 0x5B or byte == 0x3C:  # : { [ <
                return NO_PART
            self.state = IN_KEY_TOKEN
            return WENT_ON
        if byte == 0x7B or byte == 0x5B or byte == 0x28:  # { [ (
            if self.stack.size >= DEEPEST:
                return NO_PART
            self._separate()
            self.answer.argue(b"{" if byte == 0x7B else b"[", 1)
            self.stack.add_byte(byte)
            self.after_comma = False
            self.state = AT_KEY if byte == 0x7B else AT_VALUE
            self.inbox.at += 1
            return WENT_ON
        if byte == 0x3A or byte == 0x3C:  # : <
            return NO_PART
        self.state = IN_TOKEN
        return WENT_ON

    cdef int _forgotten_comma(self, uint8_t byte) except -2:
        """Reads what says that a comma is missing before it, or nothing: as _mark_byte()."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t at = inbox.at
        cdef int opened
        cdef int follows
        if byte == 0x7D or byte == 0x5D or byte == 0x29:  # } ] )
            return NO_PART
        if self.quote is not None:
            opened = self.string.starts_with(self.quote)
            if opened == INCOMPLETE:
                return INCOMPLETE
            if opened == WENT_ON:
                # A marker too many has the end of the item behind it.
                at += PyBytes_GET_SIZE(self.quote)
                follows = self._byte_after_space(at)
                if follows < 0:
                    return INCOMPLETE
                if follows == 0x2C or follows == 0x7D or follows == 0x5D:
                    inbox.at = at
                    return WENT_ON
                if self._top() != 0x7B:
                    return self._next_item()
        if self._top() != 0x7B:
            return self._next_item() if byte == 0x7B else NO_PART
        if self.quote is None and byte != 0x22:
            return NO_PART
        follows = self._key_at(at)
        if follows > 0:
            return self._next_item()
        return INCOMPLETE if follows < 0 else NO_PART

    cdef int _next_item(self) noexcept:
        """Goes on as after a comma."""
        self.after_comma = True
        self.state = AT_KEY if self._top() == 0x7B else AT_VALUE
        return WENT_ON

    cdef int _byte_after_space(self, Py_ssize_t at) noexcept:
        """The byte that follows white space; 0 at the end, -1 where more is needed to tell."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t start = at
        while at < inbox.size and at - start < MOST_SPACE and is_space(inbox.data[at]):
            at += 1
        if at < inbox.size:
            return inbox.data[at]
        return 0 if inbox.ended else -1

    cdef int _key_at(self, Py_ssize_t at) noexcept:
        """Whether a key and its colon follow: 1, 0, or -1 where more is needed to tell."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t start = at
        cdef uint8_t quote = 0x22 if self.quote is None else 0
        cdef uint8_t byte
        cdef int follows
        at += 1 if quote or inbox.data[at] == 0x3C else 0
        while at < inbox.size and at - start < LONGEST_KEY:
            byte = inbox.data[at]
            if quote and byte == quote:
                follows = self._byte_after_space(at + 1)
                return follows == 0x3A if follows >= 0 else -1
            if not quote and byte == 0x3A:
                return 1
            if byte == 0x0A or byte in b",{}[]":
                return 0
            if byte == 0x5C and quote:
                at += 1
            at += 1
        return 0 if inbox.ended or at - start >= LONGEST_KEY else -1

    cdef int _name_at(self, Py_ssize_t at) noexcept:
        """Whether white space, a name and its colon follow: as _key_at()."""
        cdef Inbox inbox = self.inbox
        cdef Py_ssize_t start = at
        cdef uint8_t byte
        while at < inbox.size and at - start < MOST_SPACE and is_space(inbox.data[at]):
            at += 1
        start = at
        while at < inbox.size and at - start < LONGEST_KEY:
            byte = inbox.data[at]
            if byte == 0x3A:
                return at > start
            if not (0x61 <= byte | 0x20 <= 0x7A or byte == 0x5F or 0x30 <= byte <= 0x39):
                return 0
            at += 1
        return 0 if inbox.ended or at - start >= LONGEST_KEY else -1

    cdef void _end_repetition(self) noexcept:
        """Goes on passing on, after a member whose key has been there before."""
        if self.repeated:
            self.repeated = False
            self.answer.skipping = False

    cdef int _begin_string(self) except -1:
        self._separate()
        self.state = IN_KEY if self.state == AT_KEY else IN_STRING
        return self.answer.argue(b'"', 1)

    cdef int _separate(self) except -1:
        """Writes the comma before an item or key that is not the first."""
        if self.after_comma:
            self.after_comma = False
            return self.answer.argue(b", ", 2)
        return 0

    cdef int _close_bracket(self, uint8_t byte) except -2:
        """Reads a closing bracket; NO_PART if it is none that could close anything."""
        cdef uint8_t opener = 0x7B if byte == 0x7D else 0x5B if byte == 0x5D else 0x28
        cdef Py_ssize_t i
        if byte != 0x7D and byte != 0x5D and byte != 0x29:
            return NO_PART
        if self.stack.size == 1:
            self._end_repetition()
        if self._top() != opener:
            # A closer was forgotten, if there is anything that this one could close.
            for i in range(self.stack.size - 1, -1, -1):
                if self.stack.data[i] == opener:
                    break
            else:
                return NO_PART
            while self._top() != opener:
                self.answer.argue(b"}" if self._top() == 0x7B else b"]", 1)
                self.stack.size -= 1
        self.answer.argue(b"}" if opener == 0x7B else b"]", 1)
        self.stack.size -= 1
        self.after_comma = False
        self.inbox.at += 1
        self.state = AFTER_VALUE if self.stack.size else VALUE_DONE
        return WENT_ON

    # Scalars and bare words.

    cdef int _token_byte(self, uint8_t byte) except -2:
        """Adds a byte to the token, or ends the token before it."""
        cdef int named
        if self.quote is not None:
            # A bare word is as long as nothing ends the value.
            if byte == 0x3A if self.state == IN_KEY_TOKEN else (
                byte == 0x2C or byte == 0x7D or byte == 0x5D
                or byte == <uint8_t>PyBytes_AS_STRING(self.quote)[0]
            ):
                while self.token.size and is_space(self.token.data[self.token.size - 1]):
                    self.token.size -= 1
                self._end_token()
                return WENT_ON
            if (
                is_space(byte) and self.state == IN_TOKEN and self._top() == 0x7B
                and self.token.size <= LONGEST_KEY
            ):
                named = self._name_at(self.inbox.at)
                if named < 0:
                    return INCOMPLETE
                if named > 0 and _is_scalar(self.token.data[: self.token.size]):
                    self._end_token()
                    return WENT_ON
            self.token.add_byte(byte)
            self.inbox.at += 1
            return WENT_ON
        if (
            is_space(byte)
            or byte == 0x2C or byte == 0x3A or byte == 0x3C  # , : <
            or byte == 0x7D or byte == 0x5D or byte == 0x29
            or byte == 0x22 or byte == 0x27
        ):
            self._end_token()
            return WENT_ON
        self.token.add_byte(byte)
        self.inbox.at += 1
        return WENT_ON

    cdef int _end_token(self) except -1:
        """Passes the token on as what it means."""
        cdef bytes word = self.token.take()
        cdef bytes plain
        if self.state == IN_KEY_TOKEN and self.keys is not None and self.stack.size == 1:
            if word in self.keys and not self.answer.skipping:
                # The first one counts: it has gone out.
                self.repeated = True
                self.answer.skipping = True
            self.keys.add(word)
        self._separate()
        if self.state == IN_KEY_TOKEN:
            self._quoted(word)
        elif is_number(word) or word == b"true" or word == b"false" or word == b"null":
            self.answer.argue_bytes(word)
        elif word == b"True":
            self.answer.argue(b"true", 4)
        elif word == b"False":
            self.answer.argue(b"false", 5)
        elif word in (b"None", b"NaN", b"nan", b"Infinity", b"-Infinity", b"undefined"):
            self.answer.argue(b"null", 4)
        else:
            plain = word.replace(b"_", b"").lstrip(b"+")
            if is_number(plain):
                self.answer.argue_bytes(plain)
            else:
                self._quoted(word)
        self._end_part()
        return 0

    cdef int _quoted(self, bytes word) except -1:
        """Passes a bare word on as a string."""
        self.answer.argue(b'"', 1)
        self.answer.escape(<const uint8_t*>PyBytes_AS_STRING(word), PyBytes_GET_SIZE(word))
        return self.answer.argue(b'"', 1)

    cdef int _cut_token(self) except -1:
        """Passes on what there is of a scalar that was cut off, if that would have stayed."""
        if self.state == IN_TOKEN and self.quote is None and _begins_scalar(self.token):
            self._separate()
            self.answer.argue(self.token.data, self.token.size)
        self.token.size = 0
        return 0


cdef bint _is_scalar(bytes word):
    """Whether it is a number or one of JSON's words."""
    return is_number(word) or word in (b"true", b"false", b"null")


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
