"""POST /v1/tokenize, /tokenize, /v1/detokenize, /detokenize."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import falcon

from sglrouter.http.answering import let_others_go_on
from sglrouter.http.bodies import read_body
from sglrouter.http.client import answer, client_of
from sglrouter.serving.service import Service
from sglrouter.serving.tokenize import Tokenizing


class Tokenize:
    """Texts or a conversation to ids."""

    def __init__(self, service: Service) -> None:
        self._limit = service.settings.max_body
        self._tokenizing = Tokenizing(service, let_others_go_on)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one request."""
        pieces = self._tokenizing.tokenize(read_body(req, self._limit))
        first, second = next(pieces), next(pieces, None)
        resp.content_type = falcon.MEDIA_JSON
        if second is None:
            answer(resp, first, client_of(req))
        else:
            resp.stream = _taking_turns(chain((first, second), pieces))


class Detokenize:
    """Ids to text."""

    def __init__(self, service: Service) -> None:
        self._limit = service.settings.max_body
        self._tokenizing = Tokenizing(service, let_others_go_on)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one request."""
        body = self._tokenizing.detokenize(read_body(req, self._limit))
        resp.content_type = falcon.MEDIA_JSON
        answer(resp, body, client_of(req))


def _taking_turns(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        let_others_go_on()
