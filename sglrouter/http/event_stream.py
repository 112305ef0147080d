"""The body of a streaming response: pushed where that can be, else pulled.

What goes wrong in one stream is kept in it and ends that stream alone.
"""

from __future__ import annotations

from sglrouter.http.client import Client, Failure
from sglrouter.http.event_source import EventSource
from sglrouter.http.pulled import PulledStream
from sglrouter.http.pushed import PushedBody, PushedStream


def event_stream(
    source: EventSource, client: Client | None, failure: Failure
) -> PushedStream | PushedBody | PulledStream:
    """Opens the stream of an answer.

    Args:
        source: Makes the events.
        client: The client, if it can be written to directly.
        failure: Makes the response to an error that comes before the first event.

    Returns:
        A delivery for a request without a greenlet; else what the server iterates.

    Raises:
        RouterError: The engine failed at once, or the client has left; no response has
            begun. Not for a delivery, which does not wait.
    """
    if client is None:
        return PulledStream(source, source.open())
    if not source.answer.exchange.listen(_nothing):
        return _watched(source, client)
    if not client.has_greenlet:
        return PushedStream(source, client, failure)
    body = PushedBody(PushedStream(source, client))
    body.open()
    return body


def _watched(source: EventSource, client: Client) -> PulledStream:
    """A stream over a channel that does not call back: its client is watched all the same."""
    exchange = source.answer.exchange
    client.watch(exchange.end_early, exchange.nudge)
    try:
        return PulledStream(source, source.open(), client)
    except BaseException:
        client.unwatch()
        raise


def _nothing() -> None:
    """Listens to nothing yet."""
