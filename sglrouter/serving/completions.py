"""Text completions: from prompts to the calls that continue them.

Strategy: there is one call for each sample, those of a prompt beside each other, and all
run at once. A failing one fails the request and cancels the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.scheduler import (
    EngineFacts,
    Sampling,
    generate_request,
    new_request_id,
)
from sglrouter.errors import BadRequest, Invalid
from sglrouter.output.head import Head
from sglrouter.output.prompt_text import PromptText
from sglrouter.output.text import TextChoice, TextCompletion, TextStream
from sglrouter.request.grammar import Grammar, response_constraint
from sglrouter.request.limits import Limits
from sglrouter.request.raw_prompts import RawPrompt, RawPrompts
from sglrouter.request.sampling import MAX_TOP_LOGPROBS, choices, sampling
from sglrouter.schema.completions import (
    DEFAULT_MAX_TOKENS,
    CompletionRequest,
    decode_completion_request,
)
from sglrouter.schema.sampling import ignored_fields
from sglrouter.serving.answer import Answer
from sglrouter.serving.in_flight import names_of
from sglrouter.serving.samples import sample_of
from sglrouter.serving.service import Service
from sglrouter.turns import taking_turns


class _Work(msgspec.Struct, frozen=True):
    """One prompt and what to do with it.

    Attributes:
        shown: What the client sees of the prompt; None for nothing.
    """

    prompt: RawPrompt
    sampling: Sampling
    shown: PromptText | None


class _Plan(msgspec.Struct, frozen=True):
    """A checked request.

    Attributes:
        n: Choices that are returned of each prompt.
        samples: Samples that are made of each.
        scored: Whether the samples' tokens need log probabilities.
    """

    work: list[_Work]
    n: int
    samples: int
    scored: bool
    grammar: Grammar
    lora_id: str


class CompletionServing:
    """Continues texts.

    Args:
        service: What with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._prompts = RawPrompts(
            service.model.prompts.encoder,
            service.model.detokenizers,
            service.settings.max_prompts,
            service.pause,
        )

    def start(self, body: bytes, metadata: Metadata = ()) -> Answer:
        """Starts the answer to a request.

        Args:
            body: A CompletionRequest as JSON.
            metadata: Request headers for the engine.

        Raises:
            RouterError: The request cannot be served; nothing was sent.
        """
        service = self._service
        request = service.read(decode_completion_request, body)
        facts = service.facts_for_text()
        try:
            plan = self._plan(request, facts)
        except Invalid as exc:
            raise exc.named(request.own_name) from exc
        # The samples of one prompt beside each other.
        each = [work for work in plan.work for _ in range(plan.samples)]
        readers = [self._choice(request, plan, work) for work in each]
        head = Head(
            f"cmpl-{new_request_id()}",
            int(time.time()),
            request.model or service.model_name(facts),
        )
        names = names_of(request.rid, head.id)
        exchange = service.generate(
            dict(
                _engine_request(request, plan, work) for work in taking_turns(each, service.pause)
            ),
            plan.work[0].prompt.ids if plan.work else (),
            metadata,
            names,
        )
        return Answer(
            [reader.sample for reader in readers],
            exchange,
            events=self._events(request, plan, head, readers) if request.stream else None,
            body=None if request.stream else self._body(plan, head, readers),
            grammar=plan.grammar,
            ignored=ignored_fields(request),
            pause=service.pause,
        )

    def _plan(self, request: CompletionRequest, facts: EngineFacts) -> _Plan:
        """Checks everything before anything is sent."""
        service = self._service
        limits = service.limits(facts)
        if request.suffix:
            raise BadRequest(
                "suffix is not supported: write the prompt with the model's own tokens for the "
                "gap between two texts",
                code="unsupported_parameter",
                param="suffix",
            )
        lora_id = service.adapter(request, facts)
        n = choices(request, limits)
        samples = _samples(request, n, limits)
        _check_alternatives(request, limits)
        field, constraint = response_constraint(request, service.pause) or (None, None)
        prompts = self._prompts.read(request.prompt, limits, "prompt")
        if request.echo:
            self._check_echo(prompts, n)
        params = _Params(request, service.defaults(facts), limits, constraint)
        wanted = [(prompt, params.of(prompt)) for prompt in prompts]
        scored = request.logprobs is not None or samples > n
        if scored:
            _check_logprobs(request, wanted, samples, limits)
        return _Plan(
            work=[
                _Work(prompt, each, self._shown(request, prompt))
                for prompt, each in taking_turns(wanted, service.pause)
            ],
            n=n,
            samples=samples,
            scored=scored,
            grammar=Grammar(constraint, request.own_name(field) if field else None),
            lora_id=lora_id,
        )

    def _check_echo(self, prompts: Sequence[RawPrompt], n: int) -> None:
        """Refuses an answer that would be many times as large as its request."""
        most = self._service.settings.max_prompt
        size = n * sum(len(prompt.text or prompt.ids) for prompt in prompts)
        if size > most:
            raise BadRequest(
                f"The echoed prompts of {n} choices each would be longer than {most} characters",
                code="invalid_value",
                param="echo",
            )

    def _shown(self, request: CompletionRequest, prompt: RawPrompt) -> PromptText | None:
        placed = request.logprobs is not None
        if not request.echo and not placed:
            return None
        return self._prompts.shown(
            prompt,
            skip_special=request.skip_special_tokens is not False,
            placed=placed and bool(request.echo),
        )

    def _choice(self, request: CompletionRequest, plan: _Plan, work: _Work) -> TextChoice:
        shows = request.logprobs is not None
        sample = sample_of(
            self._service.model,
            work.sampling,
            work.prompt.ids,
            logprobs=plan.scored,
            input_logprobs=shows and bool(request.echo),
        )
        return TextChoice(sample, work.shown, echo=bool(request.echo), logprobs=shows)

    def _events(
        self, request: CompletionRequest, plan: _Plan, head: Head, readers: list[TextChoice]
    ) -> TextStream:
        options = request.stream_options
        return TextStream(
            head,
            readers,
            self._service.model.detokenizers.piece,
            per_prompt=plan.samples,
            include_usage=options is not None and bool(options.include_usage),
            continuous_usage=options is not None and bool(options.continuous_usage_stats),
        )

    def _body(self, plan: _Plan, head: Head, readers: list[TextChoice]) -> TextCompletion:
        return TextCompletion(
            head,
            readers,
            self._service.model.detokenizers.piece,
            per_prompt=plan.samples,
            best=plan.n,
            pause=self._service.pause,
        )


