"""The events of one answer, its silences and its faults: what both ways out draw from.

Strategy: the first answer of the engine is awaited before the response begins, so that
a refusal still gets its own HTTP status; after a heartbeat's time of silence the
response begins without it, and from then on an error is the stream's last event.
"""

from __future__ import annotations

import logging

from sglrouter.errors import RouterError
from sglrouter.serving.answer import Answer

logger = logging.getLogger(__name__)

HEARTBEAT = b": ping\n\n"


class EventSource:
    """One answer as events.

    Args:
        answer: Makes the events.
        heartbeat: Seconds of silence after which a comment is sent.
        request_id: What log lines call the request.

    Attributes:
        answer: As given.
        heartbeat: As given.
    """

    def __init__(self, answer: Answer, heartbeat: float, request_id: str = "-") -> None:
        self.answer = answer
        self.heartbeat = heartbeat
        self._request_id = request_id

    def open(self) -> bytes:
        """Waits for the first events.

        Raises:
            RouterError: The engine failed at once, or the client has left: no response is
                to begin.
        """
        try:
            events, error = self._wait()
            if error is not None and not events:
                raise error
        except BaseException:
            self.close()
            raise
        events = self.answer.begin() + events
        return events if error is None else events + self.fail(error)

    def wait(self) -> bytes:
        """Waits for more events: the last ones, if the engine fails.

        Raises:
            ClientGone: The client has left.
        """
        events, error = self._wait()
        return events if error is None else events + self.fail(error)

    def fail(self, error: RouterError) -> bytes:
        """Ends the stream with an error; returns its last events."""
        logger.warning(
            "request %s: the stream ended with an error: %s", self._request_id, error.message
        )
        return self.answer.fail(error)

    def fail_by(self, exc: Exception) -> bytes:
        """Ends the stream by a bug of ours: all details to the log, none to the client."""
        logger.error("request %s: the stream failed", self._request_id, exc_info=exc)
        return self.fail(RouterError("The router failed", code="internal_error"))

    def close(self) -> None:
        """Stops the engine's work, if any is left."""
        self.answer.close()

    def _wait(self) -> tuple[bytes, RouterError | None]:
        """Waits for events; a heartbeat if there are none for too long."""
        events, error = self.answer.wait(self.heartbeat)
        if not events and error is None:
            events = HEARTBEAT
        return events, error
