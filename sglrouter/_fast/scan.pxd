from libc.stdint cimport uint32_t


cdef class StopMatcher:
    cdef tuple stops
    cdef bint keep
    cdef bytes held
    cdef uint32_t* failures     # the automata, one after another
    cdef uint32_t* bases        # where each begins in `failures`
    cdef uint32_t* states
    cdef readonly bytes matched

    cpdef bytes feed(self, bytes text)
