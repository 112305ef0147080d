cdef class Sink:
    cdef bint accept(self, list messages) except -1
