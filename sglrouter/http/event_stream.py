"""The body of a streaming response: pushed where that can be, else pulled.

What goes wrong in one stream is kept in it and ends that stream alone.
"""

from __future__ import annotations

from sglrouter.http.client import Client
from sglrouter.http.event_source import EventSource
from sglrouter.http.pulled import PulledStream
from sglrouter.http.pushed import PushedStream
from sglrouter.serving.answer import Answer


def event_stream(
    answer: Answer,
    *,
    heartbeat: float,
    client: Client | None = None,
    request_id: str = "-",
) -> PushedStream | PulledStream:
    """Opens the stream of an answer.

    Args:
        answer: Makes the events.
        heartbeat: Seconds of silence after which a comment is sent.
        client: The client, if it can be written to directly.
        request_id: What log lines call the request.

    Raises:
        RouterError: The engine failed at once, or the client has left; no response has
            begun.
    """
    source = EventSource(answer, heartbeat, request_id)
    if client is None:
        return PulledStream(source, source.open())
    stream = PushedStream(source, client)
    return stream if stream.open() else PulledStream(source, stream.first, client)
