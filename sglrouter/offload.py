"""Threads for work that takes long and lets go of the interpreter meanwhile.

Strategy: gevent's own thread pool serves name look-ups and the like, and ten long
prompts would hold them up; this one is for prompts alone. It is made on first use,
which is after the fork: threads do not survive one. The threads give way to the event
loops, which have less to do and are waited for more.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from gevent.threadpool import ThreadPool

# How much less of a core a thread gets than an event loop that wants it, too.
_NICENESS = 5

# More would only take turns with the event loops of all workers.
_MOST_THREADS = 4


class Offload:
    """Runs functions in threads while other greenlets go on.

    Args:
        threads: How many at a time; others wait. 0 means one for each core, up to four.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        self._pool: ThreadPool | None = None

    def __call__(self, function: Callable[[str], bytes], text: str) -> bytes:
        """Calls the function in a thread; returns or raises what it does."""
        if self._pool is None:
            self._pool = ThreadPool(self._threads)
        result: bytes = self._pool.apply(_give_way, (function, text))
        return result


def _give_way(function: Callable[[str], bytes], text: str) -> bytes:
    if sys.platform == "linux":  # where a thread has a niceness of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    return function(text)
