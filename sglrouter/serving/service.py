"""What every kind of request is served with: the settings, the model, the engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from sglrouter.config import Settings
from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.exchange import PARALLEL, Deadlines, Exchange
from sglrouter.engines.fleet.facts import ModelFacts
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.fleet.placement import Job
from sglrouter.engines.wire.scheduler import GENERATE, EngineFacts
from sglrouter.errors import BadRequest
from sglrouter.model import Model
from sglrouter.request.limits import Limits
from sglrouter.request.sampling_defaults import SamplingDefaults
from sglrouter.schema.json_bounds import JsonBounds
from sglrouter.serving.in_flight import InFlight, Name
from sglrouter.serving.models import Models, Named
from sglrouter.turns import no_pause
from sglrouter.waiting import about_to_wait

T = TypeVar("T")

# Calls of samples that take a noticeable time to begin.
_MANY = 16

# Bytes of a body that takes milliseconds to decode, and as many to render.
_LARGE = 256 * 1024


def _go_on() -> None:
    pass


def _is_large(_size: int) -> None:
    pass


class Service:
    """One model and its engines.

    Attributes:
        settings: The operator's wishes.
        model: The model.
        fleet: Its engines.
        pause: Called now and then where a request takes long, to let others go on.
        bounds: What the body of a request may hold.
        large_request: Called with the size of a large body once it has been read.
        models: The names that requests may ask for.
        in_flight: The requests in flight.
    """

    def __init__(
        self,
        settings: Settings,
        model: Model,
        fleet: Fleet,
        pause: Callable[[], object] = _go_on,
        large_request: Callable[[int], object] = _is_large,
    ) -> None:
        self.settings = settings
        self.model = model
        self.fleet = fleet
        self.pause = pause
        self.large_request = large_request
        self.bounds = JsonBounds(settings.max_json_depth, settings.max_json_values)
        self._defaults = SamplingDefaults(model.files.sampling_defaults)
        self.models = Models(settings, model.name)
        self.in_flight = InFlight()
        timeout, first = settings.request_timeout, settings.first_token_timeout
        self._deadlines = Deadlines(timeout, first, settings.idle_timeout)
        self._short_deadlines = Deadlines(timeout, min(timeout, first), timeout)

    def read(self, decode: Callable[[bytes, JsonBounds], T], body: bytes) -> T:
        """Reads the body of a request.

        Args:
            decode: What reads it.
            body: The body.

        Raises:
            BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
        """
        request = decode(body, self.bounds)
        if len(body) > _LARGE:
            self.large_request(len(body))
            self.pause()
        return request

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

    def facts(self) -> ModelFacts:
        """What the engines say of the model; empty while none answers."""
        return self.fleet.facts()

    def facts_for_text(self) -> ModelFacts:
        """The same for a request for text.

        Raises:
            BadRequest: The model makes no text: its engines would never answer.
        """
        facts = self.fleet.facts()
        if facts.embeds:
            raise BadRequest(
                "This model makes embeddings and no text: use /v1/embeddings, /v1/classify or "
                "/v1/score",
                code="unsupported_model",
                param="model",
            )
        return facts

    def model_name(self, facts: EngineFacts) -> str:
        """What clients call the model: the operator's name for it, or the engine's."""
        return self.models.name(facts)

    def adapter(self, request: Named, facts: EngineFacts) -> str:
        """The engine's id of the LoRA adapter that a request is for; empty for none.

        Args:
            request: The request.
            facts: Of the engine that will serve it.

        Raises:
            RouterError: There is no such model (404) or adapter (400).
        """
        return self.models.adapter(request, facts)

    def generate(
        self,
        requests: Mapping[str, bytes],
        ids: Sequence[int],
        metadata: Metadata = (),
        names: Iterable[Name] = (),
    ) -> Exchange:
        """Places a request that is fit to be served, and starts a call for each sample.

        Somebody must see the calls to their end from here on.

        Args:
            requests: Serialized GenerateRequests by their request ids.
            ids: Those of the first prompt.
            metadata: Request headers for the engine.
            names: What clients may stop them by; see names_of().
        """
        job = Job(GENERATE, tuple(requests.values()), tuple(requests), ids, metadata)
        many = len(requests) > _MANY
        if many:
            about_to_wait()
        exchange = Exchange(self.fleet.place(job), job, self._deadlines)
        # Few begin at once: an engine must not see some of them twice.
        exchange.begin(self.pause if many else no_pause)
        self.in_flight.add(exchange, names)
        return exchange

    def ask(
        self,
        method: str,
        requests: Sequence[bytes],
        prompts: Sequence[Sequence[int]],
        metadata: Metadata = (),
    ) -> Exchange:
        """Places a request that is fit to be served, of short calls; see Exchange.answers().

        Somebody must see it to its end from here on.

        Args:
            method: Full method path of all calls.
            requests: Their messages, one for each prompt.
            prompts: The ids that are asked about.
            metadata: Request headers for the engine.
        """
        # No names: to abort an embedding by name would leave it with the engine for ever.
        job = Job(method, requests, (), prompts[0] if prompts else (), metadata)
        exchange = Exchange(self.fleet.place(job), job, self._short_deadlines, parallel=PARALLEL)
        self.in_flight.add(exchange)
        return exchange
