# Numbers as JSON writes them, for whoever reads values.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t


cdef inline bint is_number(bytes word) noexcept:
    """Whether JSON has this number."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(word)
    cdef const uint8_t* end = at + PyBytes_GET_SIZE(word)
    if at < end and at[0] == 0x2D:
        at += 1
    if at == end:
        return False
    if at[0] == 0x30:
        at += 1
    elif 0x31 <= at[0] <= 0x39:
        while at < end and 0x30 <= at[0] <= 0x39:
            at += 1
    else:
        return False
    if at < end and at[0] == 0x2E:
        at += 1
        if at == end or not 0x30 <= at[0] <= 0x39:
            return False
        while at < end and 0x30 <= at[0] <= 0x39:
            at += 1
    if at < end and (at[0] | 0x20) == 0x65:
        at += 1
        if at < end and (at[0] == 0x2B or at[0] == 0x2D):
            at += 1
        if at == end or not 0x30 <= at[0] <= 0x39:
            return False
        while at < end and 0x30 <= at[0] <= 0x39:
            at += 1
    return at == end
