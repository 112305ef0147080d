from cython cimport final
from libc.stdint cimport uint8_t

from sglrouter._fast.buffer cimport Buffer


@final
cdef class Answer:
    cdef Buffer content
    cdef Buffer reasoning
    cdef Buffer space            # white space that may be nobody's
    cdef bint holding_space      # whether that before the next content may be

    cdef object new_id
    cdef object accepts
    cdef list deltas
    cdef Buffer arguments        # of the open call, not in `deltas` yet
    cdef Buffer early            # arguments that came before the name
    cdef Buffer held             # arguments that are not certain yet
    cdef bint holding            # whether what comes now is held
    cdef Py_ssize_t open_call    # its number; -1 if there is none
    cdef bint in_call
    cdef bint dropping           # the open call is not passed on
    cdef bint argued             # the open call has arguments
    cdef bint skipping           # what is read now is no argument of any call
    cdef Py_ssize_t called
    cdef Py_ssize_t completed

    cdef int pass_content(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef void hold_space(self) noexcept

    cdef int begin_call(self, str name) except -1
    cdef int argue(self, const uint8_t* json, Py_ssize_t size) except -1
    cdef int argue_bytes(self, bytes json) except -1
    cdef int escape(self, const uint8_t* text, Py_ssize_t size) except -1
    cdef int release_held(self) except -1
    cdef void cut_held(self, Py_ssize_t size) noexcept
    cdef void drop_held(self) noexcept
    cdef int leave_call(self) except -1
    cdef int end_call(self) except -1
    cdef void forget_early(self) noexcept

    cdef int finish(self) except -1
    cdef tuple take(self)
    cdef int _flush_arguments(self) except -1
