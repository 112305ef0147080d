"""The body of POST /v1/chat/completions.

OpenAI's fields and SGLang's extensions. Messages and tools stay the client's own objects,
since the model is shown them as they were written. Unknown fields are accepted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded
from sglrouter.schema.legacy import with_tools
from sglrouter.schema.sampling import SamplingRequest

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

    messages: list[dict[str, Any]]

    logprobs: bool | None = None
    top_logprobs: int | None = None

    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: list[dict[str, Any]] | None = None
    function_call: str | dict[str, Any] | None = None

    chat_template: Any = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | float | None = None
    reasoning: Reasoning | None = None
    enable_thinking: bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    force_nonempty_content: bool | None = None
    thinking: bool | Thinking | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    input_ids: Any = None


# Like the other ignored fields: prompts come as messages here.
IGNORED_IN_CHAT = ("input_ids",)

_decoder = msgspec.json.Decoder(ChatRequest, strict=False)


def decode_chat_request(body: bytes, bounds: JsonBounds = _BOUNDS) -> ChatRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    request = decode_bounded(_decoder, body, bounds)
    if request.functions is not None or request.function_call is not None:
        return with_tools(request)
    return request
