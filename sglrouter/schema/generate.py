"""The body of POST /generate, SGLang's native request, and of POST /abort_request.

Most fields may be a list with one value for each prompt. Which of the two shapes a field
has is not its type's to say where both are lists, so those are told apart later.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded
from sglrouter.schema.sampling import (
    IGNORED_MARK,
    Ignored,
    SamplingRequest,
    asks_for_something,
    marked,
)

DEFAULT_MAX_NEW_TOKENS = 128


class NativeSamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """sampling_params."""

    max_new_tokens: Annotated[
        int | msgspec.UnsetType | None,
        Meta(description="Most tokens of an answer, 128 if left out; null for no bound."),
    ] = msgspec.UNSET
    min_new_tokens: Annotated[int | None, Meta(description="Least tokens of an answer.")] = None
    stop: Annotated[
        str | list[str] | None, Meta(description="Up to 32 strings that end an answer.")
    ] = None
    stop_token_ids: Annotated[
        list[int | None] | None, Meta(description="Up to 1024 token ids that end an answer.")
    ] = None
    temperature: Annotated[
        float | None, Meta(description="At least 0; below 1e-6 the likeliest token is taken.")
    ] = None
    top_p: Annotated[float | None, Meta(description="Above 0, at most 1.")] = None
    top_k: Annotated[int | None, Meta(description="-1 for all tokens, else at least 1.")] = None
    min_p: Annotated[float | None, Meta(description="0 to 1.")] = None
    frequency_penalty: Annotated[float | None, Meta(description="-2 to 2.")] = None
    presence_penalty: Annotated[float | None, Meta(description="-2 to 2.")] = None
    repetition_penalty: Annotated[float | None, Meta(description="Above 0, at most 2.")] = None
    n: Annotated[int | None, Meta(description="How many answers to each prompt.")] = None
    json_schema: Annotated[
        str | dict[str, Any] | None, Meta(description="A JSON Schema that the answer follows.")
    ] = None
    regex: Annotated[str | None, Meta(description="An expression that the answer matches.")] = None
    ebnf: Annotated[str | None, Meta(description="A grammar that the answer follows.")] = None
    structural_tag: Annotated[
        str | dict[str, Any] | None, Meta(description="A structural tag that the answer follows.")
    ] = None
    ignore_eos: Annotated[
        bool | None, Meta(description="Whether the answer goes on after the model has ended it.")
    ] = None
    skip_special_tokens: Annotated[
        bool | None, Meta(description="Whether special tokens are left out of the text.")
    ] = None
    spaces_between_special_tokens: Annotated[bool | None, Meta(description="Without effect.")] = (
        None
    )
    no_stop_trim: Annotated[
        bool | None, Meta(description="Whether what stopped the answer stays in it.")
    ] = None
    stream_interval: Annotated[
        int | None, Meta(description="How many tokens a stream's event adds.")
    ] = None
    logit_bias: Annotated[
        dict[str, float] | None, Meta(description="Token ids to values of -100 to 100.")
    ] = None

    stop_regex: Ignored = None
    sampling_seed: Ignored = None
    custom_params: Ignored = None
    beam_width: Ignored = None
    watermark: Ignored = None


IGNORED_IN_SAMPLING_PARAMS = marked(NativeSamplingParams, IGNORED_MARK)

# What is called alike here and in what all requests share.
_SAME = tuple(
    name for name in NativeSamplingParams.__struct_fields__
    if name in SamplingRequest.__struct_fields__
    and name not in IGNORED_IN_SAMPLING_PARAMS and name != "stop_token_ids"
)  # fmt: skip
# What is not, from the longest neutral path on.
_NAMES = (
    ("max_tokens", "max_new_tokens"),
    ("min_tokens", "min_new_tokens"),
    ("response_format.json_schema.schema", "json_schema"),
)


def sampling_wishes(
    params: NativeSamplingParams, response_format: dict[str, Any] | None, lora_path: str | None
) -> SamplingRequest:
    """What sampling_params ask for, in neutral terms; name_in_params() leads back.

    Args:
        params: As the client wrote them.
        response_format: What its JSON schema or structural tag is in neutral terms.
        lora_path: The request's adapter.
    """
    most = params.max_new_tokens
    return SamplingRequest(
        response_format=response_format,
        lora_path=lora_path,
        max_tokens=DEFAULT_MAX_NEW_TOKENS if most is msgspec.UNSET else most,
        min_tokens=params.min_new_tokens,
        stop_token_ids=[token for token in params.stop_token_ids or () if token is not None],
        **{name: getattr(params, name) for name in _SAME},
    )


def name_in_params(params: NativeSamplingParams, place: str, field: str) -> str:
    """What a field of sampling_wishes() is called in a native request.

    Args:
        params: What the wishes came from, preferences included.
        place: Where the body has them.
        field: A neutral name, or the path to what is in it.
    """
    grammar = "json_schema" if not params.structural_tag else "structural_tag"
    for neutral, own in (*_NAMES, ("response_format", grammar)):
        if field.startswith(neutral):
            return f"{place}.{own}{field[len(neutral) :]}"
    head = field.partition(".")[0].partition("[")[0]
    return f"{place}.{field}" if head in NativeSamplingParams.__struct_fields__ else field


def with_preferred(
    params: NativeSamplingParams, preferred: NativeSamplingParams
) -> NativeSamplingParams:
    """Fills what a request leaves out with what an engine's operator prefers."""
    changes: dict[str, Any] = {}
    for name in params.__struct_fields__:
        value = getattr(preferred, name)
        if value is not None and value is not msgspec.UNSET:
            given = getattr(params, name)
            if given is msgspec.UNSET or (given is None and name != "max_new_tokens"):
                changes[name] = value
    return msgspec.structs.replace(params, **changes) if changes else params


