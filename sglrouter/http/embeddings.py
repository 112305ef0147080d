"""POST /v1/embeddings, /v1/classify, /encode, /classify."""

from __future__ import annotations

import falcon

from sglrouter.http.batches import respond_batch
from sglrouter.http.bodies import read_body
from sglrouter.http.request_id import metadata_of
from sglrouter.serving.embeddings import VectorServing
from sglrouter.serving.service import Service


class Embeddings:
    """Texts to vectors, or to what vectors stand for."""

    def __init__(self, service: Service) -> None:
        self._limit = service.settings.max_body
        self._serving = VectorServing(service)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles a request for OpenAI's embeddings."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.embeddings(body, metadata_of(req)))

    def on_post_classes(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles a request for classes."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.classes(body, metadata_of(req)))

    def on_post_encoded(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles a request in SGLang's own form."""
        body = read_body(req, self._limit)
        respond_batch(req, resp, self._serving.encoded(body, metadata_of(req)))

    def on_put_encoded(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles what SGLang takes as well as a POST."""
        self.on_post_encoded(req, resp)
