"""POST /v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import falcon
import msgspec

from sglrouter.backend.generation import Generation
from sglrouter.backend.pool import Pool
from sglrouter.backend.scheduler import Sampling, generate_request, new_request_id
from sglrouter.config import Settings
from sglrouter.errors import BadRequest
from sglrouter.http.bodies import read_body
from sglrouter.http.client import Client, answer, client_of, watching
from sglrouter.http.constraints import choose_tools, forced_call_constraint, response_constraint
from sglrouter.http.sampling import Limits, check_prompt, choices, sampling, top_logprobs
from sglrouter.http.service import model_name
from sglrouter.http.streaming import EventStream
from sglrouter.model import Model
from sglrouter.output.chat import ChatCompletion, ChatHead, ChatStream
from sglrouter.output.sample import Sample
from sglrouter.prompt.conversation import Prompt
from sglrouter.schema.chat import ChatRequest, decode_chat_request

# Fields that change an answer, but that the wire to the engine has no room for.
_IGNORED = ("seed",)


class _Plan(msgspec.Struct, frozen=True):
    """A checked request: what to send, and how to read what comes back."""

    prompt: Prompt
    sampling: Sampling
    n: int
    top_logprobs: int
    forced_calls: bool


class ChatCompletions:
    """Answers conversations, streamed or whole."""

    def __init__(self, settings: Settings, model: Model, pool: Pool) -> None:
        self._settings = settings
        self._model = model
        self._pool = pool

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Handles one completion."""
        request = decode_chat_request(read_body(req, self._settings.max_body))
        engine = self._pool.pick()
        facts = engine.facts()
        plan = self._plan(
            request,
            Limits(
                vocab_size=self._model.vocab_size,
                context_length=self._model.context_length,
                max_prompt_tokens=facts.max_prompt_tokens,
                max_n=self._settings.max_n,
            ),
            {**self._model.files.sampling_defaults, **facts.sampling_defaults},
        )
        ignored = [name for name in _IGNORED if getattr(request, name) is not None]
        if ignored:
            resp.set_header("X-Sglrouter-Ignored", ",".join(ignored))
        samples = [self._sample(request, plan) for _ in range(plan.n)]
        head = ChatHead(
            f"chatcmpl-{new_request_id()}",
            int(time.time()),
            request.model or model_name(self._model, facts),
        )
        client = client_of(req)
        # Last of all: from here on somebody must see the calls to their end.
        generation = engine.generate(
            [self._engine_request(request, plan) for _ in range(plan.n)],
            timeout=self._settings.request_timeout,
            first_timeout=self._settings.first_token_timeout,
            idle_timeout=self._settings.idle_timeout,
        )
        if request.stream:
            self._stream(request, resp, head, plan, samples, generation, client)
        else:
            with watching(client, generation.client_gone):
                body = self._whole(head, plan, samples, generation)
            resp.content_type = falcon.MEDIA_JSON
            answer(resp, body, client)

    def _plan(self, request: ChatRequest, limits: Limits, defaults: dict[str, float]) -> _Plan:
        """Checks everything before anything is sent."""
        if request.continue_final_message:
            raise BadRequest(
                "continue_final_message is not supported", param="continue_final_message"
            )
        if request.stream_options is not None and not request.stream:
            raise BadRequest("stream_options needs stream to be true", param="stream_options")
        n = choices(request, limits)
        alternatives = top_logprobs(request, limits)
        constraint = response_constraint(request)
        tools = choose_tools(request)
        if tools.forced and tools.shown:
            if constraint is not None:
                raise BadRequest(
                    "A forced tool call cannot be combined with another constraint",
                    param="tool_choice",
                )
            constraint = forced_call_constraint(
                tools.shown, parallel=request.parallel_tool_calls is not False
            )
        kwargs: dict[str, Any] = dict(request.chat_template_kwargs or {})
        if request.reasoning_effort is not None:
            kwargs.setdefault("reasoning_effort", request.reasoning_effort)
        prompt = self._model.prompts.build(
            request.messages,
            tools.shown,
            kwargs=kwargs,
            add_generation_prompt=request.add_generation_prompt is not False,
        )
        check_prompt(prompt.ids, limits)
        return _Plan(
            prompt=prompt,
            sampling=sampling(
                request,
                prompt_tokens=len(prompt.ids),
                defaults=defaults,
                limits=limits,
                constraint=constraint,
            ),
            n=n,
            top_logprobs=alternatives,
            forced_calls=tools.forced,
        )

    def _engine_request(self, request: ChatRequest, plan: _Plan) -> bytes:
        return generate_request(
            request_id=new_request_id(),
            text=plan.prompt.text,
            ids=plan.prompt.ids,
            sampling=plan.sampling,
            stream=bool(request.stream),
            logprobs=bool(request.logprobs),
            top_logprobs=plan.top_logprobs,
            lora_id=request.lora_path or "",
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
        )

    def _stream(
        self,
        request: ChatRequest,
        resp: falcon.Response,
        head: ChatHead,
        plan: _Plan,
        samples: list[Sample],
        generation: Generation,
        client: Client | None,
    ) -> None:
        options = request.stream_options
        events: Iterator[bytes] = EventStream(
            ChatStream(
                head,
                samples,
                self._model.detokenizers.piece,
                include_usage=options is not None and bool(options.include_usage),
                forced_calls=plan.forced_calls,
            ),
            samples,
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
        plan: _Plan,
        samples: list[Sample],
        generation: Generation,
    ) -> bytes:
        completion = ChatCompletion(
            head, samples, self._model.detokenizers.piece, forced_calls=plan.forced_calls
        )
        try:
            while generation.running:
                for index, messages in generation.wait():
                    completion.feed(index, messages)
                    sample = samples[index]
                    if sample.failure is not None:
                        raise sample.failure
                    if sample.finish_reason is not None:
                        generation.complete(index, engine_goes_on=sample.engine_goes_on)
        finally:
            generation.cancel()
        return completion.body()
