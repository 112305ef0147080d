"""What answers look like: for the OpenAPI document, and for tests that compare them.

Answers are written by compiled code and by renderers that know no types, so that a token
costs little. These types are what they have to agree with.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType


class Error(msgspec.Struct, forbid_unknown_fields=True):
    """What went wrong."""

    message: Annotated[str, Meta(description="For the person who reads it.")]
    type: Annotated[str, Meta(description="Whose fault it is, such as `invalid_request_error`.")]
    param: Annotated[str | None, Meta(description="The field at fault.")]
    code: Annotated[str | None, Meta(description="The reason, for programs.")]


class ErrorBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of every answer that is no success."""

    error: Error


class PromptTokensDetails(msgspec.Struct, forbid_unknown_fields=True):
    """Where the prompt's tokens come from."""

    cached_tokens: Annotated[int, Meta(description="Those found in the engine's prefix cache.")]


class CompletionTokensDetails(msgspec.Struct, forbid_unknown_fields=True):
    """What the answer's tokens are."""

    reasoning_tokens: int


class Usage(msgspec.Struct, forbid_unknown_fields=True):
    """Token counts; each prompt counts once, however many answers it gets."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | UnsetType = UNSET
    completion_tokens_details: CompletionTokensDetails | UnsetType = UNSET


class TokenLogprob(msgspec.Struct, forbid_unknown_fields=True):
    """A token in the place of another, and its log probability."""

    token: str
    logprob: Annotated[float, Meta(description="-9999 for a probability of zero.")]
    bytes: Annotated[list[int], Meta(description="Its exact bytes, which may be half a character.")]


class ChosenTokenLogprob(TokenLogprob, forbid_unknown_fields=True):
    """A token of the answer."""

    top_logprobs: list[TokenLogprob]


class ChatLogprobs(msgspec.Struct, forbid_unknown_fields=True):
    """Log probabilities of a choice."""

    content: list[ChosenTokenLogprob]
    refusal: None


class FunctionCall(msgspec.Struct, forbid_unknown_fields=True):
    """The function that is called."""

    name: str
    arguments: Annotated[str, Meta(description="JSON, as far as the model has written it.")]


class ToolCall(msgspec.Struct, forbid_unknown_fields=True):
    """A tool call."""

    index: int
    id: str
    type: Literal["function"]
    function: FunctionCall


class ChatMessage(msgspec.Struct, forbid_unknown_fields=True):
    """The assistant's message."""

    role: Literal["assistant"]
    content: Annotated[str | None, Meta(description="null where there are only calls.")]
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


FinishReason = Literal["stop", "length", "tool_calls", "abort"]
MatchedStop = Annotated[
    int | str | None, Meta(description="The stop token or string that ended it, if that did.")
]


class ChatChoice(msgspec.Struct, forbid_unknown_fields=True):
    """One answer."""

    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    matched_stop: MatchedStop


class ChatCompletion(msgspec.Struct, forbid_unknown_fields=True):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: Annotated[int, Meta(description="Unix time in seconds.")]
    model: Annotated[str, Meta(description="As the request has it.")]
    choices: list[ChatChoice]
    usage: Usage


class FunctionDelta(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of a call; the name comes with the first."""

    arguments: str
    name: str | UnsetType = UNSET


class ToolCallDelta(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of a call; id and type come with the first."""

    index: int
    function: FunctionDelta
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET


class ChatDelta(msgspec.Struct, forbid_unknown_fields=True):
    """What is new; the role comes with the first."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChatChunkChoice(msgspec.Struct, forbid_unknown_fields=True):
    """What is new in one answer."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None
    matched_stop: Annotated[
        int | str | UnsetType | None, Meta(description="With the finish reason.")
    ] = UNSET


class ChatChunk(msgspec.Struct, forbid_unknown_fields=True):
    """An event of a streamed chat completion."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: Annotated[list[ChatChunkChoice], Meta(description="Empty in the one with the usage.")]
    usage: Annotated[
        Usage | UnsetType | None,
        Meta(description="Null in all chunks but the last, if `include_usage` asks for it."),
    ] = UNSET


class TextLogprobs(msgspec.Struct, forbid_unknown_fields=True):
    """Log probabilities of a choice: a value for each token in each list."""

    tokens: Annotated[
        list[str], Meta(description="A part of a character is written `bytes:` and its bytes.")
    ]
    token_logprobs: Annotated[
        list[float | None], Meta(description="null for the first token of a prompt.")
    ]
    top_logprobs: Annotated[
        list[dict[str, float] | None],
        Meta(description="The likeliest tokens, and the one that came, with theirs."),
    ]
    text_offset: Annotated[
        list[int], Meta(description="Where it begins in prompt and answer, in characters.")
    ]


class TextChoice(msgspec.Struct, forbid_unknown_fields=True):
    """One answer, or what is new in it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None
    matched_stop: MatchedStop | UnsetType = UNSET


class TextCompletion(msgspec.Struct, forbid_unknown_fields=True):
    """A text completion, or an event of one."""

    id: str
    object: Literal["text_completion"]
    created: Annotated[int, Meta(description="Unix time in seconds.")]
    model: Annotated[str, Meta(description="As the request has it.")]
    choices: Annotated[
        list[TextChoice], Meta(description="Empty in the event with the usage of all.")
    ]
    usage: Annotated[
        Usage | UnsetType | None,
        Meta(description="Null in all chunks but the last, if `include_usage` asks for it."),
    ] = UNSET


class Health(msgspec.Struct):
    """Whether an engine serves."""

    status: str
    engines: list[dict[str, Any]] | UnsetType = UNSET
    tokenizer: dict[str, int] | UnsetType = UNSET
    chat_template: Annotated[
        str | UnsetType,
        Meta(
            description="What writes conversations: `template`, a built-in encoding's name, or "
            "`none`, and then they are refused."
        ),
    ] = UNSET


class Alive(msgspec.Struct, forbid_unknown_fields=True):
    """That the worker answers."""

    status: Literal["ok"]


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True):
    """A call found in a text."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class ParsedCalls(msgspec.Struct, forbid_unknown_fields=True):
    """The calls in a text, and what is left of it."""

    remaining_text: str
    tool_calls: list[CalledFunction]
    success: bool


class ParsedCall(msgspec.Struct, forbid_unknown_fields=True):
    """A call found in a text, in SGLang's form."""

    tool_index: int
    name: str
    parameters: Annotated[str, Meta(description="JSON.")]


class SglangParsedCalls(msgspec.Struct, forbid_unknown_fields=True):
    """The calls in a text, in SGLang's form."""

    normal_text: str
    calls: list[ParsedCall]


class ParsedReasoning(msgspec.Struct, forbid_unknown_fields=True):
    """The reasoning in a text, and what is left of it."""

    normal_text: str
    reasoning_text: str
    success: bool


class SglangParsedReasoning(msgspec.Struct, forbid_unknown_fields=True):
    """The reasoning in a text, in SGLang's form."""

    reasoning_text: str
    text: str
