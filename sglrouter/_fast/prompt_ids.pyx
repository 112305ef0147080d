# cython: boundscheck=False, wraparound=False, cdivision=True
"""A prompt's token ids: looked through, and written into a request.

The ids come as a buffer of 32-bit integers and go out as varints, without a Python
integer for any of them.

The field numbers are those of proto/sglang_scheduler.proto.
"""

from array import array

from cpython.buffer cimport (
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBuffer_Release,
    PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from sglrouter._fast.protobuf cimport BYTES


cdef inline uint8_t* _put_varint(uint8_t* out, uint64_t value) noexcept:
    while value >= 0x80:
        out[0] = <uint8_t>(value | 0x80)
        out += 1
        value >>= 7
    out[0] = <uint8_t>value
    return out + 1


cdef inline int _varint_size(uint64_t value) noexcept:
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef object _as_buffer(ids):
    """Ids as something with a buffer: what has one already, else an array of them."""
    return ids if PyObject_CheckBuffer(ids) else array("I", ids)


cdef Py_ssize_t _count_ids(const Py_buffer* view) except -1:
    if view.itemsize != 1 and view.itemsize != 4:
        raise ValueError(f"ids must be 32 bits wide, not {8 * view.itemsize}")
    if view.len % 4:
        raise ValueError(f"ids of 32 bits cannot fill {view.len} bytes")
    return view.len // 4


cdef inline uint32_t _id_at(const uint8_t* ids, Py_ssize_t i) noexcept:
    # Nobody promises that the buffer is aligned.
    cdef uint32_t token
    memcpy(&token, ids + 4 * i, 4)
    return token


def largest_id(ids not None):
    """Returns the largest of a prompt's ids, as tokenized_input takes them; -1 for none."""
    cdef object buffer = _as_buffer(ids)
    cdef Py_buffer view
    cdef uint32_t largest = 0
    cdef Py_ssize_t count, i
    PyObject_GetBuffer(buffer, &view, PyBUF_FORMAT | PyBUF_ND)
    try:
        count = _count_ids(&view)
        for i in range(count):
            largest = max(largest, _id_at(<const uint8_t*>view.buf, i))
    finally:
        PyBuffer_Release(&view)
    return largest if count else -1


def tokenized_input(bytes text not None, ids not None):
    """Serializes field 2 of a GenerateRequest, its TokenizedInput.

    Args:
        text: The prompt in UTF-8.
        ids: The prompt's token ids: a buffer of uint32 in the machine's byte order, or
            a sequence of integers.

    Raises:
        ValueError: The buffer does not hold values of 32 bits.
        OverflowError: An integer does not fit into 32 bits.
    """
    cdef object buffer = _as_buffer(ids)
    cdef Py_buffer view
    cdef const uint8_t* source
    cdef Py_ssize_t text_size = PyBytes_GET_SIZE(text)
    cdef Py_ssize_t ids_size = 0
    cdef Py_ssize_t inner = 0
    cdef Py_ssize_t count, i
    cdef bytes message
    cdef uint8_t* at
    PyObject_GetBuffer(buffer, &view, PyBUF_FORMAT | PyBUF_ND)
    try:
        count = _count_ids(&view)
        source = <const uint8_t*>view.buf
        for i in range(count):
            ids_size += _varint_size(_id_at(source, i))
        if text_size:
            inner += 1 + _varint_size(text_size) + text_size
        if count:
            inner += 1 + _varint_size(ids_size) + ids_size
        message = PyBytes_FromStringAndSize(NULL, 1 + _varint_size(inner) + inner)
        at = <uint8_t*>PyBytes_AS_STRING(message)
        at[0] = (2 << 3) | BYTES
        at = _put_varint(at + 1, inner)
        if text_size:
            at[0] = (1 << 3) | BYTES
            at = _put_varint(at + 1, text_size)
            memcpy(at, PyBytes_AS_STRING(text), text_size)
            at += text_size
        if count:
            at[0] = (2 << 3) | BYTES
            at = _put_varint(at + 1, ids_size)
            for i in range(count):
                at = _put_varint(at, _id_at(source, i))
    finally:
        PyBuffer_Release(&view)
    return message
