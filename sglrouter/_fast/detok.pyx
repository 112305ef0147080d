# cython: boundscheck=False, wraparound=False, cdivision=True
"""Token ids to UTF-8 text, incrementally, by a table of bytes per id.

Strategy: a Vocabulary holds every token's bytes in one blob, built once before the
workers fork, so that the pages stay shared (plain C arrays, no reference counts). A
Detokenizer appends the bytes of each id and passes on complete characters only: at
most three bytes are held back, whatever the model does. Bytes that can never become
a character turn into U+FFFD, as the tokenizer library's own decoding does: one for
each maximal invalid part in byte-level vocabularies, one for each byte in those with
byte fallback.

A sample goes on where its prompt ends: the ids before it are decoded with it and their
text is dropped. A space that only a text's own beginning loses is kept so, and bytes of
a character that the prompt leaves open are completed.

A stop token is held back too: whether it ends the text, and must not be seen, or is
followed by more, is known only when the next id or the end arrives.
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
    _PyBytes_Resize,
)
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from sglrouter._fast.wire cimport GenerateReader

cdef enum:
    NO_ID = -1


cdef class Vocabulary:
    """What each token id stands for.

    Args:
        pieces: The bytes of each id, by id; None where the vocabulary has a hole.
        special: Ids of the tokens that skip_special_tokens leaves out.
        byte_fallback: Whether single-byte tokens stand in for unknown characters
            (SentencePiece style); it decides how invalid bytes are shown.
    """

    def __cinit__(self, list pieces, special, bint byte_fallback=False):
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t i
        cdef bytes piece
        for piece in pieces:
            if piece is not None:
                total += PyBytes_GET_SIZE(piece)
        if total > 0xFFFFFFFF:
            raise ValueError("vocabulary of more than 4 GiB")
        self.size = len(pieces)
        self.byte_fallback = byte_fallback
        self.blob = <uint8_t*>PyMem_Malloc(max(total, 1))
        self.offsets = <uint32_t*>PyMem_Calloc(self.size + 1, sizeof(uint32_t))
        self.special = <uint8_t*>PyMem_Calloc(self.size + 1, 1)
        if self.blob == NULL or self.offsets == NULL or self.special == NULL:
            raise MemoryError()
        total = 0
        for i in range(self.size):
            self.offsets[i] = <uint32_t>total
            piece = pieces[i]
            if piece is not None:
                memcpy(self.blob + total, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
                total += PyBytes_GET_SIZE(piece)
        self.offsets[self.size] = <uint32_t>total
        for i in special:
            if 0 <= i < self.size:
                self.special[i] = 1

    def __dealloc__(self):
        PyMem_Free(self.blob)
        PyMem_Free(self.offsets)
        PyMem_Free(self.special)

    def __len__(self):
        return self.size

    def piece(self, Py_ssize_t token):
        """Returns the bytes of one id; none for an id that does not exist."""
        if not 0 <= token < self.size:
            return b""
        return self.blob[self.offsets[token] : self.offsets[token + 1]]


cdef inline int _sequence(const uint8_t* at, Py_ssize_t left) noexcept:
    """Classifies what starts at `at`, after the Unicode table of well-formed UTF-8.

    Returns the length of a complete character; 0 if more bytes are needed; or
    -k where the first k bytes are an invalid part.
    """
    cdef uint8_t first = at[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int needed
    cdef int i
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF:
        needed = 2
    elif 0xE0 <= first <= 0xEF:
        needed = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        needed = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return -1
    for i in range(1, needed):
        if i >= left:
            return 0
        if not low <= at[i] <= high:
            return -i
        low = 0x80
        high = 0xBF
    return needed


cdef class Detokenizer:
    """Turns one sample's ids into text.

    Args:
        vocabulary: The model's tokens.
        skip_special: Whether special tokens are left out of the text.
        stop_ids: Ids that may end the sample; see finish().
        strip_leading_space: Whether one space at the very start is dropped, as
            SentencePiece decoding does; see follow().
        want_starts: Whether to record where in the text each token begins.
        shown: Ids of special tokens that are text all the same.

    Attributes:
        produced: Bytes of text returned so far.
    """

    def __cinit__(
        self,
        Vocabulary vocabulary not None,
        bint skip_special=True,
        stop_ids=(),
        bint strip_leading_space=False,
        bint want_starts=False,
        shown=(),
    ):
        self.vocabulary = vocabulary
        self.skip_special = skip_special
        self.stop_ids = <uint32_t*>PyMem_Malloc((len(stop_ids) + 1) * sizeof(uint32_t))
        self.shown = <uint32_t*>PyMem_Malloc((len(shown) + 1) * sizeof(uint32_t))
        if self.stop_ids == NULL or self.shown == NULL:
            raise MemoryError()
        for token in shown:
            self.shown[self.shown_count] = token
            self.shown_count += 1
        for token in stop_ids:
            self.stop_ids[self.stop_count] = token
            self.stop_count += 1
        self.strip = strip_leading_space
        self.starts = []
        self.begun = [] if want_starts else None
        self.held_id = NO_ID

    def __dealloc__(self):
        PyMem_Free(self.pending)
        PyMem_Free(self.stop_ids)
        PyMem_Free(self.shown)

    cdef int _append(self, Py_ssize_t token) except -1:
        cdef Vocabulary vocabulary = self.vocabulary
        cdef Py_ssize_t start
        cdef Py_ssize_t size
        cdef void* grown
        if self.begun is not None:
            self.begun.append(self.length)
        if token >= vocabulary.size:
            return 0
        if self.skip_special and vocabulary.special[token] and not self._shows(token):
            return 0
        start = vocabulary.offsets[token]
        size = vocabulary.offsets[token + 1] - start
        if self.length + size > self.capacity:
            self.capacity = max(self.length + size, 2 * self.capacity, 64)
            grown = PyMem_Realloc(self.pending, self.capacity)
            if grown == NULL:
                raise MemoryError()
            self.pending = <uint8_t*>grown
        memcpy(self.pending + self.length, vocabulary.blob + start, size)
        self.length += size
        return 0

    cdef bint _shows(self, Py_ssize_t token) noexcept:
        cdef Py_ssize_t i
        for i in range(self.shown_count):
            if self.shown[i] == token:
                return True
        return False

    cdef int _push(self, Py_ssize_t token) except -1:
        cdef Py_ssize_t i
        if self.held_id != NO_ID:
            self._append(self.held_id)
            self.held_id = NO_ID
        for i in range(self.stop_count):
            if self.stop_ids[i] == token:
                self.held_id = token
                return 0
        return self._append(token)

    cdef int _locate(
        self, Py_ssize_t stop, Py_ssize_t at, Py_ssize_t place, int width
    ) except -1:
        """Places the tokens that begin before pending[stop].

        Args:
            stop: End of the part of `pending` that became text.
            at: Its beginning.
            place: Where in the text that is.
            width: Bytes of text for each byte of it.
        """
        cdef Py_ssize_t offset
        while self.located < len(self.begun):
            offset = self.begun[self.located]
            if offset >= stop:
                break
            self.starts.append(place + width * max(offset - at, 0))
            self.located += 1
        return 0

    cdef bytes _release(self, bint last):
        """Returns the complete characters of `pending` and keeps the rest."""
        cdef const uint8_t* source = self.pending
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t out = 0
        cdef Py_ssize_t left = self.length
        cdef int step
        cdef int width
        cdef int i
        cdef uint8_t* target
        cdef bytes text
        cdef bint locate = self.begun is not None and len(self.begun) > 0
        if left == 0:
            if locate:
                self._locate(1, 0, self.produced, 1)
                self.begun.clear()
                self.located = 0
            return b""
        if self.strip:
            self.strip = False
            if source[0] == 0x20:
                at = 1
        # An invalid byte takes three bytes as U+FFFD.
        text = PyBytes_FromStringAndSize(NULL, 3 * left)
        target = <uint8_t*>PyBytes_AS_STRING(text)
        while at < left:
            if locate:
                self._locate(at + 1, at, self.produced + out, 1)
            if source[at] < 0x80:
                target[out] = source[at]
                out += 1
                at += 1
                continue
            step = _sequence(source + at, left - at)
            if step > 0:
                if locate:
                    self._locate(at + step, at, self.produced + out, 1)
                for i in range(step):
                    target[out + i] = source[at + i]
                out += step
                at += step
                continue
            if step == 0:
                if not last:
                    break
                step = -<int>(left - at)
            if locate:
                width = 3 if self.vocabulary.byte_fallback else 1
                self._locate(at - step, at, self.produced + out, width)
            for i in range(-step if self.vocabulary.byte_fallback else 1):
                target[out] = 0xEF
                target[out + 1] = 0xBF
                target[out + 2] = 0xBD
                out += 3
            at -= step
        self.length = left - at
        for i in range(<int>self.length):
            self.pending[i] = self.pending[at + i]
        self.produced += out
        if locate:
            self._locate(at + 1, at, self.produced, 1)
            self.begun = [begin - at for begin in self.begun[self.located :]]
            self.located = 0
        return text[:out]

    cpdef bytes feed(self, GenerateReader reader):
        """Takes the ids that `reader` has gathered; returns the text they complete.

        Returns:
            UTF-8 bytes, complete characters only; may be empty.
        """
        cdef Py_ssize_t i
        if reader is None:
            raise TypeError("reader is None")
        for i in range(reader.count):
            self._push(reader.ids[i])
        reader.count = 0
        return self._release(False)

    cpdef list feed_each(self, GenerateReader reader):
        """Like feed(), but returns what each of the ids completes."""
        cdef Py_ssize_t i
        cdef list texts = []
        if reader is None:
            raise TypeError("reader is None")
        for i in range(reader.count):
            self._push(reader.ids[i])
            texts.append(self._release(False))
        reader.count = 0
        return texts

    def feed_ids(self, ids):
        """Like feed(), for ids given as integers."""
        cdef uint32_t token
        for token in ids:
            self._push(token)
        return self._release(False)

    def follow(self, ids):
        """Takes the last ids of what comes before the sample; to be called first.

        Their text is no part of the sample's, but for the bytes of a character that
        they leave open.
        """
        cdef uint32_t token
        begun, self.begun = self.begun, None
        for token in ids:
            self._append(token)
        self._release(False)
        self.begun = begun
        self.produced = 0

    def settle(self):
        """Returns what was held back for nothing: no text, as bytes wait only for more."""
        return b""

    def finish(self, bint stopped=True):
        """Ends the sample and returns what was held back.

        Args:
            stopped: Whether a stop token that came last is what ended the sample and
                so no part of the text.
        """
        if self.held_id != NO_ID and not stopped:
            self._append(self.held_id)
        self.held_id = NO_ID
        return self._release(True)

    def take_starts(self):
        """Returns where each token since the last call begins, in bytes of text.

        Tokens that are held back are not in it yet.
        """
        taken = self.starts
        self.starts = []
        return taken
