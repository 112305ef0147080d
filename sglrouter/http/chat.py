"""POST /v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import falcon
import gevent
import msgspec

from sglrouter.backend.generation import Generation
from sglrouter.backend.pool import Pool
from sglrouter.backend.scheduler import Sampling, generate_request, new_request_id
from sglrouter.config import Settings
from sglrouter.errors import BadRequest
from sglrouter.http.adapters import adapter_id, parse_adapters
from sglrouter.http.bodies import read_body
from sglrouter.http.client import Client, answer, client_of, watching
from sglrouter.http.constraints import Grammar, blaming, choose_grammar
from sglrouter.http.reading import reading_of
from sglrouter.http.sampling import (
    Limits,
    check_logprobs,
    check_names,
    check_prompt,
    sampling,
    top_logprobs,
)
from sglrouter.http.sampling import (
    choices as number_of_choices,
)
from sglrouter.http.sampling_defaults import SamplingDefaults
from sglrouter.http.service import model_name
from sglrouter.http.streaming import EventStream
from sglrouter.http.tool_choice import choose_tools
from sglrouter.model import Model
from sglrouter.output.chat import ChatCompletion, ChatHead, ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.reading import Reading
from sglrouter.output.sample import Sample
from sglrouter.prompt.conversation import Prompt
from sglrouter.prompt.variables import template_variables
from sglrouter.schema.chat import ChatRequest, decode_chat_request, ignored_fields
from sglrouter.schema.json_bounds import JsonBounds

# Where reasoning goes, by the setting.
REASONING_FIELDS = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
}


class _Plan(msgspec.Struct, frozen=True):
    """A checked request: what to send, and how to read what comes back."""

    prompt: Prompt
    sampling: Sampling
    lora_id: str
    n: int
    top_logprobs: int
    grammar: Grammar
    reading: Reading


# Bytes of a body that takes milliseconds to decode, and as many to render.
_LARGE = 256 * 1024


def _rest() -> None:
    # sleep(0) would let other greenlets run, but not look for what has arrived for them.
    gevent.sleep(0.001)


class ChatCompletions:
    """Answers conversations, streamed or whole."""

    def __init__(self, settings: Settings, model: Model, pool: Pool) -> None:
        self._settings = settings
        self._model = model
        self._pool = pool
        self._reasoning_fields = REASONING_FIELDS[settings.reasoning_field]
        self._bounds = JsonBounds(settings.max_json_depth, settings.max_json_values)
        self._defaults = SamplingDefaults(model.files.sampling_defaults)
        self._adapters = parse_adapters(settings.lora_adapters)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one completion."""
        body = read_body(req, self._settings.max_body)
        request = decode_chat_request(body, self._bounds)
        if len(body) > _LARGE:
            _rest()
        engine = self._pool.pick()
        facts = engine.facts()
        plan = self._plan(
            request,
            Limits(
                vocab_size=self._model.vocab_size,
                context_length=self._model.context_length,
                max_prompt_tokens=facts.max_prompt_tokens,
                max_n=self._settings.max_n,
                max_logprobs=self._settings.max_logprobs,
                max_grammar=self._settings.max_grammar,
            ),
            self._defaults.on_engine(facts.sampling_defaults),
        )
        ignored = ignored_fields(request)
        if ignored:
            resp.set_header("X-Sglrouter-Ignored", ",".join(ignored))
        choices = [self._choice(request, plan) for _ in range(plan.n)]
        head = ChatHead(
            f"chatcmpl-{new_request_id()}",
            int(time.time()),
            request.model or model_name(self._model, facts),
        )
        client = client_of(req)
        # Last of all: from here on somebody must see the calls to their end.
        generation = engine.generate(
            dict(self._engine_request(request, plan) for _ in range(plan.n)),
            timeout=self._settings.request_timeout,
            first_timeout=self._settings.first_token_timeout,
            idle_timeout=self._settings.idle_timeout,
        )
        with blaming(plan.grammar):
            if request.stream:
                self._stream(request, resp, head, choices, generation, client)
                return
            with watching(client, generation.client_gone):
                body = self._whole(head, choices, generation)
        resp.content_type = falcon.MEDIA_JSON
        answer(resp, body, client)

    def _plan(self, request: ChatRequest, limits: Limits, defaults: Mapping[str, float]) -> _Plan:
        """Checks everything before anything is sent."""
        if request.continue_final_message and request.add_generation_prompt:
            raise BadRequest(
                "continue_final_message and add_generation_prompt exclude each other",
                param="continue_final_message",
            )
        if request.stream_options is not None and not request.stream:
            raise BadRequest("stream_options needs stream to be true", param="stream_options")
        check_names(request)
        lora_id = adapter_id(request, self._adapters)
        n = number_of_choices(request, limits)
        alternatives = top_logprobs(request, limits)
        tools = choose_tools(request)
        grammar = choose_grammar(request, tools, self._model.formats.tool_parser)
        prompt = self._model.prompts.build(
            request.messages,
            tools.shown,
            kwargs=template_variables(request),
            add_generation_prompt=request.add_generation_prompt is not False,
            continue_final_message=bool(request.continue_final_message),
            pause=_rest,
        )
        check_prompt(prompt.ids, limits)
        tokens = len(prompt.ids)
        params = sampling(
            request,
            prompt_tokens=tokens,
            defaults=defaults,
            limits=limits,
            constraint=grammar.constraint,
        )
        check_logprobs(request, params, n=n, top=alternatives, prompt_tokens=tokens, limits=limits)
        return _Plan(
            prompt=prompt,
            sampling=params,
            lora_id=lora_id,
            n=n,
            top_logprobs=alternatives,
            grammar=grammar,
            reading=reading_of(
                request,
                tools.shown,
                prompt,
                self._model,
                must_call=tools.forced,
                as_json=grammar.constraint is not None and grammar.constraint[0] == "json_schema",
                drop_unknown=self._settings.unknown_tools == "drop",
            ),
        )

    def _engine_request(self, request: ChatRequest, plan: _Plan) -> tuple[str, bytes]:
        request_id = new_request_id()
        return request_id, generate_request(
            request_id=request_id,
            text=plan.prompt.text,
            ids=plan.prompt.ids,
            sampling=plan.sampling,
            stream=bool(request.stream),
            logprobs=bool(request.logprobs),
            top_logprobs=plan.top_logprobs,
            lora_id=plan.lora_id,
            reasons=plan.reading.inside,
        )

    def _choice(self, request: ChatRequest, plan: _Plan) -> Choice:
        return Choice(
            self._sample(request, plan),
            plan.reading.parser(),
            first_call_only=request.parallel_tool_calls is False,
            stream_reasoning=request.stream_reasoning is not False,
            never_empty=bool(request.force_nonempty_content),
        )

    def _sample(self, request: ChatRequest, plan: _Plan) -> Sample:
        return Sample(
            self._model.detokenizers,
            eos_ids=self._model.files.eos_ids,
            stop=plan.sampling.stop,
            stop_token_ids=plan.sampling.stop_token_ids,
            ignore_eos=plan.sampling.ignore_eos,
            keep_stop=plan.sampling.no_stop_trim,
            skip_special=plan.sampling.skip_special_tokens,
            logprobs=bool(request.logprobs),
            shown=self._model.shown_tokens(plan.reading),
        )

    def _stream(
        self,
        request: ChatRequest,
        resp: falcon.Response,
        head: ChatHead,
        choices: list[Choice],
        generation: Generation,
        client: Client | None,
    ) -> None:
        options = request.stream_options
        events: Iterator[bytes] = EventStream(
            ChatStream(
                head,
                choices,
                self._model.detokenizers.piece,
                include_usage=options is not None and bool(options.include_usage),
                continuous_usage=options is not None and bool(options.continuous_usage_stats),
                reasoning_fields=self._reasoning_fields,
            ),
            choices,
            generation,
            heartbeat=self._settings.heartbeat,
            client=client,
        )
        resp.content_type = "text/event-stream; charset=utf-8"
        resp.set_header("Cache-Control", "no-cache")
        # nginx and its kin must pass each event on as it comes.
        resp.set_header("X-Accel-Buffering", "no")
        resp.stream = events

    def _whole(
        self,
        head: ChatHead,
        choices: list[Choice],
        generation: Generation,
    ) -> bytes:
        completion = ChatCompletion(
            head,
            choices,
            self._model.detokenizers.piece,
            reasoning_fields=self._reasoning_fields,
        )
        try:
            while generation.running:
                for index, messages in generation.wait():
                    completion.feed(index, messages)
                    sample = choices[index].sample
                    if sample.failure is not None:
                        raise sample.failure
                    if sample.finish_reason is not None:
                        generation.complete(index, engine_goes_on=sample.engine_goes_on)
        finally:
            generation.cancel()
        return completion.body()
