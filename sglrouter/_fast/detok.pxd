from libc.stdint cimport uint8_t, uint32_t

from sglrouter._fast.wire cimport GenerateReader


cdef class Vocabulary:
    cdef uint8_t* blob
    cdef uint32_t* offsets
    cdef uint8_t* special
    cdef readonly Py_ssize_t size
    cdef readonly bint byte_fallback


cdef class Detokenizer:
    cdef Vocabulary vocabulary
    cdef bint skip_special
    cdef uint32_t* stop_ids    # few, so they are searched one by one
    cdef Py_ssize_t stop_count
    cdef uint32_t* shown
    cdef Py_ssize_t shown_count
    cdef bint strip
    cdef list starts           # of tokens whose place in the text is known
    cdef list begun            # offsets in `pending` of the tokens after those
    cdef Py_ssize_t located    # how many of `begun` are in `starts` by now
    cdef Py_ssize_t held_id
    cdef uint8_t* pending      # text not yet returned; an incomplete character at most
    cdef Py_ssize_t length
    cdef Py_ssize_t capacity
    cdef readonly Py_ssize_t produced

    cdef int _append(self, Py_ssize_t token) except -1
    cdef bint _shows(self, Py_ssize_t token) noexcept
    cdef int _push(self, Py_ssize_t token) except -1
    cdef int _locate(self, Py_ssize_t stop, Py_ssize_t at, Py_ssize_t place, int width) except -1
    cdef bytes _release(self, bint last)
    cpdef bytes feed(self, GenerateReader reader)
    cpdef list feed_each(self, GenerateReader reader)
