"""A JSON array that is written while its elements come.

Strategy: an element becomes text at once, so that what it was made of need not be kept:
a million small objects take ten times as much memory, and the garbage collector would
look through all of them time and again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sglrouter._fast.sse import escape_line_ends

_encode = msgspec.json.Encoder().encode


class JsonArray:
    """A JSON array that grows.

    Attributes:
        size: How many elements it has.
    """

    def __init__(self) -> None:
        self.size = 0
        self._elements = bytearray()

    def extend(self, values: Sequence[object]) -> None:
        """Adds elements."""
        if values:
            if self.size:
                self._elements += b","
            self._elements += escape_line_ends(_encode(values))[1:-1]
            self.size += len(values)

    def json(self) -> msgspec.Raw:
        """All of it."""
        return msgspec.Raw(b"[" + self._elements + b"]")
