"""What the service says of itself: health, and the model it serves."""

from __future__ import annotations

import falcon
import msgspec

from sglrouter.backend.pool import Pool
from sglrouter.model import Model

_encode = msgspec.json.Encoder().encode


class Health:
    """GET /health, /readiness: 200 while an engine serves, else 503."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Asks every engine's health service."""
        engines = [
            {"endpoint": str(engine.endpoint), "healthy": engine.healthy()}
            for engine in self._pool.engines
        ]
        ok = any(engine["healthy"] for engine in engines)
        resp.status = falcon.HTTP_200 if ok else falcon.HTTP_503
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode({"status": "ok" if ok else "no engine is serving", "engines": engines})


class Liveness:
    """GET /liveness: 200 while this worker answers at all."""

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answers."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = b'{"status":"ok"}'


class Models:
    """GET /v1/models, and /v1/models/{name} for one of them."""

    def __init__(self, model: Model, pool: Pool) -> None:
        self._model = model
        self._pool = pool

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Lists the model."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode({"object": "list", "data": [self._entry()]})

    def on_get_one(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Shows the model, if that is its name."""
        if name != self._model.name:
            raise falcon.HTTPNotFound
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode(self._entry())

    def _entry(self) -> dict[str, object]:
        """Agents size their prompts by max_model_len."""
        model = self._model
        return {
            "id": model.name,
            "object": "model",
            "created": model.created,
            "owned_by": "sglang",
            "root": str(model.files.directory),
            "max_model_len": model.context_length or None,
            "vocab_size": model.vocab_size,
            "eos_token_ids": sorted(model.files.eos_ids),
        }
