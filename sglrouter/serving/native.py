"""SGLang's native requests: from prompts as text or ids to the calls that answer them.

A prompt is sent as it is: no chat template, no parser. Defaults are SGLang's for this
request, which are not those of conversations: 128 tokens, and of sampling what the
engine's operator prefers, not what the model's maker does.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec

from sglrouter._fast.prompt_ids import largest_id
from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.scheduler import (
    EngineFacts,
    Sampling,
    generate_request,
    new_request_id,
)
from sglrouter.errors import BadRequest, Invalid
from sglrouter.output.native import NativeBody, NativeOutput, NativeRequest, NativeStream
from sglrouter.request.grammar import Grammar, response_constraint
from sglrouter.request.limits import Limits, check_length, check_prompt
from sglrouter.request.sampling import choices, sampling
from sglrouter.schema.generate import (
    IGNORED_IN_GENERATE,
    IGNORED_IN_SAMPLING_PARAMS,
    GenerateRequest,
    NativeSamplingParams,
    decode_generate_request,
    decode_sampling_params,
    ignored_in,
    name_in_params,
    sampling_wishes,
    with_preferred,
)
from sglrouter.schema.sampling import SamplingRequest
from sglrouter.serving.answer import Answer
from sglrouter.serving.in_flight import Name
from sglrouter.serving.native_items import Item, Items, Scoring, items_of
from sglrouter.serving.samples import sample_of
from sglrouter.serving.service import Service
from sglrouter.turns import Pause, no_pause, taking_turns

# Each costs an engine a place in a sorted row of its vocabulary, and memory here.
MAX_TOP_LOGPROBS = 1000
MAX_SELECTED = 1000
# SGLang's word for any JSON object.
_ANY_OBJECT = "$$ANY$$"
_INT_MAX = 2**31 - 1


class _Plan(msgspec.Struct, frozen=True):
    """A checked prompt: what to send, and what to read of the answers."""

    item: Item
    ids: Sequence[int]
    sampling: Sampling
    lora_id: str
    grammar: Grammar


class NativeServing:
    """Answers native requests.

    Args:
        service: What they are answered with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def start(self, body: bytes, metadata: Metadata = ()) -> Answer:
        """Starts the answer to a request.

        Args:
            body: A GenerateRequest as JSON.
            metadata: Request headers for the engine.

        Raises:
            RouterError: The request cannot be served; nothing was sent.
        """
        began = time.monotonic()
        service = self._service
        request = service.read(decode_generate_request, body)
        facts = service.facts_for_text()
        limits = service.limits(facts)
        preferred = preferred_params(facts.preferred_sampling_params)

        def samples(params: NativeSamplingParams, place: str) -> int:
            try:
                return choices(sampling_wishes(params, None, None), limits)
            except Invalid as exc:
                raise exc.named(partial(name_in_params, params, place)) from exc

        items = items_of(request, samples, service.settings.max_prompts)
        plans = self._plans(items, preferred, facts, limits)
        outputs = [
            self._output(request, plan, name, facts, began)
            for plan in taking_turns(plans, service.pause)
            for name in plan.item.ids
        ]
        requests = dict(
            _engine_request(request, plan)
            for plan in taking_turns(plans, service.pause)
            for _ in range(len(plan.item.ids))
        )
        exchange = service.generate(requests, plans[0].ids, metadata, _names(items))
        stream, several = bool(request.stream), items.several
        return Answer(
            [output.sample for output in outputs],
            exchange,
            events=NativeStream(outputs, several=several) if stream else None,
            body=None if stream else NativeBody(outputs, several=several, pause=service.pause),
            grammar=_grammar_of_all(plans),
            ignored=_ignored(request, items),
            pause=service.pause,
        )

    def _plans(
        self, items: Items, preferred: NativeSamplingParams, facts: EngineFacts, limits: Limits
    ) -> list[_Plan]:
        """Checks everything before anything is sent."""
        plans: list[_Plan] = []
        room = limits.max_logprobs
        last: tuple[NativeSamplingParams, SamplingRequest, Grammar] | None = None
        for item in taking_turns(items.each, self._service.pause):
            if last is None or last[0] is not item.params:
                # Nearly always all prompts have the same.
                last = item.params, *_sampling_of(item, preferred, limits, self._service.pause)
            _, shared, grammar = last
            if item.lora_path != shared.lora_path:
                shared = msgspec.structs.replace(shared, lora_path=item.lora_path)
            lora_id = self._service.adapter(shared, facts)
            ids = self._prompt_ids(item, limits)
            check_prompt(ids, limits, item.field)
            try:
                params = sampling(
                    shared,
                    prompt_tokens=len(ids),
                    defaults={},
                    limits=limits,
                    constraint=grammar.constraint,
                    no_tokens=True,
                )
            except Invalid as exc:
                own = with_preferred(item.params, preferred)
                raise exc.named(partial(name_in_params, own, item.place)) from exc
            _check_scoring(item.scoring, len(ids), limits)
            room -= _scores(item, params, len(ids), limits)
            if room < 0:
                raise BadRequest(
                    f"The answer could have more than {limits.max_logprobs} log probabilities: "
                    "ask for fewer, or for fewer tokens",
                    code="invalid_value",
                    param=f"{item.place}.max_new_tokens",
                )
            plans.append(_Plan(item, ids, params, lora_id, grammar))
        return plans

    def _prompt_ids(self, item: Item, limits: Limits) -> Sequence[int]:
        prompt = item.prompt
        if isinstance(prompt, str):
            encoder = self._service.model.prompts.encoder
            check_length(prompt, encoder.longest_token, limits, item.field)
            return encoder.encode_raw(prompt)
        try:
            ids = array("I", prompt)
        except OverflowError:
            _check_ids(prompt, limits, item.field)
            raise
        if prompt and largest_id(ids) >= limits.vocab_size:
            _check_ids(prompt, limits, item.field)
        return ids

    def _output(
        self, request: GenerateRequest, plan: _Plan, name: str, facts: EngineFacts, began: float
    ) -> NativeOutput:
        model, scoring = self._service.model, plan.item.scoring
        sample = sample_of(
            model,
            plan.sampling,
            plan.ids,
            logprobs=scoring.wanted,
            keep_ids=True,
            input_logprobs=scoring.start >= 0,
            selected_logprobs=bool(scoring.selected),
        )
        return NativeOutput(
            sample,
            NativeRequest(
                id=name,
                prompt_ids=plan.ids,
                weight_version=facts.weight_version,
                began=began,
                top=bool(scoring.top),
                selected=bool(scoring.selected),
                start=scoring.start,
                shows_prompt=bool(request.return_prompt_token_ids),
                piece=model.detokenizers.piece if request.return_text_in_logprobs else None,
            ),
            no_pause if request.stream else self._service.pause,
        )


