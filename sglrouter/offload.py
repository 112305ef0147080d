"""Threads for work that takes long and lets go of the interpreter meanwhile.

Strategy: gevent's own thread pool serves name look-ups and the like, and ten long
prompts would hold them up; this one is for prompts alone. It is made on first use,
which is after the fork: threads do not survive one. The threads give way to the event
loops, which have less to do and are waited for more.

A tokenizer keeps what it has worked with for each thread, which is tens of megabytes after
a long text. So threads that have had one end, and others begin.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable

import gevent
from gevent.threadpool import ThreadPool

from sglrouter.waiting import about_to_wait

logger = logging.getLogger(__name__)

# How much less of a core a thread gets than an event loop that wants it, too.
_NICER = 5
# There is nothing nicer.
_NICEST = 19

# More would only take turns with the event loops of all workers.
_MOST_THREADS = 4

# Characters of a text whose thread ends after it. It takes longer than new threads do.
_LONG = 200_000


class Offload:
    """Runs functions in threads while other greenlets go on.

    Args:
        threads: How many at a time; others wait. 0 means one for each core, up to four.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        self._pool: ThreadPool | None = None
        self._yielding = threading.local()

    def __call__(self, function: Callable[[str], bytes], text: str) -> bytes:
        """Calls the function in a thread; returns or raises what it does."""
        about_to_wait()
        if self._pool is None:
            self._pool = ThreadPool(self._threads)
        pool: ThreadPool = self._pool
        try:
            result: bytes = pool.apply(self._give_way, (function, text))
            return result
        finally:
            if len(text) > _LONG and self._pool is pool:
                self._pool = None
                # What the threads have still to do is done before.
                gevent.spawn(pool.kill)

    def _give_way(self, function: Callable[[str], bytes], text: str) -> bytes:
        if not hasattr(self._yielding, "done"):
            self._yielding.done = True
            _be_nicer()
        return function(text)


def _be_nicer() -> None:
    """Makes this thread nicer than the process, where it may.

    Nothing fails where it may not: some sandboxes forbid the call altogether.
    """
    if sys.platform != "linux":  # elsewhere a thread has no niceness of its own
        return
    thread = threading.get_native_id()
    try:
        now = os.getpriority(os.PRIO_PROCESS, os.getpid())
        os.setpriority(os.PRIO_PROCESS, thread, min(now + _NICER, _NICEST))
    except OSError as exc:
        logger.warning("tokenizer: its threads do not give way to others: %s", exc)


def in_a_thread(seconds: float, function: Callable[[], object]) -> None:
    """Calls a function later, in gevent's own pool of threads."""
    gevent.spawn_later(seconds, lambda: gevent.get_hub().threadpool.apply(function))
