"""Following a streaming call in a test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Event

from sglrouter.engines.channel.channel import Call, Channel, Status
from sglrouter.engines.wire.scheduler import GENERATE, Sampling, generate_request, new_request_id
from tests.patience import PATIENCE


def request(
    *, stream: bool = True, max_new_tokens: int | None = None, ids: list[int] | None = None
) -> bytes:
    """A serialized GenerateRequest for a small prompt."""
    return generate_request(
        request_id=new_request_id(),
        text="",
        ids=ids or [1, 2, 3],
        sampling=Sampling(max_new_tokens=max_new_tokens),
        stream=stream,
    )


class Followed:
    """A call, and the event that says there is news of it."""

    def __init__(
        self, channel: Channel, message: bytes | None = None, timeout: float = PATIENCE
    ) -> None:
        self.arrived = Event()
        self.call: Call = channel.stream(
            GENERATE, message or request(), timeout=timeout, arrived=self.arrived
        )

    def batches(self) -> Iterator[list[bytes]]:
        """Yields what each take returns until the call has ended."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.arrived.clear()
            status = self.call.status
            if batch := self.call.take():
                yield batch
            elif status is not None:
                return
            else:
                left = max(deadline - time.monotonic(), 0)
                assert self.arrived.wait(left), "nothing arrived"

    def drain(self) -> list[bytes]:
        """All messages, in order."""
        return [message for batch in self.batches() for message in batch]

    @property
    def status(self) -> Status:
        """How the call ended; AssertionError if it has not."""
        assert self.call.status is not None
        return self.call.status
