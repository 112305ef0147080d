"""POST and PUT /generate and POST /abort_request, as SGLang's own server has them."""

from __future__ import annotations

import falcon

from sglrouter.errors import BadRequest
from sglrouter.http.answering import respond
from sglrouter.http.bodies import read_body
from sglrouter.http.origins import ControlGuard
from sglrouter.http.request_id import metadata_of
from sglrouter.schema.generate import decode_abort_request
from sglrouter.serving.native import NativeServing
from sglrouter.serving.service import Service


class Generate:
    """Answers native requests, streamed or whole."""

    in_callbacks = True

    def __init__(self, service: Service) -> None:
        self._settings = service.settings
        self._serving = NativeServing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one request."""
        # Nobody holds the body while the engine works on it.
        answer = self._serving.start(read_body(req, self._settings.max_body), metadata_of(req))
        respond(req, resp, answer, self._settings.heartbeat)

    on_put = on_post


class AbortRequests:
    """Stops requests by the names that their clients gave them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._guard = ControlGuard(service.settings)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Stops one, or all; there need not be any."""
        self._guard.check(req)
        service = self._service
        body = read_body(req, service.settings.max_body)
        request = service.read(decode_abort_request, body)
        if not request.abort_all and not request.rid:
            raise BadRequest(
                "Name the request to stop as rid, or set abort_all to true",
                code="missing_rid",
                param="rid",
            )
        service.in_flight.abort_everywhere(None if request.abort_all else request.rid)
        resp.content_length = 0
