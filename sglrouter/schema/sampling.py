"""What all requests for generated text have in common: how to sample, and how much.

None means that the client left a field out, which is not the same as any value. Fields
that engines cannot serve are accepted, and the client is told of them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec


class StreamOptions(msgspec.Struct, frozen=True):
    """stream_options."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class SamplingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a request that steer sampling."""

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

    response_format: dict[str, Any] | None = None
    regex: str | None = None
    ebnf: str | None = None

    lora_path: str | None = None

    stop_regex: Any = None
    custom_logit_processor: Any = None
    custom_params: Any = None
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
# them, or what comes over it is not checked (code to run, ranks).
IGNORED = (
    "seed",
    "stop_regex",
    "custom_logit_processor",
    "custom_params",
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


def ignored_fields(request: SamplingRequest, *others: str) -> list[str]:
    """The names of the fields that ask for what no engine will do.

    Args:
        request: The request.
        others: Fields of its own kind of request that are ignored, too.
    """
    values = _ignored_values(request)
    if values == _NOTHING_IGNORED:
        names: tuple[str, ...] = others
    else:
        names = (*IGNORED, *others)
    return [
        name
        for name in names
        # Zero is a value, and equal to False.
        if (value := getattr(request, name)) is not None and value is not False
    ]
