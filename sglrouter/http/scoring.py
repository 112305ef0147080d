"""POST /v1/score, /v1/rerank, /rerank, /v2/rerank."""

from __future__ import annotations

import falcon

from sglrouter.http.batches import respond_batch
from sglrouter.http.bodies import read_body
from sglrouter.http.request_id import metadata_of
from sglrouter.serving.ranking import RerankServing
from sglrouter.serving.scoring import ScoreServing
from sglrouter.serving.service import Service


class Score:
    """Scores items by the tokens that may follow them."""

    def __init__(self, service: Service) -> None:
        self._limit = service.settings.max_body
        self._serving = ScoreServing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one request."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.start(body, metadata_of(req)))


class Rerank:
    """Ranks documents by how well they fit a query."""

    def __init__(self, service: Service) -> None:
        self._limit = service.settings.max_body
        self._serving = RerankServing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As SGLang's gateways answer."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.whole(body, metadata_of(req)))

    def on_post_sglang(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As SGLang's own server answers."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.bare(body, metadata_of(req)))

    def on_post_cohere(self, req: falcon.Request, resp: falcon.Response) -> None:
        """As Cohere answers."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.cohere(body, metadata_of(req)))

    def on_put_sglang(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles what SGLang takes as well as a POST."""
        self.on_post_sglang(req, resp)
