# cython: boundscheck=False, wraparound=False, cdivision=True
"""How much there is in JSON, before any of it is made into objects.

Strategy: one pass over the bytes. Outside of strings each byte is looked at; inside,
the first few are, and then the C library looks for the quote, which is many times
faster. Nothing is checked: of what is no JSON the decoder says so.

A value in an object, a text and an opening bracket are objects of some 60 bytes and
more when they are decoded, and cost time again wherever somebody walks through them. A
number in a list, such as a token id, is a small part of that.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memchr

cdef enum:
    # Numbers in lists that count as one value.
    NUMBERS = 16

cdef enum:
    # Brackets of which it is remembered what they are: deeper ones are refused anyway.
    KNOWN = 1024
    # Bytes of a string that are looked at one by one: about what a call of memchr costs.
    NEAR = 16


cdef const uint8_t* _after_string(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Where a string ends, past its closing quote; `at` is behind its opening one."""
    cdef const uint8_t* near
    cdef const uint8_t* quote
    cdef const uint8_t* before
    while True:
        near = at + NEAR if end - at > NEAR else end
        while at < near:
            if at[0] == c'"':
                return at + 1
            at += 2 if at[0] == c"\\" else 1
        if at >= end:
            return end
        quote = <const uint8_t*>memchr(at, c'"', end - at)
        if quote == NULL:
            return end
        before = quote
        while before > at and (before - 1)[0] == c"\\":
            before -= 1
        if (quote - before) % 2 == 0:
            return quote + 1
        at = quote + 1


def json_shape(bytes text not None):
    """Counts the values in a JSON text, and how deep they are.

    Args:
        text: The text in UTF-8.

    Returns:
        (values, most objects and arrays inside each other). The first is the number of
        commas and opening brackets, in which 16 numbers in lists are one value.
    """
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(text)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(text)
    cdef Py_ssize_t values = 0
    cdef Py_ssize_t numbers = 0
    cdef Py_ssize_t level = 0
    cdef Py_ssize_t deepest = 0
    cdef bint[KNOWN] in_array
    cdef bint number = False
    cdef uint8_t byte
    in_array[0] = False
    with nogil:
        while at < end:
            byte = at[0]
            at += 1
            if byte == c'"':
                at = _after_string(at, end)
                number = False
            elif byte == c",":
                if number and level < KNOWN and in_array[level]:
                    numbers += 1
                else:
                    values += 1
                number = False
            elif byte == c"[" or byte == c"{":
                values += 1
                level += 1
                if level < KNOWN:
                    in_array[level] = byte == c"["
                deepest = max(deepest, level)
                number = False
            elif byte == c"]" or byte == c"}":
                if level:
                    level -= 1
                number = False
            elif byte > c" ":
                number = True
    return values + (numbers + NUMBERS - 1) // NUMBERS, deepest
