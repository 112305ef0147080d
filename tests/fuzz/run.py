"""What the fuzz targets share: the reader of an input, and the way to run a target.

Strategy: an input is a script. Each target draws numbers and bytes from it by way of
Script; an input that has run out yields zeros and nothing, so every input means something,
and a mutation of one byte changes one choice. Only fuzz() needs atheris.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# A target: takes one input, raises if something is wrong, and counts what it has reached.
Target = Callable[[bytes], Counter[str]]


class Script:
    """Draws choices from an input."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        """The next bytes; fewer than asked for at the end."""
        found = self._data[self._at : self._at + size]
        self._at += len(found)
        return found

    def number(self, size: int = 1) -> int:
        """A number of so many bytes."""
        return int.from_bytes(self.take(size), "big")

    def length(self, most: int) -> int:
        """A size up to `most`: mostly a small one."""
        first = self.number()
        return first % (most + 1) if first < 192 else self.number(2) % (most + 1)

    def choice(self, options: Sequence[T]) -> T:
        """One of some options."""
        return options[self.number() % len(options)]

    def blob(self) -> bytes:
        """A few bytes, with their size before them."""
        return self.take(self.number() % 64)


def fuzz(target: Target) -> None:
    """Runs a target under atheris, with the options of libFuzzer from the command line."""
    try:
        import atheris
    except ImportError:
        sys.stderr.write("atheris is not installed: see docs/development.md\n")
        raise SystemExit(2) from None

    def one_input(data: bytes) -> None:
        target(data)

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
