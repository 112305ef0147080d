"""A stream that is pushed: events go from the engine's socket to the client's at once.

Strategy: callbacks of the event loop write what arrives, in one piece and in the turn in
which it arrives; plain text goes through a compiled sink without a line of Python. Nothing
here waits: for the client that does not take what was written there is a callback, for
deadlines and heartbeats the worker's clock. So a stream needs no greenlet; a request that
has one sleeps in it meanwhile (PushedBody).

The first answer of the engine is awaited before the response begins, so that a refusal
still gets its own HTTP status.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from enum import Enum
from time import monotonic

from gevent.event import Event

from sglrouter._fast.sink import TextSink
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.client import Client, Failure, Recipient
from sglrouter.http.event_source import HEARTBEAT, EventSource


class State(Enum):
    """How far a pushed stream is.

    Attributes:
        WAITING: For the first events.
        OPEN: There are some; none has been sent.
        FLOWING: What arrives is written.
        BLOCKED: The client does not take what was written; what arrives waits.
        OVER: All has been written, or there is nobody to write to.
    """

    WAITING = "waiting"
    OPEN = "open"
    FLOWING = "flowing"
    BLOCKED = "blocked"
    OVER = "over"


class PushedStream:
    """Server-sent events of one answer, written to the client past the WSGI server.

    Args:
        source: Where they come from.
        client: The client, which is watched until the stream is over.
        failure: Makes the response to an error that comes before the first event; None where
            that is raised.

    Attributes:
        failure: As given; see Delivery.
        state: How far it is.
        due: When the clock is to look at it.
    """

    def __init__(self, source: EventSource, client: Client, failure: Failure | None = None) -> None:
        self._source = source
        self._answer = source.answer
        self._exchange = source.answer.exchange
        self._client = client
        self.failure = failure
        self._recipient: Recipient | None = None
        self._first = b""
        self._trouble: Exception | None = None
        self._sinks: list[TextSink] = []
        self._written_at = self.due = 0.0
        self.state = State.WAITING

    def begin(self, recipient: Recipient) -> None:
        """Waits for the first events, in callbacks.

        Args:
            recipient: Who is told of them.
        """
        self._recipient = recipient
        self._written_at = monotonic()
        self._client.watch(self._on_end, self._ping)
        self._exchange.listen(self._on_news)
        self._client.clock.watch(self)
        self._look_at_deadlines()
        # What has come by now was told to nobody.
        self._on_news()

    def start(self) -> None:
        """Sends the first events, and from then on what arrives."""
        if self.state is State.OPEN:
            self.state = State.FLOWING
            first, self._first = self._first, b""
            self._do(self._send_first, first)

    def close(self) -> None:
        """Stops the engine's work; nothing more is told or written."""
        if self.state is not State.OVER or self._recipient is not None:
            self.state = State.OVER
            self._recipient = None
            self._client.clock.forget(self)
            self._exchange.listen(None)
            self._source.close()
            self._sinks.clear()
            self._client.unwatch()

    def on_time(self, now: float) -> None:
        """The clock: a deadline is over, or it has been silent for a heartbeat's time."""
        if self.state in (State.WAITING, State.FLOWING):
            self._do(self._look_at_deadlines)
        else:
            self.due = now + self._source.heartbeat

    def _on_end(self, reason: RouterError) -> None:
        """The client has closed its connection, or the server stops."""
        self._exchange.end_early(reason)
        if self.state is not State.WAITING and isinstance(reason, ClientGone):
            self._finish(BrokenPipeError(errno.EPIPE, reason.message))
        else:
            self._on_news()

    def _ping(self) -> None:
        """Something has to be written to the client."""
        if self.state is State.WAITING:
            self._open(HEARTBEAT)
        elif self.state is State.FLOWING:
            self._send(HEARTBEAT)

    def _look_at_deadlines(self) -> None:
        try:
            left = self._exchange.time_left()
        except RouterError as error:
            self._fail(error)
            return
        writer, now = self._client.writer, monotonic()
        written_at = self._written_at if writer is None else writer.written_at
        left = min(left, written_at + self._source.heartbeat - now)
        self.due = now + (left if left > 0 else self._source.heartbeat)
        if left <= 0:
            self._ping()

    def _on_news(self) -> None:
        """Something has arrived from the engine."""
        if self.state is State.FLOWING:
            self._do(self._pump)
        elif self.state is State.WAITING:
            self._do(self._await_first)

    def _await_first(self) -> None:
        """Takes what has arrived, until it makes events."""
        while self.state is State.WAITING:
            try:
                news = self._exchange.take()
            except RouterError as failure:
                self._fail(failure)
                return
            if not news:
                return
            events, error = self._answer.render(news)
            if error is not None:
                self._fail(error, events)
            elif events:
                self._open(events)
            elif not self._exchange.silent:
                return

    def _open(self, events: bytes) -> None:
        self._first = self._answer.begin() + events
        self.state = State.OPEN
        if self._recipient is not None:
            self._recipient.opened()

    def _fail(self, error: RouterError, events: bytes = b"") -> None:
        """Ends the stream with an error: as the whole response, if nothing else is in it."""
        if self.state is not State.WAITING:
            self._send(events + self._source.fail(error))
        elif events:
            self._first = self._answer.begin() + events + self._source.fail(error)
            self.state = State.OPEN
            if self._recipient is not None:
                self._recipient.opened()
        else:
            recipient = self._recipient
            self.close()
            if recipient is not None:
                recipient.refused(self._answer.blamed(error))

    def _send_first(self, events: bytes) -> None:
        self._send(events)
        if self._client.writer is not None and self.state is State.FLOWING:
            self._sinks += self._answer.divert(self._client.writer, self._on_sink_trouble)
        self._pump()

    def _pump(self) -> None:
        """Renders and sends what has arrived, until the client does not take it."""
        while self.state is State.FLOWING:
            try:
                news = self._exchange.take()
            except RouterError as failure:
                self._fail(failure)
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
        self._written_at = monotonic()
        if not self._client.send(events, last=self._answer.ended):
            self._block()
        elif self._answer.ended:
            self._finish(None)

    def _block(self) -> None:
        if self.state is not State.BLOCKED:
            self.state = State.BLOCKED
            self._client.when_taken(self._on_taken)

    def _on_taken(self, error: OSError | None) -> None:
        """The client has taken what was kept for it, or is gone."""
        if self.state is not State.BLOCKED:
            return
        if error is not None:
            self._finish(error)
        elif self._answer.ended:
            self._finish(None)
        else:
            self.state = State.FLOWING
            self._do(self._go_on)

    def _go_on(self) -> None:
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        self._pump()

    def _on_sink_trouble(self) -> None:
        """A sink has failed, or its client does not take what it wrote."""
        for sink in self._sinks:
            if sink.failure is not None:
                self._note_trouble(sink.failure)
                return
        self._block()

    def _do(self, step: Callable[..., None], *args: object) -> None:
        """Takes a step, whose trouble is this stream's alone."""
        try:
            step(*args)
        except Exception as exc:
            self._note_trouble(exc)

    def _note_trouble(self, trouble: Exception) -> None:
        """Ends the stream by trouble: at once, or when the client has taken what was kept."""
        if isinstance(trouble, OSError):
            self._finish(trouble)
        elif self.state is State.BLOCKED:
            self._trouble = trouble
        elif self.state is State.FLOWING:
            try:
                self._send(self._source.fail_by(trouble))
            except Exception as exc:
                self._finish(exc)
        elif self.state is not State.OVER:
            recipient = self._recipient
            self.close()
            if recipient is not None:
                recipient.refused(trouble)

    def _finish(self, trouble: Exception | None) -> None:
        recipient = self._recipient
        self.close()
        if recipient is not None:
            recipient.over(trouble)


