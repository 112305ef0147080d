"""A stream that the server pulls: its greenlet or thread waits for each event.

It works everywhere: over any channel, under any WSGI server.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Self

from sglrouter.errors import ClientGone
from sglrouter.http.client import Client
from sglrouter.http.event_source import EventSource


class PulledStream(Iterator[bytes]):
    """Server-sent events of one answer, as the WSGI server iterates them.

    Args:
        source: Where they come from, which is open.
        first: Its first events.
        client: The client, if it is watched.
    """

    def __init__(self, source: EventSource, first: bytes, client: Client | None = None) -> None:
        self._source = source
        self._first = first
        self._client = client

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        first, self._first = self._first, b""
        if first:
            return first
        if self._source.answer.ended:
            raise StopIteration
        try:
            return self._source.wait()
        except ClientGone as gone:
            raise BrokenPipeError(errno.EPIPE, gone.message) from gone
        except Exception as exc:
            return self._source.fail_by(exc)

    def close(self) -> None:
        """Stops the engine's work; the server calls it when the client is gone, too."""
        self._source.close()
        if self._client is not None:
            self._client.unwatch()
