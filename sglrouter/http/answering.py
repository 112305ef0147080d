"""An answer as an HTTP response: a stream of events, or one body."""

from __future__ import annotations

import falcon

from sglrouter.http.client import answer as answer_with
from sglrouter.http.client import client_of, watching
from sglrouter.http.event_stream import event_stream
from sglrouter.http.request_id import request_id_of
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
    client = client_of(req)
    if answer.ignored:
        resp.set_header("X-Sglrouter-Ignored", ",".join(answer.ignored))
    if answer.streams:
        resp.stream = event_stream(
            answer, heartbeat=heartbeat, client=client, request_id=request_id_of(req)
        )
        resp.content_type = "text/event-stream; charset=utf-8"
        resp.set_header("Cache-Control", "no-cache")
        # nginx and its kin must pass each event on as it comes.
        resp.set_header("X-Accel-Buffering", "no")
        return
    with watching(client, answer.exchange.end_early):
        body = answer.collect()
    resp.content_type = falcon.MEDIA_JSON
    answer_with(resp, body, client)
