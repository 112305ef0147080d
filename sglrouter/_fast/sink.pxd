cdef class Sink:
    cdef bint accept(self, list messages) except -1
    cdef bint is_ready(self) noexcept
