# Walking through a protobuf message field by field, inside its bounds. Inline: every message
# of every stream is read with these.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


cdef struct Field:
    uint32_t number
    uint32_t kind
    uint64_t value            # VARINT
    const uint8_t* start      # BYTES, FIXED32
    const uint8_t* stop


cdef inline const uint8_t* read_varint(
    const uint8_t* at, const uint8_t* end, uint64_t* value
) except NULL:
    """Reads a number of up to 64 bits; returns where it ends."""
    cdef uint64_t result = 0
    cdef int shift = 0
    while at < end:
        result |= (<uint64_t>(at[0] & 0x7F)) << shift
        if at[0] < 0x80:
            value[0] = result
            return at + 1
        at += 1
        shift += 7
        if shift > 63:
            raise ValueError("malformed engine message: a varint of more than 64 bits")
    raise ValueError("malformed engine message: cut inside a varint")


cdef inline const uint8_t* read_field(
    const uint8_t* at, const uint8_t* end, Field* field
) except NULL:
    """Reads one field; returns where the next one starts."""
    cdef uint64_t tag
    cdef uint64_t length
    at = read_varint(at, end, &tag)
    if not 8 <= tag <= 0xFFFFFFFF:
        raise ValueError("malformed engine message: a field number out of range")
    field.number = <uint32_t>(tag >> 3)
    field.kind = <uint32_t>(tag & 7)
    if field.kind == VARINT:
        return read_varint(at, end, &field.value)
    if field.kind == BYTES:
        at = read_varint(at, end, &length)
    elif field.kind == FIXED32:
        length = 4
    elif field.kind == FIXED64:
        length = 8
    else:
        raise ValueError(f"malformed engine message: wire type {field.kind}")
    if length > <uint64_t>(end - at):
        raise ValueError("malformed engine message: cut inside a field")
    field.start = at
    field.stop = at + length
    return field.stop
