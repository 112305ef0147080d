"""Chat completions: from messages to the calls that answer them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.scheduler import (
    EngineFacts,
    Sampling,
    generate_request,
    new_request_id,
)
from sglrouter.errors import BadRequest
from sglrouter.families.reading import Reading
from sglrouter.model import Model
from sglrouter.output.choice import Choice
from sglrouter.output.head import Head
from sglrouter.prompt.conversation import Prompt
from sglrouter.request.grammar import Grammar, choose_grammar
from sglrouter.request.past_calls import check_past_calls
from sglrouter.request.reading import reading_of
from sglrouter.request.sampling import (
    Limits,
    check_length,
    check_logprobs,
    check_prompt,
    choices,
    sampling,
    top_logprobs,
)
from sglrouter.request.template_variables import template_variables
from sglrouter.request.tool_choice import choose_tools
from sglrouter.schema.chat import IGNORED_IN_CHAT, ChatRequest, decode_chat_request
from sglrouter.schema.sampling import ignored_fields
from sglrouter.serving.answer import Answer
from sglrouter.serving.chat_renderer import ChatRenderer, OpenAIChat
from sglrouter.serving.in_flight import names_of
from sglrouter.serving.samples import sample_of
from sglrouter.serving.service import Service
from sglrouter.turns import taking_turns


class _Plan(msgspec.Struct, frozen=True):
    """A checked request: what to send, and how to read what comes back."""

    prompt: Prompt
    sampling: Sampling
    lora_id: str
    n: int
    top_logprobs: int
    grammar: Grammar
    reading: Reading


def chat_prompt(
    request: ChatRequest,
    tools: Sequence[Mapping[str, Any]] | None,
    model: Model,
    pause: Callable[[], object],
    limits: Limits | None = None,
) -> Prompt:
    """The prompt that a conversation makes.

    Args:
        request: The conversation.
        tools: Those of its tools that the model is shown.
        model: The model.
        pause: Called now and then where it takes long.
        limits: Bounds of the model, beyond which a prompt is refused; None for no bound.

    Raises:
        BadRequest: The conversation cannot be rendered.
    """
    if request.continue_final_message and request.add_generation_prompt:
        raise BadRequest(
            "continue_final_message and add_generation_prompt exclude each other",
            param="continue_final_message",
        )
    variables = template_variables(request, pause)
    if request.response_format is not None and model.prompts.shows_response_format:
        variables.setdefault("response_format", request.response_format)
    return model.prompts.build(
        request.messages,
        tools,
        kwargs=variables,
        add_generation_prompt=request.add_generation_prompt is not False,
        continue_final_message=request.continue_final_message or False,
        pause=pause,
        check=None
        if limits is None
        else lambda text: check_length(text, model.prompts.encoder.longest_token, limits),
    )


class ChatServing:
    """Answers conversations.

    Args:
        service: What they are answered with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._openai = OpenAIChat(service)

    def read(self, body: bytes, *, stream: bool | None = None) -> ChatRequest:
        """Reads a request.

        Args:
            body: A ChatRequest as JSON.
            stream: Whether it is a stream, whatever the request says; None for what it says.

        Raises:
            BadRequest: It is not one.
        """
        request = self._service.read(decode_chat_request, body)
        if stream is not None and request.stream is not stream:
            request = msgspec.structs.replace(request, stream=stream)
        return request

    def start(
        self,
        request: ChatRequest,
        metadata: Metadata = (),
        renderer: ChatRenderer | None = None,
    ) -> Answer:
        """Starts the answer to a request.

        Args:
            request: The request.
            metadata: Request headers for the engine.
            renderer: Shows the answer; None for OpenAI's way.

        Raises:
            RouterError: The request cannot be served; nothing was sent.
        """
        service = self._service
        renderer = renderer or self._openai
        facts = service.facts_for_text()
        plan = self._plan(request, facts)
        readers = [self._choice(request, plan) for _ in range(plan.n)]
        head = Head(
            f"chatcmpl-{new_request_id()}",
            int(time.time()),
            request.model or service.model_name(facts),
        )
        names = names_of(request.rid, head.id)
        exchange = service.generate(
            dict(
                self._engine_request(request, plan)
                for _ in taking_turns(range(plan.n), service.pause)
            ),
            plan.prompt.ids,
            metadata,
            names,
        )
        return Answer(
            [choice.sample for choice in readers],
            exchange,
            events=renderer.events(request, head, readers) if request.stream else None,
            body=None if request.stream else renderer.body(request, head, readers),
            grammar=plan.grammar,
            ignored=ignored_fields(request, *IGNORED_IN_CHAT),
            pause=service.pause,
        )

    def _plan(self, request: ChatRequest, facts: EngineFacts) -> _Plan:
        """Checks everything before anything is sent."""
        service = self._service
        limits = service.limits(facts)
        model = service.model
        lora_id = self._service.adapter(request, facts)
        check_past_calls(request.messages, service.bounds, service.pause)
        n = choices(request, limits)
        alternatives = top_logprobs(request, limits)
        tools = choose_tools(request, service.pause)
        grammar = choose_grammar(request, tools, model.formats.family, service.pause)
        prompt = chat_prompt(request, tools.shown, model, service.pause, limits)
        check_prompt(prompt.ids, limits)
        tokens = len(prompt.ids)
        params = sampling(
            request,
            prompt_tokens=tokens,
            defaults=self._service.defaults(facts),
            limits=limits,
            constraint=grammar.constraint,
        )
        if request.logprobs and not request.stream:
            check_logprobs(params, n=n, top=alternatives, prompt_tokens=tokens, limits=limits)
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
                model.formats,
                must_call=tools.forced,
                as_json=grammar.constraint is not None and grammar.constraint[0] == "json_schema",
                drop_unknown=self._service.settings.unknown_tools == "drop",
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
        model = self._service.model
        sample = sample_of(
            model,
            plan.sampling,
            plan.prompt.ids,
            logprobs=bool(request.logprobs),
            shown=model.shown_tokens(plan.reading),
        )
        return Choice(
            sample,
            plan.reading.parser(),
            first_call_only=request.parallel_tool_calls is False,
            stream_reasoning=request.stream_reasoning is not False,
            never_empty=bool(request.force_nonempty_content),
        )
