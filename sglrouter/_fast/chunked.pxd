cdef double monotonic() noexcept


cdef class BodyWriter:
    cdef int fd
    cdef bint chunked
    cdef readonly Py_ssize_t written
    cdef readonly double written_at
    cdef readonly bytes kept

    cpdef bint write(self, bytes body, bint last=*, bytes head=*) except -1
    cpdef bint flush(self) except -1
