from libc.stdint cimport uint8_t, uint32_t

from sglrouter._fast.protobuf cimport Field


cdef class GenerateReader:
    # The ids read since the last take_ids(), as the detokenizer consumes them.
    cdef uint32_t* ids
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef readonly Py_ssize_t received
    cdef bint want_logprobs
    cdef bint want_input_logprobs
    cdef bint want_selected
    cdef bint want_scores  # either of the two that come with the output
    cdef bint keep_ids

    cdef readonly uint32_t prompt_tokens
    cdef readonly uint32_t completion_tokens
    cdef readonly uint32_t cached_tokens
    cdef readonly uint32_t reasoning_tokens
    cdef public uint32_t reasoning_seen
    cdef readonly str finish_reason
    cdef readonly object matched_stop
    cdef readonly object failure
    cdef readonly list logprobs
    cdef readonly uint32_t spec_accepted_tokens
    cdef readonly uint32_t spec_draft_tokens
    cdef readonly list next_top
    cdef readonly list output_ids
    cdef readonly list input_logprobs
    cdef readonly list selected_logprobs

    cpdef int feed(self, bytes message) except -1
    cdef bint feed_chunks(self, list messages) noexcept
    cdef int _reserve(self, Py_ssize_t more) except -1
    cdef int _read_chunk(self, const uint8_t* at, const uint8_t* end) except -1
    cdef int _read_complete(self, const uint8_t* at, const uint8_t* end) except -1
    cdef int _add(self, Py_ssize_t before, const Field* scores, bint last) except -1
    cdef int _add_scores(self, Py_ssize_t fresh, const Field* scores, bint last) except -1
    cdef int _read_input_logprobs(self, const Field* field) except -1
    cdef int _read_ids(self, const uint8_t* at, const uint8_t* end) except -1