# What a field is marked with that would need more than token ids.
_MEDIA = Meta(description="Refused.")

# One value for all prompts, or one for each.
Switch = bool | list[bool | None] | None
Number = int | list[int | None] | None


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A native request."""

    text: Annotated[str | list[str] | None, Meta(description="One prompt, or several.")] = None
    input_ids: Annotated[
        list[int | list[int]] | None,
        Meta(description="The tokens of one prompt, or a list of several; instead of `text`."),
    ] = None
    sampling_params: Annotated[
        NativeSamplingParams | list[NativeSamplingParams] | None,
        Meta(description="How to sample; one for all prompts, or one for each."),
    ] = None
    rid: Annotated[
        str | list[str] | None,
        Meta(description="A name of your own by which /abort_request stops it."),
    ] = None
    stream: Annotated[
        bool | None,
        Meta(description="Whether the answer comes as server-sent events while it is made."),
    ] = None
    return_logprob: Annotated[
        Switch, Meta(description="Whether to return the log probability of each token.")
    ] = None
    logprob_start_len: Annotated[
        Number,
        Meta(description="From where on the prompt's own tokens are scored; -1 for not at all."),
    ] = None
    top_logprobs_num: Annotated[
        Number, Meta(description="How many of the likeliest tokens to return in each place.")
    ] = None
    token_ids_logprob: Annotated[
        list[int | list[int] | None] | None,
        Meta(description="Tokens that are scored in each place of the answer."),
    ] = None
    return_text_in_logprobs: Annotated[
        bool | None, Meta(description="Whether log probabilities have their token's text.")
    ] = None
    return_prompt_token_ids: Annotated[
        bool | None, Meta(description="Whether to return the prompt's tokens.")
    ] = None
    lora_path: Annotated[
        str | list[str | None] | None, Meta(description="The name of a LoRA adapter.")
    ] = None
    require_reasoning: Annotated[
        bool | None,
        Meta(description="Whether the answer begins with reasoning, which grammars let pass."),
    ] = None

    image_data: Annotated[Any, _MEDIA] = None
    audio_data: Annotated[Any, _MEDIA] = None
    video_data: Annotated[Any, _MEDIA] = None
    input_embeds: Annotated[Any, _MEDIA] = None

    return_hidden_states: Ignored = None
    return_routed_experts: Ignored = None
    return_indexer_topk: Ignored = None
    return_sampling_mask: Ignored = None
    return_entropy: Ignored = None
    return_flat_raw_top_logprobs: Ignored = None
    return_flat_raw_output_top_logprobs: Ignored = None
    custom_logit_processor: Ignored = None
    positional_embed_overrides: Ignored = None
    multi_item_delimiter_indices: Ignored = None
    token_indices_to_pool: Ignored = None
    max_thinking_tokens: Ignored = None
    session_params: Ignored = None
    session_id: Ignored = None
    cache_salt: Ignored = None
    extra_key: Ignored = None
    kv_hints: Ignored = None
    priority: Ignored = None
    routed_dp_rank: Ignored = None
    data_parallel_rank: Ignored = None
    bootstrap_host: Ignored = None
    bootstrap_port: Ignored = None
    bootstrap_room: Ignored = None
    watermark: Ignored = None


REFUSED_IN_GENERATE = marked(GenerateRequest, _MEDIA)
IGNORED_IN_GENERATE = marked(GenerateRequest, IGNORED_MARK)


class NativeMetaInfo(msgspec.Struct, kw_only=True):
    """meta_info of an answer. There is more where more is asked for."""

    id: Annotated[str, Meta(description="What /abort_request knows it by.")]
    finish_reason: Annotated[
        dict[str, Any] | None,
        Meta(description="`type` is `stop`, `length` or `abort`; null while it goes on."),
    ]
    prompt_tokens: Annotated[int, Meta(description="Tokens of the prompt.")]
    completion_tokens: Annotated[int, Meta(description="Tokens so far.")]
    cached_tokens: Annotated[int, Meta(description="Those found in the engine's prefix cache.")]
    reasoning_tokens: Annotated[int, Meta(description="Those that are reasoning.")]
    weight_version: Annotated[str, Meta(description="What the engine calls its weights.")]
    e2e_latency: Annotated[
        float | msgspec.UnsetType, Meta(description="Seconds, once it is complete.")
    ] = msgspec.UNSET


class NativeAnswer(msgspec.Struct, kw_only=True):
    """A native answer; a list of them to several prompts or with n above 1."""

    text: Annotated[str, Meta(description="The answer; in a stream, all of it so far.")]
    output_ids: Annotated[list[int], Meta(description="Its tokens, the one that ended it too.")]
    meta_info: NativeMetaInfo


class AbortRequest(msgspec.Struct, frozen=True):
    """The body of POST /abort_request."""

    rid: Annotated[str | None, Meta(description="The name of the request to stop.")] = None
    abort_all: Annotated[bool | None, Meta(description="Whether to stop all requests.")] = None


_decoder = msgspec.json.Decoder(GenerateRequest, strict=False)
_abort_decoder = msgspec.json.Decoder(AbortRequest, strict=False)
_params_decoder = msgspec.json.Decoder(NativeSamplingParams, strict=False)


def decode_generate_request(body: bytes, bounds: JsonBounds) -> GenerateRequest:
    """Reads the body of /generate.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_decoder, body, bounds)


def decode_abort_request(body: bytes, bounds: JsonBounds) -> AbortRequest:
    """Reads the body of /abort_request; see decode_generate_request()."""
    return decode_bounded(_abort_decoder, body, bounds)


def decode_sampling_params(text: str) -> NativeSamplingParams:
    """Reads sampling_params by themselves.

    Raises:
        msgspec.DecodeError: They are not JSON, or a field has the wrong type.
    """
    return _params_decoder.decode(text)


def ignored_in(holder: msgspec.Struct, names: tuple[str, ...], place: str = "") -> list[str]:
    """The names of those fields that ask for something, after what holds them."""
    return [f"{place}{name}" for name in names if asks_for_something(getattr(holder, name))]
