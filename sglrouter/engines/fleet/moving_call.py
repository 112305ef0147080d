"""A call that moves to the next engine for as long as none has looked at it.

Strategy: an engine that cannot be reached, or says that it has not looked at a request,
has done nothing with it, and another may have it. Whatever else goes wrong may be the
request's doing: it stays with its engine, since it could kill the next one, too. Each
engine is tried once. To move may mean to connect, which takes time: that is done aside, by
nobody who is told of news. The call's owner sees one call that has not ended yet.
"""

from __future__ import annotations

import _thread
import logging
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Generic, Protocol, TypeVar

from sglrouter._fast.sink import Sink
from sglrouter.engines.channel.channel import Bell, Call, Channel, Metadata, Status

logger = logging.getLogger(__name__)

_CANCELLED = Status("CANCELLED", "cancelled here")
# How a call ends that says nothing against its engine.
_NO_FAULT = frozenset(
    ("OK", "CANCELLED", "INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND", "DEADLINE_EXCEEDED")
)


class Destination(Protocol):
    """Where a call may go: an engine."""

    @property
    def channel(self) -> Channel:
        """The connection."""

    def note_end(self, *, fault: bool) -> None:
        """Hears how a call has ended."""


D = TypeVar("D", bound=Destination)


class MovingCall(Generic[D]):
    """A Call at the first of several engines that looks at it.

    Args:
        engines: Where it may go, in this order.
        on_move: Called with each engine but the first when it gets the call.
        method: See Channel.stream().
        request: The same.
        timeout: The same, for all attempts together.
        arrived: The same.
        metadata: The same.

    Attributes:
        engine: Where it is.
    """

    def __init__(
        self,
        engines: Sequence[D],
        on_move: Callable[[D], None],
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> None:
        self._left = deque(engines)
        self._on_move = on_move
        self.engine = engines[0]
        self._method = method
        self._request = request
        self._deadline = monotonic() + timeout
        self._arrived = arrived
        self._metadata = metadata
        self._lock = Lock()
        self._call: Call | None = None
        self._moving = True
        self._cancelled = False
        self._ended = False
        # How it ended, if no engine's call could say so.
        self._failure: Status | None = None
        self._sink: Sink | None = None
        self._listener: Callable[[], None] | None = None
        self._go_on()

    def take(self) -> list[bytes]:
        """Returns the messages that have arrived since the last take."""
        call = self._call
        return [] if call is None else call.take()

    @property
    def status(self) -> Status | None:
        """How the call ended, once no other engine may have it."""
        if self._failure is not None:
            return self._failure
        if self._moving or self._call is None:
            return _CANCELLED if self._cancelled else None
        status = self._call.status
        return None if status is not None and self._may_move(status) else status

    @property
    def holds_back(self) -> bool:
        """Whether nothing more may come before the next take()."""
        return self._call is not None and self._call.holds_back

    def listen(self, on_news: Callable[[], None] | None) -> bool:
        """Has `on_news` called instead of setting the event."""
        self._listener = on_news
        call = self._call
        heard = call is not None and call.listen(None if on_news is None else self.set)
        if not heard:
            self._listener = None
        return heard

    def divert(self, sink: Sink) -> None:
        """Has `sink` take messages as they arrive."""
        self._sink = sink
        if self._call is not None:
            self._call.divert(sink)

    def cancel(self) -> None:
        """Tells the engine to stop."""
        # Who cancels knows: nobody is told.
        self._listener = None
        with self._lock:
            self._cancelled = True
            call = self._call
        if call is not None:
            call.cancel()

    def set(self) -> None:
        """The engine's call has news; it takes this for the event to set."""
        status = None
        with self._lock:
            if self._moving or self._call is None:
                return
            status = self._call.status
            moves = self._moving = status is not None and self._may_move(status)
        if status is not None:
            self._note_end(status, moves=moves)
        if moves:
            # From wherever this is called, nobody must wait; a Thread's start() would.
            _thread.start_new_thread(self._go_on_safely, ())
        else:
            self._tell()

    def _tell(self) -> None:
        listener = self._listener
        if listener is not None:
            listener()
        else:
            self._arrived.set()

    def _note_end(self, status: Status, *, moves: bool) -> None:
        if not self._ended:
            self._ended = not moves
            self.engine.note_end(fault=status.code not in _NO_FAULT)

    def _may_move(self, status: Status) -> bool:
        return (
            status.unseen
            and bool(self._left)
            and not self._cancelled
            and monotonic() < self._deadline
        )

    def _go_on(self) -> None:
        """Makes the call at the next engine, and so on while it comes to nothing at once."""
        while True:
            engine = self._left.popleft()
            if engine is not self.engine:
                self._on_move(engine)
            call = engine.channel.stream(
                self._method,
                self._request,
                timeout=max(self._deadline - monotonic(), 0.0),
                arrived=self,
                metadata=self._metadata,
            )
            with self._lock:
                self.engine, self._call = engine, call
                cancelled = self._cancelled
            if cancelled:
                call.cancel()
            status = call.status
            if status is None or not self._may_move(status):
                break
            self._note_end(status, moves=True)
        if self._sink is not None:
            call.divert(self._sink)
        if self._listener is not None:
            call.listen(self.set)
        self._moving = False
        # What has come of it meanwhile was told to nobody.
        self.set()

    def _go_on_safely(self) -> None:
        try:
            self._go_on()
        except Exception as exc:
            logger.exception("a call could not be made at another engine")
            self._failure = Status("INTERNAL", f"internal error: {exc}")
            self._tell()
