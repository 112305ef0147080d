"""An answer under way: the engine calls of a request, and what is made of their messages.

Strategy: the calls bring messages, the renderer makes events of them or gathers one
body. Which, the request has said; both are made of the same samples. Whoever asked,
over HTTP or in the same process, pulls: an answer does nothing while nobody waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sink import TextSink
from sglrouter.engines.exchange import Exchange, News
from sglrouter.errors import ClientGone, RouterError
from sglrouter.output.sample import Sample
from sglrouter.request.grammar import Grammar, blamed
from sglrouter.turns import Pause, no_pause, taking_turns

E = TypeVar("E", bound=RouterError)


class EventRenderer(Protocol):
    """Makes server-sent events of an answer's messages."""

    def begin(self) -> bytes:
        """The first events, before any message."""

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        """Takes messages of one sample; returns the events they make, maybe none."""

    def sink(
        self, index: int, writer: BodyWriter, on_trouble: Callable[[], None]
    ) -> TextSink | None:
        """Writes most of a sample without feed(); None where feed() has to do all."""

    def end(self) -> bytes:
        """The last events of an answer whose samples are complete."""

    def fail(self, error: RouterError) -> bytes:
        """The last events of an answer that broke."""

    def close(self) -> None:
        """Lets go of what it holds."""


class BodyRenderer(Protocol):
    """Gathers an answer's messages into one body."""

    def feed(self, index: int, messages: Sequence[bytes]) -> None:
        """Takes messages of one sample."""

    def body(self) -> bytes:
        """The body, once every sample is complete."""

    def close(self) -> None:
        """Lets go of what it holds."""


class Answer:
    """One request's answer.

    Args:
        samples: What reads the messages of each call, in the calls' order.
        exchange: The calls.
        events: Makes the events; None if a whole body is wanted.
        body: Makes the body; None if events are wanted.
        grammar: What the samples have to follow.
        ignored: The request's fields that nothing is done about.
        pause: Called now and then while a body is gathered, to let others go on.

    Attributes:
        exchange: The calls.
        ended: Whether the last events have been made.
        ignored: As given.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        exchange: Exchange,
        *,
        events: EventRenderer | None = None,
        body: BodyRenderer | None = None,
        grammar: Grammar | None = None,
        ignored: Sequence[str] = (),
        pause: Pause = no_pause,
    ) -> None:
        self._samples = samples
        self.exchange = exchange
        self._events = events
        self._body = body
        self._grammar = grammar or Grammar()
        self.ignored = ignored
        self._pause = pause
        self.ended = False
        self._unread: News = []

    @property
    def streams(self) -> bool:
        """Whether it is made of events."""
        return self._events is not None

    def collect(self) -> bytes:
        """Waits for all of it; returns the body.

        Raises:
            RouterError: The engine failed, or the client is gone.
        """
        exchange = self.exchange
        try:
            while exchange.running:
                self.gather(exchange.wait())
        except BaseException as exc:
            if isinstance(exc, RouterError):
                exchange.fail(self.blamed(exc))
            self.close()
            raise
        return self.body()

    def gather(self, news: News) -> None:
        """Takes messages of a whole answer.

        Raises:
            RouterError: The engine failed.
        """
        assert self._body is not None
        exchange = self.exchange
        for index, messages in taking_turns(news, self._pause):
            if exchange.is_aborted(index):
                self._samples[index].abort()
            self._body.feed(index, messages)
            self._note_end(index)

    def body(self) -> bytes:
        """The body, once every sample is complete."""
        assert self._body is not None
        return self._body.body()

    def blamed(self, error: E) -> E:
        """The same error, with the field at fault if it is an engine's refusal of the grammar."""
        return blamed(error, self._grammar)

    def begin(self) -> bytes:
        """The first events."""
        return self._renderer.begin()

    def wait(
        self, timeout: float | None = None, most: int | None = None
    ) -> tuple[bytes, RouterError | None]:
        """Waits for events.

        Args:
            timeout: Longest wait in seconds; None for as long as the deadlines allow.
            most: How many messages are rendered at most, if there are more; the next
                call goes on with the others.

        Returns:
            The events and how the engine failed, if it did; neither if the time is over.

        Raises:
            ClientGone: The client has left.
        """
        while True:
            try:
                news = self._unread or self.exchange.wait(timeout)
            except ClientGone:
                raise
            except RouterError as failure:
                return b"", self.blamed(failure)
            if not news:
                return b"", None
            if most is not None or self._unread:
                news, self._unread = _cut(news, most)
            events, error = self.render(news)
            if self._unread:
                # What an engine sent beyond a sample's end is nobody's.
                self._unread = [each for each in self._unread if self._is_running(each)]
            # Text may be held back: then there is nothing to tell yet.
            if events or error is not None:
                return events, error

    def render(self, news: News) -> tuple[bytes, RouterError | None]:
        """Makes events of messages; see wait()."""
        events, exchange, renderer = b"", self.exchange, self._renderer
        for index, messages in news:
            if exchange.is_aborted(index):
                self._samples[index].abort()
            events += renderer.feed(index, messages)
            try:
                self._note_end(index)
            except RouterError as failure:
                return events, failure
        if not exchange.running:
            self.ended = True
            events += renderer.end()
        return events, None

    def fail(self, error: RouterError) -> bytes:
        """Ends it; returns the last events."""
        self.ended = True
        self.exchange.fail(error)
        return self._renderer.fail(error)

    def close(self) -> None:
        """Stops what still runs, whoever asked for it; nothing more will be told."""
        self.exchange.cancel()
        renderer = self._events or self._body
        if renderer is not None:
            renderer.close()

    def divert(self, writer: BodyWriter, on_trouble: Callable[[], None]) -> list[TextSink]:
        """Has plain text written without us; returns what writes it."""
        sinks = []
        for index in range(len(self._samples)):
            sink = self._renderer.sink(index, writer, on_trouble)
            if sink is not None and self.exchange.is_running(index):
                sinks.append(sink)
                self.exchange.divert(index, sink)
        return sinks

    @property
    def _renderer(self) -> EventRenderer:
        assert self._events is not None
        return self._events

    def _is_running(self, news: tuple[int, list[bytes]]) -> bool:
        return self.exchange.is_running(news[0])

    def _note_end(self, index: int) -> None:
        sample = self._samples[index]
        if sample.failure is not None:
            raise self.blamed(sample.failure)
        if sample.finish_reason is not None:
            self.exchange.complete(index, engine_goes_on=sample.engine_goes_on)


def _cut(news: News, most: int | None) -> tuple[News, News]:
    """The first `most` messages, and the others."""
    first: News = []
    for place, (index, messages) in enumerate(news):
        if most is None or len(messages) <= most:
            first.append((index, messages))
            most = None if most is None else most - len(messages)
        else:
            if most:
                first.append((index, messages[:most]))
            return first, [(index, messages[most:]), *news[place + 1 :]]
    return first, []
