from sglrouter._fast.framer cimport Framer


cdef class ChoiceFramer(Framer):
    cdef bytes head
    cdef bytes content_head
    cdef bytes content_tail      # up to the logprobs
    cdef bytes content_end       # with no logprobs
    cdef bytes closing           # what follows the choice
    cdef bytes goes_on           # a choice without logprobs that does not end, and closing

    cdef int _begin(
        self, bytes kind, str completion_id, object created, str model, object index, bint usage
    ) except -1
    cdef bytes _tail(self, bytes logprobs)
    cdef bytes _end(self, str reason, object matched_stop)
    cdef int _begin_content(self, bytes before, bytes after) except -1


cdef class TextFramer(ChoiceFramer):
    pass


cdef class ChunkFramer(ChoiceFramer):
    cdef list reasoning_heads    # one for each field
