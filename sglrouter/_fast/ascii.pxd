# Kinds of bytes, for whoever reads text byte by byte.

from libc.stdint cimport uint8_t


cdef inline bint is_space(uint8_t byte) noexcept:
    """Whether it is white space as JSON has it."""
    return byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09


cdef inline int hex_value(uint8_t byte) noexcept:
    """What a hexadecimal digit stands for; -1 for any other byte."""
    if 0x30 <= byte <= 0x39:
        return byte - 0x30
    byte |= 0x20
    return byte - 0x57 if 0x61 <= byte <= 0x66 else -1
