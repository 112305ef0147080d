"""GET /v1/models, and /v1/models/{name} for one of them."""

from __future__ import annotations

from typing import Any

import falcon
import msgspec

from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.serving.service import Service

_encode = msgspec.json.Encoder().encode


class ModelList:
    """The model and its LoRA adapters."""

    in_callbacks = True

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Lists them."""
        data = self._entries(self._service.facts())
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode({"object": "list", "data": data})

    def on_get_one(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Shows what a request of this name would get."""
        facts = self._service.facts()
        found = self._service.models.find(name, facts)
        if found is None:
            raise self._service.models.unknown(name, facts)
        wanted = found or self._service.model_name(facts)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = _encode(next(each for each in self._entries(facts) if each["id"] == wanted))

    on_head = on_get
    on_head_one = on_get_one

    def _entries(self, facts: EngineFacts) -> list[dict[str, Any]]:
        """Agents size their prompts by max_model_len, or max_input_tokens."""
        service = self._service
        limits, model = service.limits(facts), service.model
        return service.models.entries(
            facts,
            created=model.created,
            max_model_len=limits.context,
            max_input_tokens=limits.longest_prompt,
            vocab_size=model.vocab_size,
            eos_token_ids=sorted(model.files.eos_ids),
        )
