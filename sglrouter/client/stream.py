"""A streamed chat completion, as its reader sees it.

Chunks are made of what the engine has sent when they are asked for. What arrived before
a failure is delivered before it is raised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import msgspec

from sglrouter.client.work import Cancelled, Work
from sglrouter.errors import RouterError
from sglrouter.serving.answer import Answer

_PREFIX = len(b"data: ")
_DONE = b"data: [DONE]"

_decode = msgspec.json.Decoder().decode


class ChatCompletionStream(Iterator[dict[str, Any]]):
    """The chunks of one completion, from Client.create_chat_completion_stream().

    An iterator of chunks, and a context manager that closes it. Several threads may
    read from it, and each chunk goes to one of them; one that is dropped unread is cancelled.
    """

    def __init__(
        self,
        answer: Answer,
        work: Work,
        *,
        results: int,
        on_failure: Callable[[RouterError], None],
    ) -> None:
        """For the client.

        Args:
            answer: The answer, just started.
            work: The same, as far as it can be waited for and cancelled.
            results: See Buffers.
            on_failure: Told of what the engine's failure is, when it is raised.
        """
        self._answer = answer
        self._work = work
        self._results = results
        self._on_failure = on_failure
        self._chunks: deque[bytes] = deque()
        self._begun = False
        # How it ended, once it has.
        self._end: RouterError | EOFError | None = None

    @property
    def ignored(self) -> tuple[str, ...]:
        """The request's fields that nothing is done about."""
        return tuple(self._answer.ignored)

    def recv(self) -> dict[str, Any]:
        """Waits for the next chunk; returns it as OpenAI's `chat.completion.chunk`.

        Raises:
            EOFError: The completion is complete, and all of it has been delivered.
            Cancelled: cancel() or close() was called, here or by others.
            RouterError: The engine failed. It stays so: every later call raises it again.
            RuntimeError: Under gevent, this is not the thread of the client's loop.
        """
        chunk: dict[str, Any] = _decode(self._next())
        return chunk

    def recv_json(self) -> str:
        """Waits for the next chunk; returns its JSON as it is, without parsing it.

        Raises:
            EOFError, RouterError, RuntimeError: See recv().
        """
        return self._next().decode()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> dict[str, Any]:
        """recv(), but for how the end is told."""
        try:
            return self.recv()
        except EOFError:
            raise StopIteration from None

    def cancel(self) -> None:
        """Stops the engine, and whoever waits for a chunk. Chunks that wait are dropped.

        May be called from every thread and greenlet, and never waits. Does nothing to a
        stream that has been read to its end.
        """
        if self._end is None or self._chunks:
            self._work.cancel()

    def close(self) -> None:
        """cancel(), for the reader itself."""
        self.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_work"):
            self._work.abandon()

    def _next(self) -> bytes:
        work, chunks = self._work, self._chunks
        if not work.cancelled:
            try:
                return chunks.popleft()
            except IndexError:
                pass
        with work.turn():
            while not chunks:
                if self._end is not None:
                    raise self._end.with_traceback(None)
                self._advance()
            return chunks.popleft()

    def _advance(self) -> None:
        """Waits for chunks, or the end."""
        answer = self._answer
        if answer.ended:
            self._end = EOFError("the completion is complete")
            self._work.finish()
            return
        events, error = answer.wait(most=self._results)
        if self._work.cancelled:
            raise Cancelled
        if events and not self._begun:
            self._begun = True
            events = answer.begin() + events
        self._chunks.extend(
            event[_PREFIX:] for event in events.split(b"\n\n") if event and event != _DONE
        )
        if error is not None:
            self._work.finish()
            self._on_failure(error)
            self._end = error
