"""Memory that was needed to start, given back to the system."""

from __future__ import annotations

import ctypes
import gc


def give_back_memory() -> None:
    """Frees what nobody uses, in the C heap, too, where the C library can.

    Loading a tokenizer takes twice the memory that the tokenizer does, and the C library
    would keep the other half, in the resident set of every worker that is forked.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
