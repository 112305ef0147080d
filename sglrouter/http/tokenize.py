"""POST /v1/tokenize, /tokenize, /v1/detokenize, /detokenize."""

from __future__ import annotations

from itertools import chain

import falcon

from sglrouter.http.bodies import read_body
from sglrouter.http.client import answer, waiting_client_of
from sglrouter.serving.service import Service
from sglrouter.serving.tokenize import Tokenizing
from sglrouter.turns import taking_turns


class Tokenize:
    """Texts or a conversation to ids."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tokenizing = Tokenizing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one request."""
        pieces = self._tokenizing.tokenize(read_body(req, self._service.settings.max_body))
        first, second = next(pieces), next(pieces, None)
        resp.content_type = falcon.MEDIA_JSON
        if second is None:
            answer(resp, first, waiting_client_of(req))
        else:
            resp.stream = taking_turns(chain((first, second), pieces), self._service.pause)


class Detokenize:
    """Ids to text."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tokenizing = Tokenizing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one request."""
        body = self._tokenizing.detokenize(read_body(req, self._service.settings.max_body))
        resp.content_type = falcon.MEDIA_JSON
        answer(resp, body, waiting_client_of(req))
