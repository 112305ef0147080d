"""Where a client's work is done: in any thread, or on the event loop of one.

In a process that gevent has patched, the connections belong to the hub of one thread:
the first to use the client, nearly always the only one. Other threads of the system
can have something done there but cannot wait for it like its greenlets.

Connections do not survive a fork, either. They are made on first use, and a process that
was forked after it is told, rather than left to read its parent's answers.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol

import gevent
from gevent.monkey import get_original, is_module_patched

from sglrouter.errors import ConfigError

_STRANGER = (
    "this client works on the gevent loop of another thread: call it there, or make a client "
    "in a process of its own. Only cancel() may be called from every thread"
)
_FORKED = "this client was used before the process was forked: make a new one in each process"

_TOO_LATE = "gevent.monkey.patch_all() has to be called before sglrouter is imported"

# As every module of ours has it that was imported with this one.
_Lock = threading.Lock


class Home(Protocol):
    """Where the work is done."""

    def enter(self) -> None:
        """Makes this the home if there is none yet.

        Raises:
            RuntimeError: It is elsewhere.
        """

    def call(self, function: Callable[[], object]) -> None:
        """Has a function called there that does not block; may be called from every thread."""

    def later(self, function: Callable[[], object]) -> None:
        """The same, but never within what the caller is just doing, such as a collection."""

    def pause(self) -> None:
        """Lets others work."""


class AnyThread:
    """Ordinary threads: everywhere is home."""

    def __init__(self) -> None:
        self._pid = 0

    def enter(self) -> None:
        """See Home."""
        self._pid = _same_process(self._pid)

    def call(self, function: Callable[[], object]) -> None:
        """See Home."""
        function()

    def later(self, function: Callable[[], object]) -> None:
        """See Home."""
        with contextlib.suppress(RuntimeError):  # the interpreter is on its way out
            _thread.start_new_thread(function, ())

    def pause(self) -> None:
        """See Home; the interpreter sees to it."""


class OneHub:
    """The greenlets of one thread."""

    def __init__(self) -> None:
        self._pid = 0
        self._thread = 0
        self._hub: Any = None
        self._thread_now: Callable[[], int] = get_original("_thread", "get_ident")

    def enter(self) -> None:
        """See Home."""
        self._pid = _same_process(self._pid)
        thread = self._thread_now()
        if self._hub is None:
            self._thread, self._hub = thread, gevent.get_hub()
        elif thread != self._thread:
            raise RuntimeError(_STRANGER)

    def call(self, function: Callable[[], object]) -> None:
        """See Home."""
        if self._thread_now() == self._thread and gevent.getcurrent() is not self._hub:
            function()
        else:
            self.later(function)

    def later(self, function: Callable[[], object]) -> None:
        """See Home."""
        if self._hub is not None and self._hub.loop is not None:
            self._hub.loop.run_callback_threadsafe(gevent.spawn, function)

    def pause(self) -> None:
        """See Home."""
        # sleep(0) would let other greenlets run, but not look for what has arrived for them.
        gevent.sleep(0.001)


def home() -> Home:
    """The home of a client that is made now.

    Raises:
        ConfigError: gevent has patched the process too late: locks would stop its loop.
    """
    if not is_module_patched("threading"):
        return AnyThread()
    if threading.Lock is not _Lock:
        raise ConfigError(_TOO_LATE)
    return OneHub()


def _same_process(before: int) -> int:
    now = os.getpid()
    if before not in (0, now):
        raise RuntimeError(_FORKED)
    return now
