"""A completion as the body of a streaming response.

Strategy: the first answer of the engine is awaited before the response begins, so that
a refusal still gets its own HTTP status; after a heartbeat's time of silence the
response begins without it, and from then on an error is the stream's last event. All
that has arrived goes out in one piece.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Self

from sglrouter.backend.generation import Generation
from sglrouter.errors import RouterError
from sglrouter.output.chat import HEARTBEAT, ChatStream
from sglrouter.output.sample import Sample

logger = logging.getLogger(__name__)


class EventStream(Iterator[bytes]):
    """Server-sent events of one completion, as the WSGI server iterates them.

    Args:
        stream: Makes the events.
        samples: The completion's samples.
        generation: Where their messages come from.
        heartbeat: Seconds of silence after which a comment is sent.

    Raises:
        RouterError: The engine failed at once; no response has begun.
    """

    def __init__(
        self,
        stream: ChatStream,
        samples: list[Sample],
        generation: Generation,
        *,
        heartbeat: float,
    ) -> None:
        self._stream = stream
        self._samples = samples
        self._generation = generation
        self._heartbeat = heartbeat
        self._ended = False
        try:
            first, error = self._next_events()
            if error is not None and not first:
                raise error
        except BaseException:
            generation.cancel()
            raise
        self._waiting = stream.begin() + first
        if error is not None:
            self._waiting += self._fail(error)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._waiting:
            events, self._waiting = self._waiting, b""
            return events
        if self._ended:
            raise StopIteration
        try:
            events, error = self._next_events()
        except Exception:
            logger.exception("a stream failed")
            events, error = b"", RouterError("The router failed", code="internal_error")
        return events if error is None else events + self._fail(error)

    def close(self) -> None:
        """Stops the engine's work; the server calls it when the client is gone, too."""
        self._generation.cancel()

    def _next_events(self) -> tuple[bytes, RouterError | None]:
        """Waits for news and renders it; a heartbeat if there is none for too long."""
        events = b""
        while self._generation.running:
            try:
                news = self._generation.wait(self._heartbeat)
            except RouterError as error:
                return events, error
            if not news:
                return HEARTBEAT, None
            for index, messages in news:
                events += self._stream.feed(index, messages)
                sample = self._samples[index]
                if sample.failure is not None:
                    return events, sample.failure
                if sample.finish_reason is not None:
                    self._generation.complete(index, engine_goes_on=sample.engine_goes_on)
            # Text may be held back: then there is nothing to send yet.
            if events and self._generation.running:
                return events, None
        self._ended = True
        return events + self._stream.end(), None

    def _fail(self, error: RouterError) -> bytes:
        logger.warning("a stream ended with an error: %s", error.message)
        self._generation.cancel()
        self._ended = True
        return self._stream.fail(error)
