"""What all requests for generated text have in common: how to sample, and how much.

None means that the client left a field out, which is not the same as any value. Fields
that engines cannot serve are accepted, and the client is told of them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from sglrouter.schema import shapes


class StreamOptions(msgspec.Struct, frozen=True):
    """stream_options."""

    include_usage: Annotated[
        bool | None, Meta(description="Whether a last chunk without choices has the token counts.")
    ] = None
    continuous_usage_stats: Annotated[
        bool | None, Meta(description="Whether every chunk has the token counts so far.")
    ] = None


# What a field is marked with that asks for what no engine will do, and one that is refused.
IGNORED_MARK = Meta(description="Accepted; engines cannot be told.")
REFUSED_MARK = Meta(description="Refused: engines cannot be told.")
# Of any type, since nothing is done about them.
Ignored = Annotated[Any, IGNORED_MARK]
Refused = Annotated[Any, REFUSED_MARK]


def marked(kind: type[msgspec.Struct], mark: Meta) -> tuple[str, ...]:
    """The fields of a body that have a mark, in the order that it has them."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        name for name in kind.__struct_fields__ if mark in getattr(hints[name], "__metadata__", ())
    )


class SamplingRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a request that steer sampling."""

    model: Annotated[
        str | None,
        Meta(description="The model's name; left out, the model that is served."),
    ] = None

    stream: Annotated[
        bool | None,
        Meta(description="Whether the answer comes as server-sent events while it is made."),
    ] = None
    stream_options: Annotated[
        StreamOptions | None, Meta(description="Without effect where `stream` is not true.")
    ] = None
    n: Annotated[
        int | None,
        Meta(description="How many answers; 1 if left out.", extra_json_schema={"minimum": 1}),
    ] = None

    temperature: Annotated[
        float | None,
        Meta(
            description="At least 0; below 1e-6 the likeliest token is taken.",
            extra_json_schema={"minimum": 0},
        ),
    ] = None
    top_p: Annotated[
        float | None,
        Meta(
            description="Above 0, at most 1.",
            extra_json_schema={"exclusiveMinimum": 0, "maximum": 1},
        ),
    ] = None
    top_k: Annotated[
        int | None,
        Meta(
            description="-1 or 0 for all tokens, else at least 1.",
            extra_json_schema={"minimum": -1},
        ),
    ] = None
    min_p: Annotated[
        float | None, Meta(description="0 to 1.", extra_json_schema={"minimum": 0, "maximum": 1})
    ] = None
    frequency_penalty: Annotated[
        float | None, Meta(description="-2 to 2.", extra_json_schema={"minimum": -2, "maximum": 2})
    ] = None
    presence_penalty: Annotated[
        float | None, Meta(description="-2 to 2.", extra_json_schema={"minimum": -2, "maximum": 2})
    ] = None
    repetition_penalty: Annotated[
        float | None,
        Meta(
            description="Above 0, at most 2.",
            extra_json_schema={"exclusiveMinimum": 0, "maximum": 2},
        ),
    ] = None
    logit_bias: Annotated[
        dict[str, float] | None,
        Meta(
            description="Token ids to values of -100 to 100.", extra_json_schema=shapes.LOGIT_BIAS
        ),
    ] = None
    seed: Annotated[int | None, IGNORED_MARK] = None

    max_tokens: Annotated[
        int | None,
        Meta(
            description="Most tokens of an answer; clamped to what is left of the context.",
            extra_json_schema={"minimum": 1},
        ),
    ] = None
    max_completion_tokens: Annotated[
        int | None,
        Meta(
            description="The same; it goes before `max_tokens`.", extra_json_schema={"minimum": 1}
        ),
    ] = None
    min_tokens: Annotated[
        int | None, Meta(description="Least tokens of an answer.", extra_json_schema={"minimum": 0})
    ] = None
    stop: Annotated[
        str | list[str] | None,
        Meta(description="Up to 32 strings that end an answer."),
    ] = None
    stop_token_ids: Annotated[
        list[int] | None,
        Meta(description="Up to 1024 token ids that end an answer."),
    ] = None
    ignore_eos: Annotated[
        bool | None,
        Meta(description="Whether the answer goes on after the model has ended it."),
    ] = None
    no_stop_trim: Annotated[
        bool | None,
        Meta(description="Whether what stopped the answer stays in it."),
    ] = None
    skip_special_tokens: Annotated[
        bool | None,
        Meta(description="Whether special tokens are left out of the text; true if left out."),
    ] = None

    response_format: Annotated[
        dict[str, Any] | None,
        Meta(
            description="`text`, `json_object`, `json_schema` or `structural_tag`, as `type`.",
            extra_json_schema={"allOf": [shapes.RESPONSE_FORMAT]},
        ),
    ] = None
    regex: Annotated[
        str | None,
        Meta(description="A regular expression that the answer must match."),
    ] = None
    ebnf: Annotated[
        str | None,
        Meta(description="A grammar that the answer must follow, in EBNF."),
    ] = None

    lora_path: Annotated[str | None, Meta(description="The name of a LoRA adapter.")] = None

    rid: Annotated[
        str | list[str] | None,
        Meta(description="A name of your own by which /abort_request stops the request."),
    ] = None

    stop_regex: Ignored = None
    custom_logit_processor: Ignored = None
    custom_params: Ignored = None
    session_params: Ignored = None
    session_id: Ignored = None
    cache_salt: Ignored = None
    extra_key: Ignored = None
    priority: Ignored = None
    data_parallel_rank: Ignored = None
    routed_dp_rank: Ignored = None
    return_hidden_states: Ignored = None
    return_routed_experts: Ignored = None
    return_prompt_token_ids: Ignored = None
    return_token_ids: Ignored = None
    return_meta_info: Ignored = None


# Fields that change an answer, but that no engine is told of: the wire has no room for
# them, or what comes over it is not checked (code to run, ranks).
IGNORED = marked(SamplingRequest, IGNORED_MARK)

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
    return [name for name in names if asks_for_something(getattr(request, name))]


def asks_for_something(value: object) -> bool:
    """Whether a field's value wants more than the field left out.

    Clients send the empty forms of all that they know: null, false, "", [], {}. Zero is a
    value.
    """
    if isinstance(value, (str, list, dict)):
        return bool(value)
    return value is not None and value is not False