class _Params:
    """The sampling parameters of a request's prompts, which rarely differ."""

    def __init__(
        self,
        request: CompletionRequest,
        defaults: Mapping[str, float],
        limits: Limits,
        constraint: tuple[str, str] | None,
    ) -> None:
        if request.max_tokens is None:
            request = msgspec.structs.replace(request, max_tokens=DEFAULT_MAX_TOKENS)
        self._request = request
        self._defaults = defaults
        self._limits = limits
        self._constraint = constraint
        self._usual = self._with(0)

    def of(self, prompt: RawPrompt) -> Sampling:
        """Those of one prompt, which may have less room than asked for."""
        tokens = len(prompt.ids)
        room = self._limits.room(tokens)
        if room is None or room >= (self._usual.max_new_tokens or 0):
            return self._usual
        return self._with(tokens)

    def _with(self, tokens: int) -> Sampling:
        return sampling(
            self._request,
            prompt_tokens=tokens,
            defaults=self._defaults,
            limits=self._limits,
            constraint=self._constraint,
            no_tokens=True,
        )


def _engine_request(request: CompletionRequest, plan: _Plan, work: _Work) -> tuple[str, bytes]:
    request_id = new_request_id()
    scores_prompt = request.logprobs is not None and request.echo
    return request_id, generate_request(
        request_id=request_id,
        text=work.prompt.text or "",
        ids=work.prompt.ids,
        sampling=work.sampling,
        stream=bool(request.stream),
        logprobs=plan.scored,
        top_logprobs=request.logprobs or 0,
        lora_id=plan.lora_id,
        logprob_start_len=0 if scores_prompt else -1,
    )


def _samples(request: CompletionRequest, n: int, limits: Limits) -> int:
    """How many samples are made of each prompt."""
    best_of = request.best_of
    if best_of is None:
        return n
    if not n <= best_of <= limits.max_n:
        raise BadRequest(
            f"best_of must be between n, which is {n}, and {limits.max_n}, not {str(best_of)[:64]}",
            code="invalid_value",
            param="best_of",
        )
    if request.stream and best_of != n:
        raise BadRequest(
            "best_of above n cannot be streamed, since the best are known at the end: set "
            "stream to false, or leave best_of out",
            code="invalid_value",
            param="best_of",
        )
    return best_of


def _check_alternatives(request: CompletionRequest, limits: Limits) -> None:
    most = min(MAX_TOP_LOGPROBS, limits.vocab_size)  # more than there are kills
    if request.logprobs is not None and not 0 <= request.logprobs <= most:
        raise BadRequest(
            f"logprobs must be between 0 and {most}, not {str(request.logprobs)[:64]}",
            code="invalid_value",
            param="logprobs",
        )


def _check_logprobs(
    request: CompletionRequest,
    wanted: Sequence[tuple[RawPrompt, Sampling]],
    samples: int,
    limits: Limits,
) -> None:
    """Refuses more log probabilities than may be held in memory.

    A stream holds those of its prompts, if they are echoed, and no others.
    """
    tokens = 0
    for prompt, params in wanted:
        if request.echo and request.logprobs is not None:
            tokens += len(prompt.ids)
        if not request.stream:
            tokens += params.max_new_tokens or 0
    each = 1 + (request.logprobs or 0)
    if samples * tokens * each > limits.max_logprobs:
        raise BadRequest(
            f"{samples} choices of {tokens} tokens with {each} log probabilities each are more "
            f"than {limits.max_logprobs} in one answer. Please send fewer prompts in one "
            "request, stream it, or set a smaller max_tokens.",
            code="invalid_value",
            param="logprobs",
        )
