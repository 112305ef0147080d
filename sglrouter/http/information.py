"""What the engines say of themselves: the model, their arguments, their load."""

from __future__ import annotations

from typing import Any

import falcon

from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import BadRequest, EngineError
from sglrouter.http.engines import answer_with_information, ask_all
from sglrouter.http.request_id import metadata_of
from sglrouter.serving.redaction import redacted
from sglrouter.serving.service import Service


class ModelInfo:
    """GET /model_info, /get_model_info: as SGLang's own server answers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Asks every engine once; it does not change while the engine runs."""
        replies = ask_all(self._service.fleet.engines, self._ask)
        found = next((reply.answer for reply in replies if reply.answer is not None), {})
        # They all serve the same model.
        answer_with_information(resp, replies, common=found)

    on_head = on_get

    def _ask(self, engine: Engine) -> dict[str, Any]:
        facts = engine.facts_now()
        if facts == EngineFacts():
            raise EngineError(
                "The engine does not say what it serves", status=503, code="engine_unavailable"
            )
        service = self._service
        model = service.model
        return {
            "model_path": facts.model_path,
            "served_model_name": service.model_name(facts),
            "tokenizer_path": facts.tokenizer_path,
            "is_generation": facts.is_generation,
            "preferred_sampling_params": facts.preferred_sampling_params or None,
            "weight_version": facts.weight_version,
            # The router reads answers, not the engine, and takes no media.
            "reasoning_parser": model.formats.reasoning_parser or None,
            "tool_call_parser": model.formats.tool_parser or None,
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": facts.model_type,
            "architectures": facts.architectures,
            "max_context_length": service.limits(facts).context,
            "vocab_size": model.vocab_size,
        }


class ServerInfo:
    """GET /server_info, /get_server_info: arguments and state, without secrets."""

    def __init__(self, service: Service) -> None:
        self._engines = service.fleet.engines

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Asks every engine."""
        metadata = metadata_of(req)

        def ask(engine: Engine) -> dict[str, Any]:
            info = engine.control.server_info(metadata=metadata)
            # SGLang's own server has the arguments at the top, and calls its version so.
            return redacted(
                {
                    **info.pop("server_args"),
                    **info.pop("scheduler_info"),
                    **info,
                    "version": info["sglang_version"],
                }
            )

        answer_with_information(resp, ask_all(self._engines, ask))

    on_head = on_get


class Loads:
    """GET /v1/loads, /get_loads: how busy the engines are."""

    def __init__(self, service: Service) -> None:
        self._engines = service.fleet.engines

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Asks every engine.

        `include` names sections, separated by commas, and `dp_rank` a rank.
        """
        if req.get_param("format", default="json") != "json":
            raise BadRequest("format can only be json", param="format", code="invalid_value")
        include = [
            name.strip()
            for value in req.get_param_as_list("include") or []
            for name in value.split(",")
            if name.strip()
        ]
        rank = req.get_param_as_int("dp_rank", min_value=0, max_value=2**31 - 1)
        metadata = metadata_of(req)
        replies = ask_all(
            self._engines,
            lambda engine: engine.control.loads(include, dp_rank=rank, metadata=metadata),
        )
        answer_with_information(resp, replies)

    on_head = on_get
