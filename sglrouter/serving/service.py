"""What every kind of request is served with: the settings, the model, the engines."""

from __future__ import annotations

from collections.abc import Mapping

from sglrouter.backend.channel import Metadata
from sglrouter.backend.generation import Generation
from sglrouter.backend.pool import Engine, Pool
from sglrouter.backend.scheduler import EngineFacts
from sglrouter.config import Settings
from sglrouter.model import Model
from sglrouter.schema.json_bounds import JsonBounds
from sglrouter.schema.sampling import SamplingRequest
from sglrouter.serving.adapters import adapter_id, parse_adapters
from sglrouter.serving.sampling import Limits, check_names
from sglrouter.serving.sampling_defaults import SamplingDefaults


class Service:
    """One model and its engines.

    Attributes:
        settings: The operator's wishes.
        model: The model.
        pool: Its engines.
        bounds: What the body of a request may hold.
    """

    def __init__(self, settings: Settings, model: Model, pool: Pool) -> None:
        self.settings = settings
        self.model = model
        self.pool = pool
        self.bounds = JsonBounds(settings.max_json_depth, settings.max_json_values)
        self._defaults = SamplingDefaults(model.files.sampling_defaults)
        self._adapters = parse_adapters(settings.lora_adapters)

    def limits(self, facts: EngineFacts) -> Limits:
        """What bounds a request on an engine."""
        settings = self.settings
        return Limits(
            vocab_size=self.model.vocab_size,
            context_length=self.model.context_length,
            max_prompt_tokens=facts.max_prompt_tokens,
            max_n=settings.max_n,
            max_logprobs=settings.max_logprobs,
            max_grammar=settings.max_grammar,
        )

    def defaults(self, facts: EngineFacts) -> Mapping[str, float]:
        """The sampling parameters that hold where a request says nothing."""
        return self._defaults.on_engine(facts.sampling_defaults)

    def model_name(self, facts: EngineFacts) -> str:
        """What clients call the model: the operator's name for it, or the engine's."""
        return self.model.name or facts.model_name or "default"

    def adapter(self, request: SamplingRequest) -> str:
        """The engine's id of the LoRA adapter that a request is for; empty for none.

        Raises:
            BadRequest: There is no such model or adapter.
        """
        check_names(request)
        return adapter_id(request, self._adapters)

    def generate(
        self, engine: Engine, requests: Mapping[str, bytes], metadata: Metadata = ()
    ) -> Generation:
        """Starts one call for each serialized GenerateRequest.

        Somebody must see the calls to their end from here on.

        Args:
            engine: From the pool.
            requests: The messages by their request ids.
            metadata: Request headers for the engine.
        """
        settings = self.settings
        return engine.generate(
            requests,
            timeout=settings.request_timeout,
            first_timeout=settings.first_token_timeout,
            idle_timeout=settings.idle_timeout,
            metadata=metadata,
        )
