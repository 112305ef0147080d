# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads GenerateResponse messages without protobuf objects.

Strategy: one reader follows one sample. It walks the bytes of each message once,
appends new token ids to a C array and keeps the running totals; only a finished
sample, a failure or what was asked for besides (logprobs, kept ids) makes Python
objects. Every length is checked against the end of the message that holds it, so
hostile bytes raise ValueError and read nothing outside.

Engines differ in what the last message repeats, and so do the parts of a message. What
counts is always the number of tokens: an id, a logprob, a row of selected tokens is new
only if the totals say that it is missing.

The field numbers are those of proto/sglang_scheduler.proto.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from sglrouter._fast.protobuf cimport BYTES, FIXED32, VARINT, Field, read_field, read_varint


cdef str _text(const Field* field):
    return field.start[: field.stop - field.start].decode("utf-8", "replace")


cdef int _floats(const Field* field, list out) except -1:
    cdef const uint8_t* at = field.start
    cdef float value
    if field.kind == FIXED32 or field.kind == BYTES:
        while field.stop - at >= 4:
            memcpy(&value, at, 4)
            out.append(value)
            at += 4
    return 0


cdef int _integers(const Field* field, list out) except -1:
    cdef const uint8_t* at = field.start
    cdef uint64_t value
    if field.kind == VARINT:
        out.append(<uint32_t>field.value)
    elif field.kind == BYTES:
        while at < field.stop:
            at = read_varint(at, field.stop, &value)
            out.append(<uint32_t>value)
    return 0


cdef list _alternatives(const uint8_t* at, const uint8_t* end):
    """A TopLogProbs message as [(token id, log probability), ...]."""
    cdef Field field
    cdef list values = []
    cdef list ids = []
    while at < end:
        at = read_field(at, end, &field)
        if field.number == 1:
            _floats(&field, values)
        elif field.number == 2:
            _integers(&field, ids)
    return list(zip(ids, values))


cdef tuple _output_logprobs(const uint8_t* at, const uint8_t* end):
    """An OutputLogProbs message: its tokens, their alternatives, the selected tokens.

    Returns:
        [(id, log probability), ...] and two lists of [(id, log probability), ...] rows.
    """
    cdef Field field
    cdef list values = []
    cdef list ids = []
    cdef list top = []
    cdef list selected = []
    while at < end:
        at = read_field(at, end, &field)
        if field.number == 1:
            _floats(&field, values)
        elif field.number == 2:
            _integers(&field, ids)
        elif field.number == 3 and field.kind == BYTES:
            top.append(_alternatives(field.start, field.stop))
        elif field.number == 4 and field.kind == BYTES:
            selected.append(_alternatives(field.start, field.stop))
    return list(zip(ids, values)), top, selected


cdef object _optional_float(const uint8_t* at, const uint8_t* end):
    """An InputTokenLogProb message: its value, or None if it has none."""
    cdef Field field
    cdef float value
    cdef object found = None
    while at < end:
        at = read_field(at, end, &field)
        if field.number == 1 and field.kind == FIXED32:
            memcpy(&value, field.start, 4)
            found = value
    return found


cdef list _input_logprobs(const uint8_t* at, const uint8_t* end):
    """An InputLogProbs message as [(id, log probability or None, alternatives), ...]."""
    cdef Field field
    cdef list values = []
    cdef list ids = []
    cdef list top = []
    cdef Py_ssize_t i
    while at < end:
        at = read_field(at, end, &field)
        if field.number == 1 and field.kind == BYTES:
            values.append(_optional_float(field.start, field.stop))
        elif field.number == 2:
            _integers(&field, ids)
        elif field.number == 3 and field.kind == BYTES:
            top.append(_alternatives(field.start, field.stop))
    return [
        (ids[i], values[i], top[i] if i < len(top) else [])
        for i in range(min(len(ids), len(values)))
    ]


