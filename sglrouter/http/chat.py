"""POST /v1/chat/completions."""

from __future__ import annotations

import falcon

from sglrouter.http.answering import respond
from sglrouter.http.bodies import read_body
from sglrouter.http.request_id import metadata_of
from sglrouter.serving.chat import ChatServing
from sglrouter.serving.service import Service


class ChatCompletions:
    """Answers conversations, streamed or whole."""

    in_callbacks = True

    def __init__(self, service: Service) -> None:
        self._settings = service.settings
        self._serving = ChatServing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one completion."""
        # Nobody holds body or request while the engine works on it.
        answer = self._serving.start(
            self._serving.read(read_body(req, self._settings.max_body)), metadata_of(req)
        )
        respond(req, resp, answer, self._settings.heartbeat)
