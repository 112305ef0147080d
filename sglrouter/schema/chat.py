"""The body of POST /v1/chat/completions.

OpenAI's fields and SGLang's extensions. None means that the client left a field out,
which is not the same as any value. Messages and tools stay the client's own objects,
since the model is shown them as they were written. Unknown fields are accepted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sglrouter.errors import BadRequest


class StreamOptions(msgspec.Struct, frozen=True):
    """stream_options."""

    include_usage: bool | None = None


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

    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | float | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None

    lora_path: str | None = None


_decoder = msgspec.json.Decoder(ChatRequest)


def decode_chat_request(body: bytes) -> ChatRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, or a field has the wrong type.
    """
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as exc:
        message, _, path = str(exc).partition(" - at `")
        field = path.rstrip("`").removeprefix("$").removeprefix(".")
        if not field and message.startswith("Object missing required field"):
            field = message.split("`")[1]
        raise BadRequest(
            f"{field}: {message}" if field else message, code="invalid_type", param=field or None
        ) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BadRequest(f"The body is not valid JSON: {exc}", code="invalid_json") from exc
    except RecursionError as exc:
        raise BadRequest("The body is nested too deeply", code="invalid_json") from exc
