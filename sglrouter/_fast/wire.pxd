from libc.stdint cimport uint8_t, uint32_t


cdef class GenerateReader:
    # The ids read since the last take_ids(), as the detokenizer consumes them.
    cdef uint32_t* ids
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef Py_ssize_t received
    cdef bint want_logprobs

    cdef readonly uint32_t prompt_tokens
    cdef readonly uint32_t completion_tokens
    cdef readonly uint32_t cached_tokens
    cdef readonly uint32_t reasoning_tokens
    cdef public uint32_t reasoning_seen
    cdef readonly str finish_reason
    cdef readonly object matched_stop
    cdef readonly object failure
    cdef readonly list logprobs

    cpdef int feed(self, bytes message) except -1
    cdef bint feed_chunks(self, list messages) noexcept
    cdef int _reserve(self, Py_ssize_t more) except -1
    cdef int _read_chunk(self, const uint8_t* at, const uint8_t* end) except -1
    cdef int _read_complete(self, const uint8_t* at, const uint8_t* end) except -1
    cdef int _read_ids(self, const uint8_t* at, const uint8_t* end) except -1
