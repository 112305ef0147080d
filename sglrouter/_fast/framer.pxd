cdef class Framer:
    cpdef bytes content(self, bytes text, bytes logprobs=*)
    cpdef bytes reasoning(self, bytes text, bytes logprobs=*)
    cpdef bytes call(self, tuple delta, bytes logprobs=*)
    cpdef bytes finish(self, str reason, object matched_stop=*)
    cpdef bytes delta(self, bytes content, bytes reasoning, list calls, bytes logprobs=*)
