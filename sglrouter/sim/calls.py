"""What an engine remembers of its calls, for the test that looks at it.

Filled by the server's thread, read by any other: each field is appended to or counted in
single steps, and the readers get copies. The lists keep the latest calls only, so that
an engine can run for days.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

    from sglrouter._proto import scheduler as pb

_KEPT = 10_000


class UnaryCall(NamedTuple):
    """A call of the scheduler service other than Generate and GetTokenizer."""

    method: str
    request: Any
    metadata: dict[str, str]


def metadata_of(context: grpc.aio.ServicerContext[Any, Any]) -> dict[str, str]:
    """A call's request headers."""
    return {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }


class CallLog:
    """The calls of one engine's scheduler service, over restarts."""

    def __init__(self) -> None:
        self.requests: deque[pb.GenerateRequest] = deque(maxlen=_KEPT)
        self.metadata: deque[dict[str, str]] = deque(maxlen=_KEPT)
        self.unary: deque[UnaryCall] = deque(maxlen=_KEPT)
        self.embeds: deque[pb.EmbedRequest] = deque(maxlen=_KEPT)
        # Ids of calls that the client gave up: cancelled, out of time, or gone.
        self.cancelled: deque[str] = deque(maxlen=_KEPT)
        # Ids that were given to the Abort call.
        self.aborted: deque[str] = deque(maxlen=_KEPT)
        self.active = 0

    @contextmanager
    def live(self) -> Iterator[None]:
        """Counts a Generate or Embed call while it lasts."""
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
