"""The body of POST /v1/chat/completions.

OpenAI's fields and SGLang's extensions. Messages and tools stay the client's own objects,
since the model is shown them as they were written. Unknown fields are accepted.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sglrouter.schema import shapes
from sglrouter.schema.json_bounds import JsonBounds, decode_bounded
from sglrouter.schema.legacy import tool_choice_of, tools_of
from sglrouter.schema.sampling import IGNORED, IGNORED_MARK, Ignored, SamplingRequest, marked

_BOUNDS = JsonBounds()


class Reasoning(msgspec.Struct, frozen=True):
    """reasoning, as OpenRouter and the Responses API have it."""

    effort: str | float | None = None
    enabled: bool | None = None


class Thinking(msgspec.Struct, frozen=True):
    """thinking, as Anthropic and Z.ai have it."""

    type: str = "enabled"


class ChatRequest(SamplingRequest, frozen=True, kw_only=True):
    """A request for a chat completion."""

    messages: Annotated[
        list[dict[str, Any]],
        Meta(description="The conversation.", extra_json_schema={"items": shapes.MESSAGE}),
    ]

    logprobs: Annotated[
        bool | None,
        Meta(description="Whether to return the log probability of each token."),
    ] = None
    top_logprobs: Annotated[
        int | None,
        Meta(
            description="How many of the likeliest tokens to return in each place; 0 to 20.",
            extra_json_schema={"minimum": 0, "maximum": 20},
        ),
    ] = None

    tools: Annotated[
        list[dict[str, Any]] | None,
        Meta(
            description="The functions that the model may call.",
            extra_json_schema={"items": shapes.TOOL},
        ),
    ] = None
    tool_choice: Annotated[
        str | dict[str, Any] | None,
        Meta(
            description="`none`, `auto`, `required`, a function, or `allowed_tools`.",
            extra_json_schema={"allOf": [shapes.TOOL_CHOICE]},
        ),
    ] = None
    parallel_tool_calls: Annotated[
        bool | None,
        Meta(description="False ends the answer with its first call."),
    ] = None
    functions: Annotated[
        list[dict[str, Any]] | None,
        Meta(
            description="The older form of `tools`.", extra_json_schema={"items": shapes.FUNCTION}
        ),
    ] = None
    function_call: Annotated[
        str | dict[str, Any] | None,
        Meta(description="The older form of `tool_choice`."),
    ] = None

    chat_template: Annotated[
        Any,
        Meta(
            description="Refused: templates are the operator's.", extra_json_schema={"type": "null"}
        ),
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, Any] | None,
        Meta(description="Variables for the chat template."),
    ] = None
    reasoning_effort: Annotated[
        str | float | None,
        Meta(description="How much to reason; `none` for not at all."),
    ] = None
    reasoning: Annotated[Reasoning | None, Meta(description="A switch of reasoning.")] = None
    enable_thinking: Annotated[bool | None, Meta(description="A switch of reasoning.")] = None
    separate_reasoning: Annotated[
        bool | None,
        Meta(description="False leaves reasoning in the content."),
    ] = None
    stream_reasoning: Annotated[
        bool | None,
        Meta(description="False sends reasoning in one piece, at its end."),
    ] = None
    force_nonempty_content: Annotated[
        bool | None,
        Meta(description="True makes an answer of nothing but reasoning the content."),
    ] = None
    thinking: Annotated[bool | Thinking | None, Meta(description="A switch of reasoning.")] = None
    add_generation_prompt: Annotated[
        bool | None,
        Meta(description="False leaves out the opening of the assistant's turn."),
    ] = None
    continue_final_message: Annotated[
        bool | Literal["content", "reasoning_content"] | None,
        Meta(
            description="Whether the model goes on with the last message, or with which of its "
            "fields."
        ),
    ] = None

    input_ids: Ignored = None


# Like the other ignored fields: prompts come as messages here.
IGNORED_IN_CHAT = tuple(name for name in marked(ChatRequest, IGNORED_MARK) if name not in IGNORED)

_decoder = msgspec.json.Decoder(ChatRequest, strict=False)


def decode_chat_request(body: bytes, bounds: JsonBounds = _BOUNDS) -> ChatRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    request = decode_bounded(_decoder, body, bounds)
    if request.functions is not None or request.function_call is not None:
        return _with_tools(request)
    return request


def _with_tools(request: ChatRequest) -> ChatRequest:
    """The same with tools and tool_choice in place of their older forms."""
    changes: dict[str, Any] = {"functions": None, "function_call": None}
    if request.tools is None and request.functions is not None:
        changes["tools"] = tools_of(request.functions)
    if request.tool_choice is None and request.function_call is not None:
        changes["tool_choice"] = tool_choice_of(request.function_call)
    return msgspec.structs.replace(request, **changes)
