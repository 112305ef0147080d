"""The engine calls of one request, one for each sample, and their deadlines.

The engine is asked for one sample a call: it runs several samples of one call one
after another when it does not stream, and does not say which is which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic

from sglrouter._fast.sink import TextSink
from sglrouter.engines.channel.channel import Call
from sglrouter.errors import (
    ClientGone,
    EngineError,
    EngineTimeout,
    RouterError,
    from_grpc_status,
)

News = list[tuple[int, list[bytes]]]


class Generation:
    """Waits for the messages of several calls.

    Args:
        calls: One for each sample, all made with the event `arrived`.
        arrived: Set by the calls whenever there is something new.
        first_timeout: Longest wait in seconds for a call's first message; a refusal
            may never be answered.
        idle_timeout: Longest silence in seconds after it.
        abort: Called with the number of each sample whose call is cancelled; never waits.

    Attributes:
        arrived: The event.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        arrived: Event,
        *,
        first_timeout: float,
        idle_timeout: float,
        abort: Callable[[int], None] = lambda _index: None,
    ) -> None:
        self._abort = abort
        self._running = dict(enumerate(calls))
        self.arrived = arrived
        self._first_timeout = first_timeout
        self._idle_timeout = idle_timeout
        now = monotonic()
        self._heard = dict.fromkeys(self._running, now)
        self._begun: set[int] = set()
        self._sinks: dict[int, TextSink] = {}
        self._reason: RouterError | None = None
        self._nudged = False
        self._aborted: set[int] = set()
        self._on_news: Callable[[], None] | None = None
        self._when_over: Callable[[], None] | None = None

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
        failed = None
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
                raise EngineError("The engine ended the stream before the answer was complete")
            raise from_grpc_status(failed.code, failed.message)
        return news

    def time_left(self) -> float:
        """Seconds until the next deadline.

        Raises:
            EngineTimeout: One is over.
        """
        now = monotonic()
        least = self._first_timeout
        for index in self._running:
            heard = self._heard[index]
            if index in self._sinks and self._sinks[index].heard_at > heard:
                heard = self._sinks[index].heard_at
                self._begun.add(index)
            begun = index in self._begun
            allowed = self._idle_timeout if begun else self._first_timeout
            left = heard + allowed - now
            if left <= 0:
                what = "went silent" if begun else "did not answer"
                raise EngineTimeout(f"The engine {what} for {allowed:g} seconds")
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
        if isinstance(reason, ClientGone):
            self.cancel()
        self._interrupt(reason)

    def interrupt(self) -> None:
        """Ends the wait of another thread, for which the client is gone: it has to cancel."""
        self._interrupt(ClientGone())

    def nudge(self) -> None:
        """Ends the wait that goes on, if one does, as if its time were over."""
        self._nudged = True
        self.arrived.set()

    def _interrupt(self, reason: RouterError) -> None:
        # In this order: whoever waits looks after it has cleared the event.
        self._reason = reason
        self.arrived.set()

    def when_over(self, on_over: Callable[[], None]) -> None:
        """Has `on_over` called once, when the last sample is complete or cancelled."""
        self._when_over = on_over

    def abort(self, index: int | None = None) -> None:
        """Stops a sample, or all, for somebody who does not wait for them.

        Whoever does gets each as news once more, with what had arrived, and completes it.
        """
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
        self._note_over()

    def cancel(self) -> None:
        """Stops every call that still runs."""
        for index, call in self._running.items():
            self._stop(index, call)
        self._running.clear()
        self._sinks.clear()
        self._note_over()

    def _note_over(self) -> None:
        if not self._running and self._when_over is not None:
            on_over, self._when_over = self._when_over, None
            on_over()

    def _stop(self, index: int, call: Call) -> None:
        running = call.status is None
        call.cancel()
        if running:
            self._abort(index)
