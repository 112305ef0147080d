cdef class ChunkFramer:
    cdef bytes head
    cdef bytes content_head
    cdef list reasoning_heads    # one for each field

    cpdef bytes content(self, bytes text, bytes logprobs=*)
    cpdef bytes reasoning(self, bytes text, bytes logprobs=*)
    cpdef bytes call(self, tuple delta, bytes logprobs=*)
