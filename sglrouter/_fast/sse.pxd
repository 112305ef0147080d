cdef class ChunkFramer:
    cdef bytes head
    cdef bytes content_head

    cpdef bytes content(self, bytes text, bytes logprobs=*)
