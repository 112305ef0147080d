"""Whether the router is up, and whether its engines are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import falcon
import msgspec

from sglrouter.engines.wire.control_messages import Outcome
from sglrouter.http.engines import Reply, ask_all
from sglrouter.http.request_id import metadata_of
from sglrouter.serving.service import Service
from sglrouter.version import __version__

_encode = msgspec.json.Encoder().encode


class Health:
    """GET /health, /readiness, /ready, /ping: 200 while an engine serves, else 503."""

    def __init__(self, service: Service) -> None:
        self._fleet = service.fleet
        self._model = service.model

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Asks every engine's health service."""
        engines = [
            {
                "endpoint": reply.endpoint,
                "healthy": bool(reply.answer),
                "channel": engine.channel.counts(),
            }
            for engine, reply in zip(
                self._fleet.engines,
                ask_all(self._fleet.engines, lambda engine: engine.healthy()),
                strict=True,
            )
        ]
        prompts = self._model.prompts
        _answer(resp, engines, tokenizer=prompts.encoder.counts(), chat_template=prompts.rendering)

    on_head = on_get


class HealthGenerate:
    """GET /health_generate: 200 while an engine makes a token when asked for one, else 503."""

    def __init__(self, service: Service) -> None:
        self._fleet = service.fleet

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine make a token."""
        metadata = metadata_of(req)
        replies = ask_all(
            self._fleet.engines, lambda engine: engine.control.health_generate(metadata=metadata)
        )
        _answer(
            resp,
            [
                {
                    "endpoint": reply.endpoint,
                    "healthy": reply.answer is not None and reply.answer.success,
                    "message": _words(reply),
                }
                for reply in replies
            ],
        )

    on_head = on_get


class Liveness:
    """GET /liveness: 200 while this worker answers at all."""

    in_callbacks = True

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answers."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = b'{"status":"ok"}'

    on_head = on_get


class Version:
    """GET /version: the router's."""

    in_callbacks = True

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answers."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode({"version": __version__})

    on_head = on_get


def _answer(resp: falcon.Response, engines: Sequence[dict[str, Any]], **others: object) -> None:
    ok = any(engine["healthy"] for engine in engines)
    resp.status = falcon.HTTP_200 if ok else falcon.HTTP_503
    resp.content_type = falcon.MEDIA_JSON
    resp.data = _encode(
        {"status": "ok" if ok else "no engine is serving", "engines": engines, **others}
    )


def _words(reply: Reply[Outcome]) -> str:
    """What the engine said, or why it did not."""
    if reply.answer is not None:
        return reply.answer.message
    return reply.error.message if reply.error is not None else ""
