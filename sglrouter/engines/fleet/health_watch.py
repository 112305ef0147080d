"""Asks engines all the time whether they serve, so that no request has to find out.

Strategy: a thread for each engine (in a worker: a greenlet), since one that hangs must not
hold up the others' turn. A question costs an engine next to nothing: its health service
answers from memory. Threads begin on first use, so that each process has its own, and where
nobody calls for a while they end, until somebody does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from threading import Event, Lock, Thread
from time import monotonic
from typing import Protocol

# Seconds between two questions; an engine that hangs is known after these and the question's
# own deadline.
INTERVAL = 1.0
# Seconds without a call after which a program that is no server stops asking.
IDLE = 30.0
_LONGEST_WAIT = 5.0


class Watched(Protocol):
    """An engine."""

    def look(self) -> None:
        """Asks it, and keeps in mind what it says."""

    def forget_health(self) -> None:
        """Nothing is known any more."""


class HealthWatch:
    """Asks each engine about every second.

    Args:
        engines: The engines.
    """

    def __init__(self, engines: Sequence[Watched]) -> None:
        self._engines = engines
        self._lock = Lock()
        self._threads: dict[int, Thread] = {}
        self._stop = Event()
        self._for_good = False
        self._used_at = 0.0

    def keep_on(self) -> None:
        """Asks from now on until close()."""
        self._for_good = True
        self.note_use()

    def note_use(self) -> None:
        """Says that somebody calls: it begins to ask, if it does not already."""
        self._used_at = monotonic()
        if len(self._threads) < len(self._engines):
            self._start()

    def close(self) -> None:
        """Ends it; questions under way are for the caller to end."""
        self._stop.set()

    def join(self) -> None:
        """Waits for the end of the threads."""
        for thread in list(self._threads.values()):
            thread.join(_LONGEST_WAIT)

    def _start(self) -> None:
        with self._lock:
            for number, engine in enumerate(self._engines):
                if number not in self._threads and not self._stop.is_set():
                    thread = self._threads[number] = Thread(
                        target=self._watch,
                        args=(number, engine),
                        name="engine-health",
                        daemon=True,
                    )
                    thread.start()

    def _watch(self, number: int, engine: Watched) -> None:
        while self._goes_on(number, engine):
            engine.look()
            # Workers and routers do not ask in step.
            self._stop.wait(INTERVAL * random.uniform(0.8, 1.2))  # noqa: S311

    def _goes_on(self, number: int, engine: Watched) -> bool:
        with self._lock:
            wanted = self._for_good or monotonic() < self._used_at + IDLE
            if self._stop.is_set() or not wanted:
                engine.forget_health()
                del self._threads[number]
                return False
            return True