@lru_cache(maxsize=16)
def preferred_params(text: str) -> NativeSamplingParams:
    """What an engine's operator prefers, from its JSON; nothing if that says nothing."""
    try:
        return decode_sampling_params(text) if text else NativeSamplingParams()
    except (msgspec.DecodeError, RecursionError):
        return NativeSamplingParams()


def _engine_request(request: GenerateRequest, plan: _Plan) -> tuple[str, bytes]:
    request_id = new_request_id()
    item = plan.item
    return request_id, generate_request(
        request_id=request_id,
        text=item.prompt if isinstance(item.prompt, str) else "",
        ids=plan.ids,
        sampling=plan.sampling,
        stream=bool(request.stream),
        logprobs=item.scoring.wanted,
        top_logprobs=item.scoring.top,
        lora_id=plan.lora_id,
        reasons=bool(request.require_reasoning),
        logprob_start_len=item.scoring.start,
        token_ids_logprob=item.scoring.selected,
        stream_interval=item.params.stream_interval,
    )


def _sampling_of(
    item: Item, preferred: NativeSamplingParams, limits: Limits, pause: Pause
) -> tuple[SamplingRequest, Grammar]:
    """A prompt's sampling parameters and grammar; see sampling()."""
    params, place = with_preferred(item.params, preferred), item.place
    interval = item.params.stream_interval
    if interval is not None and not 1 <= interval <= _INT_MAX:
        raise BadRequest(
            f"{place}.stream_interval must be at least 1, not {interval}",
            code="invalid_value",
            param=f"{place}.stream_interval",
        )
    wanted = _response_format(params, place, limits)
    wishes = sampling_wishes(params, wanted, item.lora_path)
    try:
        asked = response_constraint(wishes, pause)
    except Invalid as exc:
        raise exc.named(partial(name_in_params, params, place)) from exc
    if asked is None:
        return wishes, Grammar()
    return wishes, Grammar(asked[1], name_in_params(params, place, asked[0]))


