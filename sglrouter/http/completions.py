"""POST /v1/completions."""

from __future__ import annotations

import falcon

from sglrouter.http.answering import respond
from sglrouter.http.bodies import read_body
from sglrouter.http.request_id import metadata_of
from sglrouter.serving.completions import CompletionServing
from sglrouter.serving.service import Service


class Completions:
    """Continues texts, streamed or whole."""

    in_callbacks = True

    def __init__(self, service: Service) -> None:
        self._settings = service.settings
        self._serving = CompletionServing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one completion."""
        # Nobody holds the body while the engine works on it.
        answer = self._serving.start(read_body(req, self._settings.max_body), metadata_of(req))
        respond(req, resp, answer, self._settings.heartbeat)