class PushedBody(Iterator[bytes]):
    """A pushed stream as the WSGI server iterates it, in the request's greenlet.

    The server's first step through the body sees the whole stream to its end: there is
    nothing left for the server to write.

    Args:
        stream: The stream, which has not begun.
    """

    def __init__(self, stream: PushedStream) -> None:
        self._stream = stream
        self._told = Event()
        self._error: Exception | None = None
        self._trouble: Exception | None = None

    def open(self) -> None:
        """Waits for the first events.

        Raises:
            RouterError: The engine failed at once, or the client has left; no response is
                to begin.
        """
        try:
            self._stream.begin(self)
            self._told.wait()
        except BaseException:
            self._stream.close()
            raise
        if self._error is not None:
            raise self._error

    def opened(self) -> None:
        """See Recipient."""
        self._told.set()

    def refused(self, error: Exception) -> None:
        """See Recipient."""
        self._error = error
        self._told.set()

    def over(self, trouble: Exception | None) -> None:
        """See Recipient."""
        self._trouble = trouble
        self._told.set()

    def __next__(self) -> bytes:
        """Sees the stream to its end.

        Raises:
            OSError: The client is gone.
        """
        if self._stream.state is not State.OVER:
            self._told.clear()
            self._stream.start()
            self._told.wait()
        if self._trouble is not None:
            raise self._trouble
        raise StopIteration

    def close(self) -> None:
        """Stops the engine's work; the server calls it when the client is gone, too."""
        self._stream.close()
