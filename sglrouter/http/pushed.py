"""A stream that is pushed: events go from the engine's socket to the client's at once.

Strategy: callbacks of the event loop write what arrives, in one piece and in the turn in
which it arrives; plain text goes through a compiled sink without a line of Python. The
request's greenlet sleeps meanwhile. It is woken for what a callback may not do, which is
to wait: until a client has taken what was kept for it, or for a heartbeat's time.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from enum import Enum
from typing import Self

from sglrouter._fast.sink import TextSink
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.client import Client
from sglrouter.http.event_source import HEARTBEAT, EventSource


class State(Enum):
    """Who does what for a pushed stream.

    Attributes:
        UNSENT: Nothing has been written; news waits.
        FLOWING: Callbacks write; the greenlet sleeps.
        BLOCKED: The client does not take what was written; the greenlet waits until it has.
        FAULTY: A callback has failed; the greenlet ends the stream.
        OVER: The last events are written.
    """

    UNSENT = "unsent"
    FLOWING = "flowing"
    BLOCKED = "blocked"
    FAULTY = "faulty"
    OVER = "over"


class PushedStream(Iterator[bytes]):
    """Server-sent events of one answer, written to the client past the WSGI server.

    The server's first step through the body sees the whole stream to its end: there is
    nothing left for the server to write.

    Args:
        source: Where they come from.
        client: The client, which is watched from now on.

    Attributes:
        first: The first events, once it is open.
        state: Who does what now.
    """

    def __init__(self, source: EventSource, client: Client) -> None:
        self._source = source
        self._answer = source.answer
        self._exchange = source.answer.exchange
        self.first = b""
        self._client = client
        self._wake = self._exchange.arrived
        self._trouble: Exception | None = None
        self._sinks: list[TextSink] = []
        self._written_at = 0.0
        self.state = State.UNSENT
        client.watch(self._on_end, self._ping)

    def open(self) -> bool:
        """Waits for the first events; returns whether it can go on.

        It cannot over a channel that does not call back. Its client stays watched, as far
        as that goes for a stream of which nothing is sent from here.

        Raises:
            RouterError: The engine failed at once, or the client has left; no response is
                to begin.
        """
        try:
            self.first = self._source.open()
        except BaseException:
            self._client.unwatch()
            raise
        # Until the response begins, what arrives is left where it is.
        return self._exchange.listen(self._on_news)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        """Sees the stream to its end.

        Raises:
            OSError: The client is gone.
        """
        self._send(self.first)
        self._divert()
        self._pump_safely()
        while self.state is not State.OVER:
            if self.state is State.FAULTY:
                self._end_by_trouble()
            elif self.state is State.BLOCKED:
                self._client.wait_until_taken()
                # Trouble may have come meanwhile.
                if self.state is State.BLOCKED:
                    self.state = State.FLOWING
                    self._pump_safely()
            else:
                self._sleep()
        raise StopIteration

    def close(self) -> None:
        """Stops the engine's work; the server calls it when the client is gone, too."""
        self._exchange.listen(None)
        self._source.close()
        self._sinks.clear()
        self._client.unwatch()

    def _on_end(self, reason: RouterError) -> None:
        """In the event loop: the client has closed its connection, or the server stops."""
        self._exchange.end_early(reason)
        if self.state is State.UNSENT:
            return
        if isinstance(reason, ClientGone):
            self._note_trouble(BrokenPipeError(errno.EPIPE, reason.message))
        else:
            self._on_news()

    def _ping(self) -> None:
        """In the event loop: something has to be written to the client."""
        if self.state is State.UNSENT:
            self._exchange.nudge()
        elif self.state is State.FLOWING:
            self._send(HEARTBEAT)

    def _divert(self) -> None:
        """Has plain text written without us."""
        if self._client.writer is not None and self.state is State.FLOWING:
            self._sinks += self._answer.divert(self._client.writer, self._on_sink_trouble)

    def _sleep(self) -> None:
        """Waits for a callback to wake it, a deadline, or the time of a heartbeat."""
        self._wake.clear()
        writer = self._client.writer
        written_at = self._written_at if writer is None else writer.written_at
        try:
            silence = time.monotonic() - written_at
            pause = min(self._exchange.time_left(), self._source.heartbeat - silence)
        except RouterError as error:
            self._send(self._source.fail(error))
            return
        if pause <= 0:
            self._send(HEARTBEAT)
        else:
            self._wake.wait(pause)

    def _on_news(self) -> None:
        """In the event loop: something has arrived from the engine."""
        if self.state is not State.FLOWING:
            return
        self._pump_safely()
        # What _pump_safely() does not tell of.
        if self.state is not State.FLOWING:
            self._wake.set()

    def _on_sink_trouble(self) -> None:
        """In the event loop: a sink has failed, or its client does not take what it wrote."""
        for sink in self._sinks:
            if sink.failure is not None:
                self._note_trouble(sink.failure)
                return
        self.state = State.BLOCKED
        self._wake.set()

    def _note_trouble(self, trouble: Exception) -> None:
        self._trouble = trouble
        self.state = State.FAULTY
        self._wake.set()

    def _end_by_trouble(self) -> None:
        trouble = self._trouble
        assert trouble is not None
        if isinstance(trouble, OSError):
            raise trouble
        self._send(self._source.fail_by(trouble))

    def _pump_safely(self) -> None:
        """_pump(), whose trouble is kept for the greenlet."""
        try:
            self._pump()
        except Exception as exc:
            self._note_trouble(exc)

    def _pump(self) -> None:
        """Renders and sends what has arrived, until the client does not take it."""
        while self.state is State.FLOWING:
            try:
                news = self._exchange.take()
            except RouterError as failure:
                self._send(self._source.fail(failure))
                return
            if not news:
                return
            events, error = self._answer.render(news)
            if error is not None:
                events += self._source.fail(error)
            if events:
                self._send(events)
            # To take again gives the engine its credit back, or finds out how it failed.
            # That can wait until there are news, unless there would be none.
            if not self._exchange.silent:
                return

    def _send(self, events: bytes) -> None:
        self._written_at = time.monotonic()
        taken = self._client.send(events, last=self._answer.ended)
        if not taken:
            self.state = State.BLOCKED
        else:
            self.state = State.OVER if self._answer.ended else State.FLOWING
