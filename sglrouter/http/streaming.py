"""An answer as the body of a streaming response.

Strategy: the first answer of the engine is awaited before the response begins, so that
a refusal still gets its own HTTP status; after a heartbeat's time of silence the
response begins without it, and from then on an error is the stream's last event. All
that has arrived goes out in one piece.

There are two ways out. Where the channel can call back and the client can be written
to, events go from the engine's socket to the client's in one turn of the event loop,
and the request's greenlet sleeps until the end, a heartbeat, or a client that does not
take them. Otherwise the greenlet waits for news and the server iterates over the body.
What goes wrong in one stream is kept in it and ends that stream alone.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterator
from typing import Self

from sglrouter._fast.sink import TextSink
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.client import Client
from sglrouter.serving.answer import Answer

logger = logging.getLogger(__name__)

HEARTBEAT = b": ping\n\n"


class EventStream(Iterator[bytes]):
    """Server-sent events of one answer, as the WSGI server iterates them.

    Args:
        answer: Makes the events.
        heartbeat: Seconds of silence after which a comment is sent.
        client: The client, if it can be written to directly.
        request_id: What log lines call the request.

    Raises:
        RouterError: The engine failed at once, or the client has left; no response has
            begun.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        heartbeat: float,
        client: Client | None = None,
        request_id: str = "-",
    ) -> None:
        self._request_id = request_id
        self._answer = answer
        self._generation = generation = answer.generation
        self._heartbeat = heartbeat
        self._client = client
        # Of the direct way:
        self._wake = generation.arrived
        self._blocked = False
        self._sent_at = 0.0
        self._trouble: Exception | None = None
        self._sinks: list[TextSink] = []
        if client is not None:
            client.watch(self._on_end, self._ping)
        try:
            first, error = self._wait()
            if error is not None and not first:
                raise error
        except BaseException:
            self.close()
            raise
        self._waiting = answer.begin() + first
        if error is not None:
            self._waiting += self._fail(error)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        events, self._waiting = self._waiting, b""
        if events:
            if self._client is None or not self._generation.listen(self._on_news):
                return events
            self._write_directly(self._client, events)
        if self._answer.ended:
            raise StopIteration
        try:
            events, error = self._wait()
        except ClientGone as gone:
            raise BrokenPipeError(errno.EPIPE, gone.message) from gone
        except Exception as exc:
            return self._fail(self._internal(exc))
        return events if error is None else events + self._fail(error)

    def close(self) -> None:
        """Stops the engine's work; the server calls it when the client is gone, too."""
        self._generation.listen(None)
        self._generation.cancel()
        self._sinks.clear()
        if self._client is not None:
            self._client.unwatch()

    def _wait(self) -> tuple[bytes, RouterError | None]:
        """Waits for events; a heartbeat if there are none for too long."""
        events, error = self._answer.wait(self._heartbeat)
        if not events and error is None:
            events = HEARTBEAT
        return events, error

    def _fail(self, error: RouterError) -> bytes:
        logger.warning("request %s: the stream ended with an error: %s", self._request_id,
                       error.message)  # fmt: skip
        return self._answer.fail(error)

    def _write_directly(self, client: Client, events: bytes) -> None:
        """Sees the stream to its end while the callbacks write it.

        Raises:
            OSError: The client is gone.
        """
        self._send(client, events)
        self._divert(client)
        self._pump_safely(client)
        while True:
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                if isinstance(trouble, OSError):
                    raise trouble
                self._send(client, self._fail(self._internal(trouble)))
            elif self._blocked:
                client.wait_until_taken()
                self._blocked = False
                self._pump_safely(client)
            elif self._answer.ended:
                return
            else:
                self._sleep(client)

    def _divert(self, client: Client) -> None:
        """Has plain text written without us."""
        if client.writer is None or self._blocked or self._answer.ended:
            return
        self._sinks += self._answer.divert(client.writer, self._on_trouble)

    def _sleep(self, client: Client) -> None:
        """Waits for a callback to wake it, a deadline, or the time of a heartbeat."""
        self._wake.clear()
        try:
            silence = time.monotonic() - self._last_written(client)
            pause = min(self._generation.time_left(), self._heartbeat - silence)
        except RouterError as error:
            self._send(client, self._fail(error))
            return
        if pause <= 0:
            self._send(client, HEARTBEAT)
        else:
            self._wake.wait(pause)

    def _on_news(self) -> None:
        """In the event loop: something has arrived from the engine."""
        if self._blocked or self._answer.ended or self._client is None:
            return
        self._pump_safely(self._client)
        if self._wants_greenlet():
            self._wake.set()

    def _wants_greenlet(self) -> bool:
        return self._blocked or self._answer.ended or self._trouble is not None

    def _on_trouble(self) -> None:
        """In the event loop: a sink has failed, or its client does not take what it wrote."""
        for sink in self._sinks:
            if sink.failure is not None:
                self._trouble = sink.failure
        self._blocked = True
        self._wake.set()

    def _on_end(self, reason: RouterError) -> None:
        """In the event loop: the client has closed its connection, or the server stops."""
        self._generation.end_early(reason)
        if not self._sent_at:
            return
        if isinstance(reason, ClientGone):
            self._trouble = BrokenPipeError(errno.EPIPE, reason.message)
            self._wake.set()
        else:
            self._on_news()

    def _ping(self) -> None:
        """In the event loop: something has to be written to the client."""
        if self._client is None or not self._sent_at:
            self._generation.nudge()
        elif not self._blocked and not self._answer.ended:
            self._send(self._client, HEARTBEAT)

    def _last_written(self, client: Client) -> float:
        return self._sent_at if client.writer is None else client.writer.written_at

    def _pump_safely(self, client: Client) -> None:
        """_pump(), whose trouble is kept for the greenlet."""
        try:
            self._pump(client)
        except Exception as exc:
            self._trouble = exc

    def _pump(self, client: Client) -> None:
        """Renders and sends what has arrived, until the client does not take it."""
        while not self._blocked and not self._answer.ended:
            try:
                news = self._generation.take()
            except RouterError as failure:
                self._send(client, self._fail(failure))
                return
            if not news:
                return
            events, error = self._answer.render(news)
            if error is not None:
                events += self._fail(error)
            if events:
                self._send(client, events)
            # To take again gives the engine its credit back, or finds out how it failed.
            # That can wait until there are news, unless there would be none.
            if not self._generation.silent:
                return

    def _send(self, client: Client, events: bytes) -> None:
        self._sent_at = time.monotonic()
        self._blocked = not client.send(events, last=self._answer.ended)

    def _internal(self, exc: Exception) -> RouterError:
        """A bug of ours: all details to the log, none to the client."""
        logger.error("request %s: the stream failed", self._request_id, exc_info=exc)
        return RouterError("The router failed", code="internal_error")
