"""Memory that was needed for a while, given back to the system.

Strategy: the C library keeps what is freed, and a thread that has tokenized a long text
leaves an arena of hundreds of megabytes behind. It is asked to give that back after the
start, and now and then after large requests: in a thread, since it takes milliseconds,
in which it lets go of the interpreter.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from time import monotonic

# Bytes of a request that leaves a noticeable gap.
LARGE = 256 * 1024

# Seconds between two times that memory is given back.
_INTERVAL = 2.0


def trimmer() -> Callable[[int], int] | None:
    """The C library's malloc_trim(); None where it has none, or may not be asked."""
    try:
        trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except OSError:
        return None
    return trim


def give_back_memory() -> None:
    """Frees what nobody uses, in the C heap, too, where the C library can.

    Loading a tokenizer takes twice the memory that the tokenizer does, and the C library
    would keep the other half, in the resident set of every worker that is forked.
    """
    gc.collect()
    trim = trimmer()
    if trim is not None:
        trim(0)


class Trimming:
    """Gives memory back some time after large requests.

    Args:
        later: Calls a function, in a thread, after that many seconds.
    """

    def __init__(self, later: Callable[[float, Callable[[], object]], object]) -> None:
        self._later = later
        self._trim = trimmer()
        self._waiting = False
        self._last = 0.0

    def after(self, size: int) -> None:
        """Says that a request of that many bytes has been read.

        What it takes is given back a moment later, when it is likely to be over, and then
        no oftener than every few seconds.
        """
        if size < LARGE or self._waiting or self._trim is None:
            return
        self._waiting = True
        self._later(max(_INTERVAL / 2, self._last + _INTERVAL - monotonic()), self._give_back)

    def _give_back(self) -> None:
        self._waiting = False
        self._last = monotonic()
        assert self._trim is not None
        self._trim(0)