def _response_format(
    params: NativeSamplingParams, place: str, limits: Limits
) -> dict[str, Any] | None:
    """What a JSON schema or a structural tag is in OpenAI's requests."""
    schema, tag = params.json_schema or None, params.structural_tag or None
    if schema is not None and tag is not None:
        raise BadRequest(
            f"An answer can have one grammar, but {place}.json_schema and {place}.structural_tag "
            "are given: leave one of them out",
            param=f"{place}.json_schema",
        )
    if schema == _ANY_OBJECT:
        return {"type": "json_object"}
    if schema is not None:
        found = _json_object(schema, f"{place}.json_schema", limits)
        return {"type": "json_schema", "json_schema": {"schema": found}}
    if tag is not None:
        return {
            **_json_object(tag, f"{place}.structural_tag", limits),
            "type": "structural_tag",
        }
    return None


def _json_object(value: str | dict[str, Any], where: str, limits: Limits) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if len(value) > limits.max_grammar:
        raise BadRequest(
            f"{where} must have at most {limits.max_grammar} characters",
            code="invalid_value",
            param=where,
        )
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadRequest(f"{where} must be JSON: {exc}", code="invalid_value", param=where) from exc
    if not isinstance(found, dict):
        raise BadRequest(f"{where} must be a JSON object", code="invalid_type", param=where)
    return found


def _check_ids(ids: Sequence[int], limits: Limits, field: str) -> None:
    """Refuses what is no id of the model; the engine would die of it."""
    for wrong in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= wrong < limits.vocab_size:
            shown = str(wrong) if abs(wrong) < 10**20 else "one far beyond"
            raise BadRequest(
                f"{field} must hold ids between 0 and {limits.vocab_size - 1}, not {shown}",
                code="token_out_of_vocabulary",
                param=field,
            )


def _check_scoring(scoring: Scoring, prompt_tokens: int, limits: Limits) -> None:
    """Refuses log probabilities that an engine does not survive, or refuses itself."""
    most = min(MAX_TOP_LOGPROBS, limits.vocab_size)
    for name, value, low, high in (
        ("logprob_start_len", scoring.start, -1, prompt_tokens),
        ("top_logprobs_num", scoring.top, 0, most),
    ):
        if not low <= value <= high:
            raise BadRequest(
                f"{name} must be between {low} and {high}", code="invalid_value", param=name
            )
    if len(scoring.selected) > MAX_SELECTED:
        raise BadRequest(
            f"token_ids_logprob must have at most {MAX_SELECTED} ids",
            code="invalid_value",
            param="token_ids_logprob",
        )
    _check_ids(scoring.selected, limits, "token_ids_logprob")


def _scores(item: Item, params: Sampling, prompt_tokens: int, limits: Limits) -> int:
    """How many log probabilities the answers to a prompt may have."""
    scoring = item.scoring
    if not scoring.wanted:
        return 0
    tokens = params.max_new_tokens
    if tokens is None:
        tokens = limits.room(prompt_tokens) or 0
    scored = prompt_tokens - scoring.start if scoring.start >= 0 else 0
    return len(item.ids) * ((tokens + 1) * scoring.entries + scored * (1 + scoring.top))


def _names(items: Items) -> list[Name]:
    """What a client may stop the samples by, or all of them."""
    names: list[Name] = [
        (name, index) for index, name in enumerate(name for item in items.each for name in item.ids)
    ]
    if items.group is not None:
        names.append((items.group, None))
    return names


def _grammar_of_all(plans: Sequence[_Plan]) -> Grammar:
    """What to blame for an engine's refusal of a grammar."""
    fields = {plan.grammar.field for plan in plans if plan.grammar.constraint is not None}
    if len(fields) > 1:
        return Grammar(field="sampling_params")
    return Grammar(field=fields.pop() if fields else None)


def _ignored(request: GenerateRequest, items: Items) -> list[str]:
    names = ignored_in(request, IGNORED_IN_GENERATE)
    distinct = {id(item.params): item.params for item in items.each}.values()
    inner = {
        name
        for params in distinct
        for name in ignored_in(params, IGNORED_IN_SAMPLING_PARAMS, "sampling_params.")
    }
    return names + sorted(inner)
