"""An answer as an HTTP response: a stream of events, or one body."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import cast

import falcon

from sglrouter.http.client import answer as answer_with
from sglrouter.http.client import client_of, plain_client_of, waiting_client_of, watching
from sglrouter.http.event_source import EventSource
from sglrouter.http.event_stream import event_stream
from sglrouter.http.failures import failure_response
from sglrouter.http.request_id import request_id_of
from sglrouter.http.whole import WholeDelivery
from sglrouter.serving.answer import Answer


def respond(req: falcon.Request, resp: falcon.Response, answer: Answer, heartbeat: float) -> None:
    """Makes an answer the response.

    Args:
        req: The request.
        resp: Its response.
        answer: The answer, just started.
        heartbeat: Seconds of silence after which a stream gets a comment.

    Raises:
        RouterError: The engine failed before the response began, or the client has left.
    """
    if answer.ignored:
        resp.set_header("X-Sglrouter-Ignored", ",".join(answer.ignored))
    if answer.streams:
        # Falcon hands on whatever it is; our worker knows deliveries.
        source = EventSource(answer, heartbeat, request_id_of(req))
        stream = event_stream(source, client_of(req), partial(failure_response, req, resp))
        resp.stream = cast("Iterable[bytes]", stream)
        resp.content_type = "text/event-stream; charset=utf-8"
        resp.set_header("Cache-Control", "no-cache")
        # nginx and its kin must pass each event on as it comes.
        resp.set_header("X-Accel-Buffering", "no")
        return
    resp.content_type = falcon.MEDIA_JSON
    plain_client = plain_client_of(req)
    if plain_client is not None:
        delivery = WholeDelivery(answer, plain_client, partial(failure_response, req, resp))
        resp.stream = cast("Iterable[bytes]", delivery)
        return
    client = waiting_client_of(req)
    with watching(client, answer.exchange.end_early):
        body = answer.collect()
    answer_with(resp, body, client)
