# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads EmbedResponse messages, and writes their vectors as JSON, without Python floats.

Strategy: a vector stays the four-byte numbers that the engine sent. As text each gets
nine significant digits, which is what it takes to get the same 32-bit float back: half
the length of the double that Python would print, and cheap, since the digits need not be
the fewest. They come out of one multiplication; its rounding is a millionth of what
would lead to another float. Very large and very small numbers are written by Python.

The field numbers are those of proto/sglang_scheduler.proto and of proto/legacy.proto;
no two of them are alike, so a message is read as either.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport signbit
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from sglrouter._fast.protobuf cimport Field, read_field

cdef enum:
    VARINT = 0
    BYTES = 2
    FIXED32 = 5
    # "-0.0000" and nine digits; what Python writes takes no more than 23.
    LONGEST = 24

    # The sizes of numbers that are written here, in powers of ten.
    SIZES = 14

# Numbers of size i are those below _LIMITS[i] and not below the one before; times
# _SCALES[i] they have nine digits before the point.
cdef double[SIZES] _LIMITS = [
    1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
]
cdef double[SIZES] _SCALES = [
    1e13, 1e12, 1e11, 1e10, 1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0,
]


def read_embedding(bytes message not None):
    """Reads an EmbedResponse.

    Returns:
        (vector, prompt tokens, failure): the vector as little-endian 32-bit floats, maybe
        none; the failure as (words, status name or number), or None.

    Raises:
        ValueError: The message is malformed.
    """
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(message)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(message)
    cdef Field field
    cdef bytes vector = b""
    cdef uint32_t tokens = 0
    cdef object failure = None
    while at < end:
        at = read_field(at, end, &field)
        if field.number == 2 and field.kind == BYTES:
            vector, tokens = _read_older(field.start, field.stop)
            failure = None
        elif field.number == 3 and field.kind == BYTES:
            failure = _read_failure(field.start, field.stop)
        elif field.number == 5:
            vector = _with_floats(vector, &field)
        elif field.number == 6 and field.kind == VARINT:
            tokens = <uint32_t>field.value
    return vector, tokens, failure


cdef tuple _read_older(const uint8_t* at, const uint8_t* end):
    cdef Field field
    cdef bytes vector = b""
    cdef uint32_t tokens = 0
    while at < end:
        at = read_field(at, end, &field)
        if field.number == 1:
            vector = _with_floats(vector, &field)
        elif field.number == 2 and field.kind == VARINT:
            tokens = <uint32_t>field.value
    return vector, tokens


cdef tuple _read_failure(const uint8_t* at, const uint8_t* end):
    cdef Field field
    cdef str words = ""
    cdef str code = ""
    while at < end:
        at = read_field(at, end, &field)
        if field.kind == BYTES and field.number == 1:
            words = field.start[: field.stop - field.start].decode("utf-8", "replace")
        elif field.kind == BYTES and field.number == 2:
            code = field.start[: field.stop - field.start].decode("utf-8", "replace")
    return words, code


cdef bytes _with_floats(bytes vector, const Field* field):
    """Adds the floats of a field, of which nearly always one holds all."""
    cdef Py_ssize_t size = field.stop - field.start
    if field.kind != FIXED32 and (field.kind != BYTES or size % 4):
        raise ValueError("malformed engine message: a vector that is not of floats")
    return vector + field.start[:size] if vector else field.start[:size]


def is_finite(vector not None) -> bool:
    """Whether a buffer of 32-bit floats holds neither NaN nor infinity."""
    cdef Py_buffer view
    cdef const uint32_t* bits
    cdef Py_ssize_t i
    cdef bint finite = True
    _floats(vector, &view)
    bits = <const uint32_t*>view.buf
    for i in range(view.len // 4):
        # All bits of the exponent.
        if (bits[i] & 0x7F800000) == 0x7F800000:
            finite = False
            break
    PyBuffer_Release(&view)
    return finite


def json_array(vector not None) -> bytes:
    """A buffer of finite 32-bit floats as a JSON array."""
    cdef Py_buffer view
    cdef const float* numbers
    cdef Py_ssize_t i
    cdef Py_ssize_t count
    cdef char* start
    cdef char* at
    cdef bytes out
    cdef bytes other
    _floats(vector, &view)
    try:
        numbers = <const float*>view.buf
        count = view.len // 4
        out = PyBytes_FromStringAndSize(NULL, 2 + count * (LONGEST + 1))
        start = at = PyBytes_AS_STRING(out)
        at[0] = b"["
        at += 1
        for i in range(count):
            if i:
                at[0] = b","
                at += 1
            if not _write(&at, numbers[i]):
                other = repr(<double>numbers[i]).encode()
                memcpy(at, PyBytes_AS_STRING(other), PyBytes_GET_SIZE(other))
                at += PyBytes_GET_SIZE(other)
        at[0] = b"]"
        at += 1
        return out[: at - start]
    finally:
        PyBuffer_Release(&view)


cdef int _floats(object vector, Py_buffer* view) except -1:
    PyObject_GetBuffer(vector, view, PyBUF_FORMAT | PyBUF_ND)
    if view.itemsize != 4 or view.format == NULL or view.format[0] != b"f":
        PyBuffer_Release(view)
        raise ValueError("not a buffer of 32-bit floats")
    return 0


cdef bint _write(char** out, float number) noexcept:
    """Writes a number; False for one that is too large or too small for it."""
    cdef char* at = out[0]
    cdef double size = number
    cdef char[10] text
    cdef uint64_t digits
    cdef uint32_t high
    cdef uint32_t low
    cdef int power = 0
    cdef int whole
    cdef int last = 8
    cdef int i
    if size < 0:
        at[0] = b"-"
        at += 1
        size = -size
    if not 1e-5 <= size < 1e9:
        if size != 0 or signbit(number):
            return False
        memcpy(at, b"0.0", 3)
        out[0] = at + 3
        return True
    while size >= _LIMITS[power]:
        power += 1
    # No float is so close to the next power of ten that this makes ten digits.
    digits = <uint64_t>(size * _SCALES[power] + 0.5)
    # In two halves, which do not wait for each other.
    high, low = <uint32_t>(digits // 10000), <uint32_t>(digits % 10000)
    for i in range(5):
        text[4 - i] = <char>(48 + high % 10)
        high //= 10
    for i in range(4):
        text[8 - i] = <char>(48 + low % 10)
        low //= 10
    text[9] = 48
    # Digits before the point; if there are none, minus the zeros behind it.
    whole = power - 4
    while last > whole and text[last] == 48:
        last -= 1
    last = max(last, whole)
    # All nine are copied, whatever counts of them: there is room.
    if whole <= 0:
        while text[last] == 48:
            last -= 1
        memcpy(at, b"0.0000", 6)
        at += 2 - whole
        memcpy(at, text, 9)
        at += last + 1
    else:
        memcpy(at, text, 9)
        at += whole
        at[0] = b"."
        memcpy(at + 1, text + whole, 10 - whole)
        at += 2 + last - whole
    out[0] = at
    return True
