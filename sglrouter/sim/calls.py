"""What an engine remembers of its calls, for the test that looks at it.

Filled by the server's thread, read by any other: each field is appended to or counted in
single steps, and the readers get copies. The lists keep the latest calls only, so that
an engine can run for days.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sglrouter._proto import scheduler as pb

_KEPT = 10_000


class CallLog:
    """The Generate, Embed and Abort calls of one engine, over restarts."""

    def __init__(self) -> None:
        self.requests: deque[pb.GenerateRequest] = deque(maxlen=_KEPT)
        self.metadata: deque[dict[str, str]] = deque(maxlen=_KEPT)
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
