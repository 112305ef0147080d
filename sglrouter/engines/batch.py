"""Many short calls for one request: so many at a time, each answered by one message.

What such a call makes an engine do is over soon, so a call that is given up is cancelled
and nothing else: to abort an embedding by name would leave it with the engine for ever.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from threading import Event
from time import monotonic
from typing import Protocol

from sglrouter.engines.channel.channel import Bell, Call, Metadata, sendable
from sglrouter.errors import EngineError, RouterError, from_grpc_status

# How many calls of one request an engine has at a time.
PARALLEL = 32


class Caller(Protocol):
    """A channel, or several to choose from."""

    def stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> Call:
        """See Channel.stream()."""


class Batch:
    """Makes calls and gives out their answers.

    Args:
        caller: Where to.
        method: Full method path of all of them.
        requests: Their messages.
        timeout: Longest time in seconds for all together.
        call_timeout: Longest time in seconds for each; a refusal may never be answered.
        metadata: Request headers of each.
        parallel: How many at a time.
    """

    def __init__(
        self,
        caller: Caller,
        method: str,
        requests: Sequence[bytes],
        *,
        timeout: float,
        call_timeout: float,
        metadata: Metadata = (),
        parallel: int = PARALLEL,
    ) -> None:
        self._caller = caller
        self._method = method
        self._requests = requests
        self._timeout = timeout
        self._call_timeout = call_timeout
        self._metadata = sendable(metadata)
        self._parallel = parallel
        self._arrived = Event()
        self._running: dict[int, Call] = {}
        self._reason: RouterError | None = None

    def answers(self) -> Generator[tuple[int, bytes]]:
        """Yields (number of the request, answer) as they come; to be used once.

        Whatever ends it, no call goes on.

        Raises:
            RouterError: A call failed or missed a deadline, or it was ended early.
        """
        self._deadline = monotonic() + self._timeout
        begun = 0
        try:
            while begun < len(self._requests) or self._running:
                while begun < len(self._requests) and len(self._running) < self._parallel:
                    self._begin(begun)
                    begun += 1
                self._arrived.clear()
                found = self._take()
                if found:
                    yield from found
                else:
                    # Every call has a deadline of its own, which wakes us.
                    self._arrived.wait()
            if self._reason is not None:
                raise self._reason
        finally:
            self._cancel()

    def end_early(self, reason: RouterError) -> None:
        """Ends it: the calls are cancelled, and whoever waits gets the reason."""
        self._reason = reason
        self._cancel()
        self._arrived.set()

    def _begin(self, number: int) -> None:
        if self._reason is not None:
            raise self._reason
        # Once there is no time left, a call ends at once.
        left = max(self._deadline - monotonic(), 0.0)
        call = self._caller.stream(
            self._method,
            self._requests[number],
            timeout=min(self._call_timeout, left),
            arrived=self._arrived,
            metadata=self._metadata,
        )
        # While the connection was made, the client may have left.
        if self._reason is not None:
            call.cancel()
            raise self._reason
        self._running[number] = call

    def _take(self) -> list[tuple[int, bytes]]:
        """The answers of the calls that have ended."""
        if self._reason is not None:
            raise self._reason
        found = []
        for number, call in list(self._running.items()):
            status = call.status
            if status is None:
                continue
            del self._running[number]
            if not status.ok:
                raise from_grpc_status(status.code, status.message)
            messages = call.take()
            if len(messages) != 1:
                raise EngineError(f"The engine sent {len(messages)} answers to one call")
            found.append((number, messages[0]))
        return found

    def _cancel(self) -> None:
        for call in list(self._running.values()):
            call.cancel()
        self._running.clear()
