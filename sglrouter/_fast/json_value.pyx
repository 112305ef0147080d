# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads a JSON or Python value as it arrives, and passes it on as strict JSON.

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
from sglrouter._fast.json_string cimport CLOSED, INCOMPLETE, NO_PART, WENT_ON, JsonString

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

    cdef void begin(self, bint python, bytes quote) noexcept:
        """Begins the next value, with the options of operations.Value."""
        self.python = python
        self.quote = quote
        self.state = AT_VALUE
        self.stack.size = 0
        self.token.size = 0
        self.after_comma = False

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
        cdef bint any_value = self.state != AT_VALUE or self.stack.size > 0
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
            if byte == 0x2C:  # ,
                self.after_comma = True
                self.state = AT_KEY if top == 0x7B else AT_VALUE
                self.inbox.at += 1
                return WENT_ON
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
            if not self.string.open(self.python):
                return INCOMPLETE
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
            self.token.add_byte(byte)
            self.inbox.at += 1
            return WENT_ON
        if self.python and (byte == 0x28 or byte == 0x5B or byte == 0x7B):
            # A call or an index: no value, and what follows the name will tell.
            self._end_token()
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
        self._separate()
        if self.state == IN_KEY_TOKEN:
            self._quoted(word)
        elif _is_number(word) or word == b"true" or word == b"false" or word == b"null":
            self.answer.argue_bytes(word)
        elif word == b"True":
            self.answer.argue(b"true", 4)
        elif word == b"False":
            self.answer.argue(b"false", 5)
        elif word in (b"None", b"NaN", b"nan", b"Infinity", b"-Infinity", b"undefined"):
            self.answer.argue(b"null", 4)
        else:
            plain = word.replace(b"_", b"").lstrip(b"+")
            if _is_number(plain):
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
