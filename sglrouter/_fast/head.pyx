# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reads the head of a plain HTTP/1.1 request.

Strategy: accept only what every parser reads the same way, and leave all else to
gunicorn's: an origin-form target, HTTP/1.1, CRLF line ends, names of letters, digits
and hyphens, values of printable ASCII, no folded lines. Nothing is repaired and
nothing is refused here, so there is nothing here to be smuggled past.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

cdef enum:
    MOST_METHOD = 20
    MOST_NAME = 64

cdef bytes VERSION = b" HTTP/1.1\r\n"


cdef inline str _ascii(const uint8_t* start, const uint8_t* stop):
    return (<const char*>start)[: stop - start].decode("ascii")


cdef tuple _header(const uint8_t* at, const uint8_t* colon, const uint8_t* end):
    """(NAME, value) of one line; None if it is not plain."""
    cdef uint8_t name[MOST_NAME]
    cdef Py_ssize_t size = colon - at
    cdef Py_ssize_t i
    cdef uint8_t byte
    if size == 0 or size > MOST_NAME:
        return None
    for i in range(size):
        byte = at[i]
        if 0x61 <= byte <= 0x7A:
            byte -= 0x20
        elif not (0x41 <= byte <= 0x5A or 0x30 <= byte <= 0x39 or byte == 0x2D):
            return None
        name[i] = byte
    at = colon + 1
    while at < end and (at[0] == 0x20 or at[0] == 0x09):
        at += 1
    while end > at and (end[-1] == 0x20 or end[-1] == 0x09):
        end -= 1
    for i in range(end - at):
        if not (0x20 <= at[i] <= 0x7E or at[i] == 0x09):
            return None
    return _ascii(name, name + size), _ascii(at, end)


def parse_head(bytes data not None, Py_ssize_t most_line, Py_ssize_t most_fields,
               Py_ssize_t most_field):
    """Reads a request head, if it is a plain one.

    Args:
        data: What has been received; may go on after the head.
        most_line: Longest request line in bytes.
        most_fields: Most header fields.
        most_field: Longest header line in bytes, with its end.

    Returns:
        (method, target, path, query, headers, size): headers as [(NAME, value), ...],
        size of the head in bytes. None if the head is not complete, not plain, or
        beyond a limit.
    """
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef const uint8_t* stop = start + PyBytes_GET_SIZE(data)
    cdef const uint8_t* at = start
    cdef const uint8_t* target
    cdef const uint8_t* question = NULL
    cdef const uint8_t* colon
    cdef const uint8_t* line
    cdef const char* version = PyBytes_AS_STRING(VERSION)
    cdef Py_ssize_t i
    cdef str method
    cdef list headers = []
    cdef tuple field

    while at < stop and 0x41 <= at[0] <= 0x5A:
        at += 1
    if not 3 <= at - start <= MOST_METHOD or at == stop or at[0] != 0x20:
        return None
    method = _ascii(start, at)
    at += 1
    target = at
    if stop - at < 2 or at[0] != 0x2F or at[1] == 0x2F or method == "CONNECT":
        return None
    while at < stop and 0x21 <= at[0] <= 0x7E:
        if at[0] == 0x23:
            return None
        if at[0] == 0x3F and question == NULL:
            question = at
        at += 1
    line = at
    for i in range(11):
        if at + i >= stop or at[i] != <uint8_t>version[i]:
            return None
    at += 11
    if at - start > most_line:
        return None
    if question == NULL:
        question = line

    while True:
        if stop - at < 2:
            return None
        if at[0] == 0x0D:
            if at[1] != 0x0A:
                return None
            break
        start = at
        colon = NULL
        while at < stop and at[0] != 0x0D and at[0] != 0x0A:
            if at[0] == 0x3A and colon == NULL:
                colon = at
            at += 1
        if stop - at < 2 or at[0] != 0x0D or at[1] != 0x0A or colon == NULL:
            return None
        field = _header(start, colon, at)
        at += 2
        if field is None or len(headers) >= most_fields or at - start > most_field:
            return None
        headers.append(field)
    return (
        method,
        _ascii(target, line),
        _ascii(target, question),
        _ascii(question + 1, line) if question < line else "",
        headers,
        at + 2 - <const uint8_t*>PyBytes_AS_STRING(data),
    )
