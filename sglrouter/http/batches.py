"""An answer of many calls as an HTTP response."""

from __future__ import annotations

import falcon

from sglrouter.http.client import answer as answer_with
from sglrouter.http.client import waiting_client_of, watching
from sglrouter.serving.batch import BatchAnswer


def respond_batch(req: falcon.Request, resp: falcon.Response, answer: BatchAnswer) -> None:
    """Makes an answer the response; a client that leaves ends its calls.

    Args:
        req: The request.
        resp: Its response.
        answer: The answer, not yet collected.

    Raises:
        RouterError: An engine failed, or the client has left.
    """
    client = waiting_client_of(req)
    if answer.ignored:
        resp.set_header("X-Sglrouter-Ignored", ",".join(answer.ignored))
    with watching(client, answer.end_early):
        body = answer.collect()
    resp.content_type = falcon.MEDIA_JSON
    answer_with(resp, body, client)
