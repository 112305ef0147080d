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
from sglrouter.request.limits import Limits, check_length, check_prompt
from sglrouter.request.past_calls import check_past_calls
from sglrouter.request.reading import reading_after, reading_of
from sglrouter.request.sampling import (
    check_logprobs,
    choices,
    sampling_of_any_length,
    top_logprobs,
    with_lengths,
)
from sglrouter.request.template_variables import template_variables
from sglrouter.request.tool_choice import choose_tools
from sglrouter.schema.chat import IGNORED_IN_CHAT, ChatRequest, decode_chat_request
from sglrouter.schema.sampling import ignored_fields
from sglrouter.serving.answer import Answer
from sglrouter.serving.chat_renderer import ChatRenderer, OpenAIChat
from sglrouter.serving.in_flight import names_of
from sglrouter.serving.plan_cache import PlanCache, key_of
from sglrouter.serving.samples import sample_of
from sglrouter.serving.service import Service
from sglrouter.turns import taking_turns

# What the parameters of a request do not depend on.
_NO_PARAMETERS = ("messages", "max_tokens", "max_completion_tokens", "rid")


class _Parameters(msgspec.Struct, frozen=True):
    """What a checked request decides without its messages and lengths."""

    limits: Limits
    model_name: str
    lora_id: str
    n: int
    top_logprobs: int
    shown_tools: Sequence[Mapping[str, Any]] | None
    variables: Mapping[str, Any]
    grammar: Grammar
    sampling: Sampling
    reading: Reading
    shown_tokens: frozenset[int]
    ignored: Sequence[str]


class _Plan(msgspec.Struct, frozen=True):
    """A checked request: what to send, and how to read what comes back."""

    parameters: _Parameters
    prompt: Prompt
    sampling: Sampling
    reading: Reading


def chat_prompt(
    request: ChatRequest,
    tools: Sequence[Mapping[str, Any]] | None,
    model: Model,
    pause: Callable[[], object],
    limits: Limits | None = None,
    variables: Mapping[str, Any] | None = None,
) -> Prompt:
    """The prompt that a conversation makes.

    Args:
        request: The conversation.
        tools: Those of its tools that the model is shown.
        model: The model.
        pause: Called now and then where it takes long.
        limits: Bounds of the model, beyond which a prompt is refused; None for no bound.
        variables: The request's, from prompt_variables(); None to have them found.

    Raises:
        BadRequest: The conversation cannot be rendered.
    """
    if request.continue_final_message and request.add_generation_prompt:
        raise BadRequest(
            "continue_final_message and add_generation_prompt exclude each other",
            param="continue_final_message",
        )
    if variables is None:
        variables = prompt_variables(request, model, pause)
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


def prompt_variables(
    request: ChatRequest, model: Model, pause: Callable[[], object]
) -> Mapping[str, Any]:
    """What a request sets for the model's template.

    Raises:
        BadRequest: It sets what is not to be set.
    """
    variables = template_variables(request, pause)
    if request.response_format is not None and model.prompts.shows_response_format:
        variables.setdefault("response_format", request.response_format)
    return variables


class ChatServing:
    """Answers conversations.

    Args:
        service: What they are answered with.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._openai = OpenAIChat(service)
        self._plans = PlanCache[_Parameters]()

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
        parameters = plan.parameters
        readers = [self._choice(request, plan) for _ in range(parameters.n)]
        head = Head(
            f"chatcmpl-{new_request_id()}",
            int(time.time()),
            request.model or parameters.model_name,
        )
        names = names_of(request.rid, head.id)
        exchange = service.generate(
            dict(
                self._engine_request(request, plan)
                for _ in taking_turns(range(parameters.n), service.pause)
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
            grammar=parameters.grammar,
            ignored=parameters.ignored,
            pause=service.pause,
        )

    def _parameters(self, request: ChatRequest, facts: EngineFacts) -> _Parameters:
        """Those of a request, remembered where there was one of the same."""
        key = key_of(request, *_NO_PARAMETERS)
        parameters = None if key is None else self._plans.get(key, facts)
        if parameters is None:
            parameters = self._decide(request, facts)
            if key is not None:
                self._plans.put(key, facts, parameters)
        return parameters

    def _decide(self, request: ChatRequest, facts: EngineFacts) -> _Parameters:
        """Checks all that depends neither on messages nor on lengths."""
        service = self._service
        limits = service.limits(facts)
        model = service.model
        lora_id = service.adapter(request, facts)
        n = choices(request, limits)
        alternatives = top_logprobs(request, limits)
        tools = choose_tools(request, service.pause)
        grammar = choose_grammar(request, tools, model.formats.family, service.pause)
        reading = reading_of(
            request,
            tools.shown,
            model.formats,
            must_call=tools.forced,
            as_json=grammar.constraint is not None and grammar.constraint[0] == "json_schema",
            drop_unknown=service.settings.unknown_tools == "drop",
        )
        return _Parameters(
            limits=limits,
            model_name=service.model_name(facts),
            lora_id=lora_id,
            n=n,
            top_logprobs=alternatives,
            shown_tools=tools.shown,
            variables=prompt_variables(request, model, service.pause),
            grammar=grammar,
            sampling=sampling_of_any_length(
                request,
                defaults=service.defaults(facts),
                limits=limits,
                constraint=grammar.constraint,
            ),
            reading=reading,
            shown_tokens=model.shown_tokens(reading),
            ignored=tuple(ignored_fields(request, *IGNORED_IN_CHAT)),
        )

    def _plan(self, request: ChatRequest, facts: EngineFacts) -> _Plan:
        """Checks everything before anything is sent."""
        service = self._service
        parameters = self._parameters(request, facts)
        limits = parameters.limits
        check_past_calls(request.messages, service.bounds, service.pause)
        prompt = chat_prompt(
            request,
            parameters.shown_tools,
            service.model,
            service.pause,
            limits,
            parameters.variables,
        )
        check_prompt(prompt.ids, limits)
        tokens = len(prompt.ids)
        params = with_lengths(parameters.sampling, request, prompt_tokens=tokens, limits=limits)
        if request.logprobs and not request.stream:
            check_logprobs(
                params,
                n=parameters.n,
                top=parameters.top_logprobs,
                prompt_tokens=tokens,
                limits=limits,
            )
        return _Plan(
            parameters, prompt, params, reading_after(parameters.reading, request.messages, prompt)
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
            top_logprobs=plan.parameters.top_logprobs,
            lora_id=plan.parameters.lora_id,
            reasons=plan.reading.inside,
        )

    def _choice(self, request: ChatRequest, plan: _Plan) -> Choice:
        sample = sample_of(
            self._service.model,
            plan.sampling,
            plan.prompt.ids,
            logprobs=bool(request.logprobs),
            shown=plan.parameters.shown_tokens,
        )
        return Choice(
            sample,
            plan.reading.parser(),
            first_call_only=request.parallel_tool_calls is False,
            stream_reasoning=request.stream_reasoning is not False,
            never_empty=bool(request.force_nonempty_content),
        )
