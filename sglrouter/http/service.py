"""What the service says of itself: health, and the model it serves."""

from __future__ import annotations

import falcon
import msgspec

from sglrouter.serving.service import Service

_encode = msgspec.json.Encoder().encode


class Health:
    """GET /health, /readiness: 200 while an engine serves, else 503."""

    def __init__(self, service: Service) -> None:
        self._pool = service.pool
        self._model = service.model

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Asks every engine's health service."""
        engines = [
            {
                "endpoint": str(engine.endpoint),
                "healthy": engine.healthy(),
                "channel": engine.channel.counts(),
            }
            for engine in self._pool.engines
        ]
        ok = any(engine["healthy"] for engine in engines)
        resp.status = falcon.HTTP_200 if ok else falcon.HTTP_503
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode(
            {
                "status": "ok" if ok else "no engine is serving",
                "engines": engines,
                "tokenizer": self._model.prompts.encoder.counts(),
            }
        )


class Liveness:
    """GET /liveness: 200 while this worker answers at all."""

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answers."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = b'{"status":"ok"}'


class Models:
    """GET /v1/models, and /v1/models/{name} for one of them."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Lists the model."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode({"object": "list", "data": [self._entry()]})

    def on_get_one(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Shows the model, if that is its name."""
        entry = self._entry()
        if name != entry["id"]:
            raise falcon.HTTPNotFound
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode(entry)

    def _entry(self) -> dict[str, object]:
        """Agents size their prompts by max_model_len."""
        service = self._service
        model = service.model
        return {
            "id": service.model_name(service.pool.engines[0].facts()),
            "object": "model",
            "created": model.created,
            "owned_by": "sglang",
            "root": str(model.files.directory),
            "max_model_len": model.context_length or None,
            "vocab_size": model.vocab_size,
            "eos_token_ids": sorted(model.files.eos_ids),
        }