cdef class GenerateReader:
    """Follows one sample through its GenerateResponse messages.

    Args:
        want_logprobs: Whether to decode the log probabilities of the output.
        keep_ids: Whether to keep all ids in `output_ids`.
        want_input_logprobs: Whether to decode the log probabilities of the prompt.
        want_selected: Whether to decode those of the tokens that the request selected.

    Attributes:
        prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens: The engine's
            totals so far.
        spec_accepted_tokens, spec_draft_tokens: How many tokens speculative decoding
            has drafted and how many of them were right, once the sample is complete; 0
            where the engine does not say.
        received: How many ids have been read.
        reasoning_seen: How many tokens its owner has found to be reasoning.
        finish_reason: "stop", "length" or "abort" once the sample is complete.
        matched_stop: The token id or stop string that ended it, or None.
        failure: (message, HTTP status digits or "") where an engine before SGLang
            0.5.10 reports an error inside the response, else None.
        logprobs: (id, log probability, [(id, log probability), ...]) for each id read
            since take_logprobs().
        next_top: [(id, log probability), ...], the likeliest tokens after the prompt,
            where none was to be made; else None.
        output_ids: All ids so far, taken or not.
        input_logprobs: (id, log probability, [(id, log probability), ...]) for each
            token of the prompt from where the request says; the first has None. None
            until the engine has sent it.
        selected_logprobs: [(id, log probability), ...] of the selected tokens for each
            id so far; where no token was to be made, one row for the next.
    """

    def __cinit__(
        self,
        bint want_logprobs=False,
        *,
        bint keep_ids=False,
        bint want_input_logprobs=False,
        bint want_selected=False,
    ):
        self.want_logprobs = want_logprobs
        self.want_scores = want_logprobs or want_selected
        self.want_input_logprobs = want_input_logprobs
        self.want_selected = want_selected
        self.keep_ids = keep_ids
        self.logprobs = []
        self.output_ids = []
        self.selected_logprobs = []

    def __dealloc__(self):
        PyMem_Free(self.ids)

    cpdef int feed(self, bytes message) except -1:
        """Reads one serialized GenerateResponse.

        Raises:
            ValueError: The bytes are not such a message.
        """
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef Field field
        if message is None:
            raise TypeError("message is None")
        at = <const uint8_t*>PyBytes_AS_STRING(message)
        end = at + PyBytes_GET_SIZE(message)
        while at < end:
            at = read_field(at, end, &field)
            if field.kind != BYTES:
                continue
            if field.number == 2:
                self._read_chunk(field.start, field.stop)
            elif field.number == 3:
                self._read_complete(field.start, field.stop)
            elif field.number == 4:
                self.failure = _read_failure(field.start, field.stop)
        return 0

    cdef bint feed_chunks(self, list messages) noexcept:
        """Reads messages if all of them are chunks and well-formed, else none."""
        cdef Py_ssize_t count = self.count
        cdef Py_ssize_t received = self.received
        cdef bytes message
        if self.want_scores or self.want_input_logprobs or self.keep_ids:
            # What these have gathered could not be taken back.
            return False
        for message in messages:
            if not _is_chunk(message):
                return False
        try:
            for message in messages:
                self.feed(message)
        except Exception:
            # Whoever feeds them one by one will hear of it.
            self.count = count
            self.received = received
            return False
        return True

    def take_ids(self):
        """Returns the ids read since the last call, and forgets them."""
        cdef Py_ssize_t i
        ids = [self.ids[i] for i in range(self.count)]
        self.count = 0
        return ids

    def take_logprobs(self):
        """Returns the logprobs read since the last call, and forgets them."""
        taken = self.logprobs
        self.logprobs = []
        return taken

    cdef int _reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t wanted = self.count + more
        cdef void* grown
        if wanted > self.capacity:
            wanted = max(wanted, 2 * self.capacity, 64)
            grown = PyMem_Realloc(self.ids, wanted * sizeof(uint32_t))
            if grown == NULL:
                raise MemoryError()
            self.ids = <uint32_t*>grown
            self.capacity = wanted
        return 0

    cdef int _read_ids(self, const uint8_t* at, const uint8_t* end) except -1:
        cdef uint64_t value
        self._reserve(end - at)
        while at < end:
            at = read_varint(at, end, &value)
            self.ids[self.count] = <uint32_t>value
            self.count += 1
        return 0

    cdef int _read_chunk(self, const uint8_t* at, const uint8_t* end) except -1:
        cdef Field field
        cdef Field scores
        cdef Py_ssize_t before = self.count
        scores.start = NULL
        while at < end:
            at = read_field(at, end, &field)
            if field.kind == VARINT:
                if field.number == 1:
                    self._reserve(1)
                    self.ids[self.count] = <uint32_t>field.value
                    self.count += 1
                elif field.number == 2:
                    self.prompt_tokens = <uint32_t>field.value
                elif field.number == 3:
                    self.completion_tokens = <uint32_t>field.value
                elif field.number == 4:
                    self.cached_tokens = <uint32_t>field.value
                elif field.number == 9:
                    self.reasoning_tokens = <uint32_t>field.value
            elif field.number == 1 and field.kind == BYTES:
                self._read_ids(field.start, field.stop)
            elif field.number == 5 and field.kind == BYTES and self.want_scores:
                scores = field
            elif field.number == 7 and field.kind == BYTES and self.want_input_logprobs:
                self._read_input_logprobs(&field)
        self._add(before, &scores, False)
        return 0

    cdef int _read_complete(self, const uint8_t* at, const uint8_t* end) except -1:
        cdef Field field
        cdef Field scores
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t found
        cdef Py_ssize_t missing
        cdef bint counted = False
        scores.start = NULL
        self.finish_reason = ""
        while at < end:
            at = read_field(at, end, &field)
            if field.kind == VARINT:
                if field.number == 1:
                    self._reserve(1)
                    self.ids[self.count] = <uint32_t>field.value
                    self.count += 1
                elif field.number == 3:
                    self.prompt_tokens = <uint32_t>field.value
                elif field.number == 4:
                    self.completion_tokens = <uint32_t>field.value
                    counted = True
                elif field.number == 5:
                    self.cached_tokens = <uint32_t>field.value
                elif field.number == 8:
                    self.matched_stop = <uint32_t>field.value
                elif field.number == 12:
                    self.reasoning_tokens = <uint32_t>field.value
                elif field.number == 13:
                    self.spec_accepted_tokens = <uint32_t>field.value
                elif field.number == 14:
                    self.spec_draft_tokens = <uint32_t>field.value
            elif field.kind == BYTES:
                if field.number == 1:
                    self._read_ids(field.start, field.stop)
                elif field.number == 2:
                    self.finish_reason = _text(&field)
                elif field.number == 6 and self.want_scores:
                    scores = field
                elif field.number == 9:
                    self.matched_stop = _text(&field)
                elif field.number == 10 and self.want_input_logprobs:
                    self._read_input_logprobs(&field)

        # Newer engines repeat the last chunk's ids here, older ones send them only
        # here, a non-streaming call sends all: the total tells what is missing.
        found = self.count - before
        missing = <Py_ssize_t>self.completion_tokens - self.received if counted else (
            found if self.received == 0 else 0
        )
        missing = min(max(missing, 0), found)
        if missing < found:
            memmove(
                self.ids + before,
                self.ids + before + found - missing,
                missing * sizeof(uint32_t),
            )
            self.count = before + missing
        self._add(before, &scores, True)
        return 0

    cdef int _add(
        self, Py_ssize_t before, const Field* scores, bint last
    ) except -1:
        """Counts the ids that are new, from `before` on, and reads what belongs to them."""
        cdef Py_ssize_t i
        self.received += self.count - before
        if self.keep_ids:
            for i in range(before, self.count):
                self.output_ids.append(self.ids[i])
        if scores.start != NULL:
            self._add_scores(self.count - before, scores, last)
        return 0

    cdef int _add_scores(self, Py_ssize_t fresh, const Field* scores, bint last) except -1:
        cdef list tokens, top, selected
        cdef Py_ssize_t i
        cdef Py_ssize_t missing
        tokens, top, selected = _output_logprobs(scores.start, scores.stop)
        if self.want_logprobs:
            # Some engines repeat those of the ids before.
            for i in range(max(len(tokens) - fresh, 0), len(tokens)):
                token, value = tokens[i]
                self.logprobs.append((token, value, top[i] if i < len(top) else []))
            if self.received == 0 and top and not tokens:
                self.next_top = top[0]
        if self.want_selected:
            # A chunk holds the rows of its ids, the end those of all ids or of its own.
            missing = self.received - len(self.selected_logprobs) if last else fresh
            if self.received == 0:
                missing = 1 - len(self.selected_logprobs)
            if missing > 0:
                self.selected_logprobs.extend(selected[max(len(selected) - missing, 0):])
        return 0

    cdef int _read_input_logprobs(self, const Field* field) except -1:
        # Sent once, with the first chunk or the end; some may send it with both.
        if not self.input_logprobs:
            self.input_logprobs = _input_logprobs(field.start, field.stop)
        return 0


cdef bint _is_chunk(bytes message) noexcept:
    """Whether a GenerateResponse holds a chunk and neither an end nor a failure."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(message)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(message)
    cdef Field field
    cdef bint found = False
    try:
        while at < end:
            at = read_field(at, end, &field)
            if field.number == 3 or field.number == 4:
                return False
            found = found or field.number == 2
    except ValueError:
        return False
    return found


cdef tuple _read_failure(const uint8_t* at, const uint8_t* end):
    cdef Field field
    cdef str message = ""
    cdef str status = ""
    while at < end:
        at = read_field(at, end, &field)
        if field.kind == BYTES:
            if field.number == 1:
                message = _text(&field)
            elif field.number == 2:
                status = _text(&field)
    return message, status
