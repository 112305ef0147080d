"""The body of POST /v1/chat/completions.

OpenAI's fields and SGLang's extensions. None means that the client left a field out,
which is not the same as any value. Messages and tools stay the client's own objects,
since the model is shown them as they were written. Unknown fields are accepted, and so
are those that engines cannot serve, which the client is told of.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded
from sglrouter.schema.legacy import with_tools

_BOUNDS = JsonBounds()


class StreamOptions(msgspec.Struct, frozen=True):
    """stream_options."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Reasoning(msgspec.Struct, frozen=True):
    """reasoning, as OpenRouter and the Responses API have it."""

    effort: str | float | None = None
    enabled: bool | None = None


class Thinking(msgspec.Struct, frozen=True):
    """thinking, as Anthropic and Z.ai have it."""

    type: str = "enabled"


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a chat completion."""

    messages: list[dict[str, Any]]
    model: str | None = None

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    no_stop_trim: bool | None = None
    skip_special_tokens: bool | None = None

    logprobs: bool | None = None
    top_logprobs: int | None = None

    response_format: dict[str, Any] | None = None
    regex: str | None = None
    ebnf: str | None = None

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

    lora_path: str | None = None

    stop_regex: Any = None
    custom_logit_processor: Any = None
    custom_params: Any = None
    input_ids: Any = None
    session_params: Any = None
    session_id: Any = None
    cache_salt: Any = None
    extra_key: Any = None
    priority: Any = None
    data_parallel_rank: Any = None
    routed_dp_rank: Any = None
    return_hidden_states: Any = None
    return_routed_experts: Any = None
    return_prompt_token_ids: Any = None
    return_token_ids: Any = None
    return_meta_info: Any = None


# Fields that change an answer, but that no engine is told of: the wire has no room for
# them, or what comes over it is not checked (code to run, ranks, prompts as ids).
IGNORED = (
    "seed",
    "stop_regex",
    "custom_logit_processor",
    "custom_params",
    "input_ids",
    "session_params",
    "session_id",
    "cache_salt",
    "extra_key",
    "priority",
    "data_parallel_rank",
    "routed_dp_rank",
    "return_hidden_states",
    "return_routed_experts",
    "return_prompt_token_ids",
    "return_token_ids",
    "return_meta_info",
)

_ignored_values = attrgetter(*IGNORED)
_NOTHING_IGNORED = (None,) * len(IGNORED)

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


def ignored_fields(request: ChatRequest) -> list[str]:
    """The names of the fields that ask for what no engine will do."""
    values = _ignored_values(request)
    if values == _NOTHING_IGNORED:
        return []
    return [
        name
        for name, value in zip(IGNORED, values, strict=True)
        if value is not None and value is not False
    ]
