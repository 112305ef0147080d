"""The calls of one request at its engine: their deadlines, their abort, and their one end.

Strategy: an exchange has one call for each message of its job. The calls of samples run all
at once and tell as they go: an engine is asked for one sample a call, since it runs several
of one call one after another when it does not stream, and does not say which is which. Short
calls, which are answered by one message each, run so many at a time; what they make an engine
do is over soon, so one that is given up is cancelled and nothing else.

However a request ends, it is over once: its placement is released then, and whoever counts,
measures or judges requests hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from threading import Event
from time import monotonic
from typing import NamedTuple, Protocol

from sglrouter._fast.sink import TextSink
from sglrouter.engines.channel.channel import Bell, Call, Metadata, Status, sendable
from sglrouter.engines.fleet.placement import Job
from sglrouter.errors import (
    Aborted,
    ClientGone,
    EngineError,
    EngineTimeout,
    RouterError,
    from_grpc_status,
)
from sglrouter.turns import Pause, no_pause, taking_turns

# How many short calls of one request an engine has at a time.
PARALLEL = 32

News = list[tuple[int, list[bytes]]]


class Deadlines(NamedTuple):
    """How long things may take, in seconds.

    Attributes:
        total: Each call of a sample, or all short calls together.
        first: Until a call's first message; a refusal may never be answered.
        idle: Silence after it.
    """

    total: float
    first: float
    idle: float


class Placed(Protocol):
    """Where a job has been placed; see Placement."""

    def stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> Call:
        """Starts a call; see Channel.stream()."""

    def abort(self, call: Call, name: str) -> None:
        """Tells the engine of a call that has been cancelled to stop; never waits."""

    def release(self, *, unreachable: bool = False) -> None:
        """Hears that the request is over."""


class End(Enum):
    """How an exchange is over."""

    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Exchange:
    """The calls of one request.

    Args:
        placement: Where the calls are made; it is released when the exchange is over.
        job: What calls.
        deadlines: How long they may take.
        parallel: How many short calls run at a time; None for calls of samples.

    Attributes:
        arrived: Set whenever there is something new.
        end: How it is over; None while it is not.
        failure: The code of the error that it failed of; empty for none.
    """

    def __init__(
        self, placement: Placed, job: Job, deadlines: Deadlines, *, parallel: int | None = None
    ) -> None:
        self._placement = placement
        self._job = job
        self._deadlines = deadlines
        self._parallel = parallel
        self._metadata = sendable(job.metadata)
        self.arrived = Event()
        self.end: End | None = None
        # Not the error: what it was raised through would keep all of this alive.
        self.failure = ""
        self._running: dict[int, Call] = {}
        self._heard: dict[int, float] = {}
        self._begun: set[int] = set()
        self._aborted: set[int] = set()
        self._sinks: dict[int, TextSink] = {}
        self._reason: RouterError | None = None
        self._nudged = False
        self._on_news: Callable[[], None] | None = None
        self._listeners: list[Callable[[Exchange], None]] = []

    def on_over(self, listener: Callable[[Exchange], None]) -> None:
        """Has `listener` called once, when the last call is complete or cancelled."""
        if self.end is None:
            self._listeners.append(listener)
        else:
            listener(self)

    def begin(self, pause: Pause = no_pause) -> None:
        """Starts the call of each sample. Somebody must see them to their end from here on.

        Args:
            pause: Called now and then where there are many, to let others go on.
        """
        job, running, heard = self._job, self._running, self._heard
        stream, total = self._placement.stream, self._deadlines.total
        try:
            for index, request in enumerate(taking_turns(job.requests, pause)):
                running[index] = stream(
                    job.method,
                    request,
                    timeout=total,
                    arrived=self.arrived,
                    metadata=self._metadata,
                )
                heard[index] = monotonic()
        except BaseException:
            self.cancel()
            raise

    def answers(self) -> Generator[tuple[int, bytes]]:
        """Makes short calls; yields (index, answer) as they come. To be used once.

        Whatever ends it, no call goes on.

        Raises:
            RouterError: A call failed or missed a deadline, or it was ended early.
        """
        deadline = monotonic() + self._deadlines.total
        begun, count, parallel = 0, len(self._job.requests), self._parallel or 1
        try:
            while begun < count or self._running:
                while begun < count and len(self._running) < parallel:
                    self._begin_short(begun, deadline)
                    begun += 1
                self.arrived.clear()
                messages = self._take_short()
                if messages:
                    yield from messages
                else:
                    # Every call has a deadline of its own, which wakes us.
                    self.arrived.wait()
            if self._reason is not None:
                raise self._reason
            self._finish(End.COMPLETE)
        except RouterError as failure:
            self.fail(failure)
            raise
        finally:
            self.cancel()

    @property
    def running(self) -> bool:
        """Whether any sample is still to be completed."""
        return bool(self._running)

    def is_running(self, index: int) -> bool:
        """Whether one sample is still to be completed."""
        return index in self._running

    @property
    def silent(self) -> bool:
        """Whether nothing more of a running sample may be told before the next take().

        Its call has ended, or so much was taken that the engine waits.
        """
        return any(call.holds_back or call.status is not None for call in self._running.values())

    def wait(self, timeout: float | None = None) -> News:
        """Waits until something arrives and takes all that has.

        Args:
            timeout: Longest wait in seconds; None for as long as the deadlines allow.

        Returns:
            (sample index, messages) for each sample with news; nothing if the wait
            was over first.

        Raises:
            RouterError: A call failed, ended too early, or missed a deadline, or the
                client is gone, or it was ended early. What had arrived before is returned first.
        """
        limit = None if timeout is None else monotonic() + timeout
        while True:
            self.arrived.clear()
            news = self.take()
            if news or self._nudged:
                self._nudged = False
                return news
            left = self.time_left()
            if limit is not None:
                remaining = limit - monotonic()
                if remaining <= 0:
                    return []
                left = min(left, remaining)
            self.arrived.wait(left)

    def take(self) -> News:
        """Takes what has arrived, without waiting; see wait()."""
        if self._reason is not None:
            raise self._reason
        news = []
        failed: Status | None = None
        for index, call in self._running.items():
            # The status first: what is taken after it is then all there is.
            status = call.status
            messages = call.take()
            if messages or index in self._aborted:
                self._heard[index] = monotonic()
                self._begun.add(index)
                news.append((index, messages))
            elif status is not None and failed is None:
                failed = status
        if failed is not None and not news:
            if failed.ok:
                raise self._failed(
                    EngineError("The engine ended the stream before the answer was complete")
                )
            raise self._failed(from_grpc_status(failed.code, failed.message))
        return news

    def time_left(self) -> float:
        """Seconds until the next deadline.

        Raises:
            EngineTimeout: One is over.
        """
        now, (_, first, idle) = monotonic(), self._deadlines
        least = first
        for index in self._running:
            heard = self._heard[index]
            if index in self._sinks and self._sinks[index].heard_at > heard:
                heard = self._sinks[index].heard_at
                self._begun.add(index)
            begun = index in self._begun
            allowed = idle if begun else first
            left = heard + allowed - now
            if left <= 0:
                what = "went silent" if begun else "did not answer"
                raise self._failed(EngineTimeout(f"The engine {what} for {allowed:g} seconds"))
            least = min(least, left)
        return least

    def listen(self, on_news: Callable[[], None] | None) -> bool:
        """Has `on_news` called from the event loop when there is news; None ends that.

        Whoever aborts calls it, too.

        Returns:
            False if the channel cannot; then wait() is the only way.
        """
        heard = [call.listen(on_news) for call in self._running.values()]
        self._on_news = on_news if all(heard) else None
        return self._on_news is not None

    def divert(self, index: int, sink: TextSink) -> None:
        """Has `sink` take a sample's messages as they arrive; what it leaves is news."""
        self._sinks[index] = sink
        self._running[index].divert(sink)

    def end_early(self, reason: RouterError) -> None:
        """Ends waits with the reason; where nobody is left to wait, the calls as well."""
        self._reason = reason
        if self._parallel is not None or isinstance(reason, ClientGone):
            self.cancel()
        self._interrupt(reason)

    def interrupt(self) -> None:
        """Ends the wait of another thread, for which the client is gone: it has to cancel."""
        self._interrupt(ClientGone())

    def nudge(self) -> None:
        """Ends the wait that goes on, if one does, as if its time were over."""
        self._nudged = True
        self.arrived.set()

    def abort(self, index: int | None = None) -> None:
        """Stops a sample, or all, for somebody who does not wait for them.

        Whoever does gets each as news once more, with what had arrived, and completes it.
        Of short calls there is no part to be had: who waits for them gets Aborted.
        """
        if self._parallel is not None:
            self.end_early(Aborted())
            return
        stopped = [
            (i, call)
            for i, call in self._running.items()
            if index in (None, i) and i not in self._aborted
        ]
        for i, call in stopped:
            self._aborted.add(i)
            self._stop(i, call)
        if stopped:
            self.arrived.set()
            if self._on_news is not None:
                self._on_news()

    def is_aborted(self, index: int) -> bool:
        """Whether abort() has stopped a sample."""
        return index in self._aborted

    def complete(self, index: int, *, engine_goes_on: bool = False) -> None:
        """Says that a sample is complete, and tells an engine that goes on to stop."""
        call = self._running.pop(index)
        if engine_goes_on and index not in self._aborted:
            self._stop(index, call)
        if not self._running:
            self._finish(End.COMPLETE)

    def fail(self, failure: RouterError) -> None:
        """Stops every call that still runs, because of a failure."""
        self._failed(failure)
        self.cancel()

    def cancel(self) -> None:
        """Stops every call that still runs."""
        # They know who knows us.
        self._sinks.clear()
        if self.end is None:
            for index, call in list(self._running.items()):
                self._stop(index, call)
            self._running.clear()
            self._finish(End.FAILED if self.failure else End.CANCELLED)

    def _failed(self, failure: RouterError) -> RouterError:
        if not isinstance(failure, ClientGone | Aborted):
            self.failure = self.failure or failure.code or "error"
        return failure

    def _finish(self, end: End) -> None:
        if self.end is None:
            self.end = end
            self._placement.release(unreachable=self.failure == "engine_unavailable")
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                listener(self)

    def _interrupt(self, reason: RouterError) -> None:
        # In this order: whoever waits looks after it has cleared the event.
        self._reason = reason
        self.arrived.set()

    def _stop(self, index: int, call: Call) -> None:
        running = call.status is None
        call.cancel()
        names = self._job.names
        if running and names:
            self._placement.abort(call, names[index])

    def _begin_short(self, index: int, deadline: float) -> None:
        if self._reason is not None:
            raise self._reason
        # Once there is no time left, a call ends at once.
        left = max(deadline - monotonic(), 0.0)
        call = self._placement.stream(
            self._job.method,
            self._job.requests[index],
            timeout=min(self._deadlines.first, left),
            arrived=self.arrived,
            metadata=self._metadata,
        )
        # While the connection was made, the client may have left.
        if self._reason is not None:
            call.cancel()
            raise self._reason
        self._running[index] = call

    def _take_short(self) -> list[tuple[int, bytes]]:
        """The answers of the calls that have ended."""
        if self._reason is not None:
            raise self._reason
        answers = []
        for index, call in list(self._running.items()):
            status = call.status
            if status is None:
                continue
            del self._running[index]
            if not status.ok:
                raise from_grpc_status(status.code, status.message)
            messages = call.take()
            if len(messages) != 1:
                raise EngineError(f"The engine sent {len(messages)} answers to one call")
            answers.append((index, messages[0]))
        return answers
