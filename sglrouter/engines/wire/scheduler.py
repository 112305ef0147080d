"""The scheduler service's messages: built and read here, sent elsewhere.

Every field that has a meaning is set on every request. In proto3 an unset number is
zero, and zero is a value to the engine: greedy sampling, no top-p, scoring of the
whole prompt.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from sglrouter._fast.prompt_ids import tokenized_input
from sglrouter._proto import common, health, scheduler

SERVICE = "sglang.grpc.scheduler.SglangScheduler"
GENERATE = f"/{SERVICE}/Generate"
GET_MODEL_INFO = f"/{SERVICE}/GetModelInfo"
GET_TOKENIZER = f"/{SERVICE}/GetTokenizer"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"

# Fields of SamplingParams.constraint.
CONSTRAINTS = ("regex", "json_schema", "ebnf_grammar", "structural_tag")


_random = random.Random()  # noqa: S311 (see new_request_id)
# Workers are forks of one process and would all draw the same.
os.register_at_fork(after_in_child=_random.seed)


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How one sample is drawn; checked values, ready for the engine.

    Attributes:
        top_k: -1 for all tokens.
        max_new_tokens: None for as many as the context holds; 0 to run the prompt only.
        constraint: (kind, text) with a kind of CONSTRAINTS, or None.
        logit_bias: (token id, bias) pairs.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    no_stop_trim: bool = False
    skip_special_tokens: bool = True
    logit_bias: tuple[tuple[int, float], ...] = ()
    constraint: tuple[str, str] | None = None


def new_request_id() -> str:
    """An id for one call to an engine.

    Random and of fixed length: engines abort by prefix, and cross the outputs of two
    live requests that share an id. It need not be a secret, only unique, and the
    system's own randomness costs a call into the kernel each time.
    """
    return f"{_random.getrandbits(128):032x}"


def generate_request(
    *,
    request_id: str,
    text: str,
    ids: Sequence[int],
    sampling: Sampling,
    stream: bool,
    logprobs: bool = False,
    top_logprobs: int = 0,
    lora_id: str = "",
    reasons: bool = False,
    logprob_start_len: int = -1,
    token_ids_logprob: Sequence[int] = (),
    stream_interval: int | None = None,
) -> bytes:
    """Serializes a GenerateRequest for one sample.

    Args:
        request_id: From new_request_id(), one for each call.
        text: The prompt; engines only carry it.
        ids: The prompt's token ids; quickest as a buffer of uint32.
        sampling: How to sample.
        stream: Whether tokens come as they are made or all at the end.
        logprobs: Whether to return the log probability of each output token.
        top_logprobs: How many alternatives to return for each.
        lora_id: The adapter to use; empty for none.
        reasons: Whether the answer begins with reasoning, which a grammar does not hold
            for; engines with a parser for it also count its tokens.
        logprob_start_len: From which position of the prompt on, with `logprobs`, its own
            tokens are scored, too; -1 for none. Engines then compute anew what they
            have cached from there on.
        token_ids_logprob: Ids that are scored at each output position, with `logprobs`.
        stream_interval: How many tokens an engine gathers for a message after the
            first; None for as many as it likes.
    """
    # A message's fields may come in any order, each written by whoever does it best.
    # protobuf's objects are not for every request: they trim the C heap when they go.
    identity = request_id.encode()
    return (
        b"\x0a"
        + _varint(len(identity))
        + identity
        + _options(stream, logprobs, top_logprobs, lora_id, reasons)
        + _scoring(logprob_start_len, token_ids_logprob)
        + _sampling_field(sampling, stream_interval)
        + tokenized_input(text.encode(), ids)
    )


@lru_cache(maxsize=256)
def _options(stream: bool, logprobs: bool, top_logprobs: int, lora_id: str, reasons: bool) -> bytes:
    """The fields of a GenerateRequest that are alike in most."""
    return scheduler.GenerateRequest(
        return_logprob=logprobs,
        logprob_start_len=-1,
        top_logprobs_num=top_logprobs,
        lora_id=lora_id,
        stream=stream,
        require_reasoning=reasons,
    ).SerializeToString()


def _scoring(start: int, ids: Sequence[int]) -> bytes:
    """What a request scores besides its output; of a field that comes twice the last counts."""
    fields = b"\x30" + _varint(start) if start >= 0 else b""
    if ids:
        fields += scheduler.GenerateRequest(token_ids_logprob=ids).SerializeToString()
    return fields


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


# Clients send the same parameters time and again, but what is long is kept by nobody.
_SHORT = 1000


def _sampling_field(sampling: Sampling, stream_interval: int | None) -> bytes:
    """Field 4 of a GenerateRequest, its SamplingParams."""
    short = (
        len(sampling.logit_bias) + len(sampling.stop_token_ids) + sum(map(len, sampling.stop))
        <= _SHORT
    ) and (sampling.constraint is None or len(sampling.constraint[1]) <= _SHORT)
    most = sampling.max_new_tokens
    if most is None:
        params = (_remembered if short else _serialized)(sampling)
    else:
        # What is left of the context is another number with every prompt.
        same = msgspec.structs.replace(sampling, max_new_tokens=None)
        params = (_remembered if short else _serialized)(same) + b"\x40" + _varint(most)
    if stream_interval is not None:
        params += b"\xa8\x01" + _varint(stream_interval)
    return b"\x22" + _varint(len(params)) + params


def _serialized(sampling: Sampling) -> bytes:
    """SamplingParams but for max_new_tokens."""
    params = scheduler.SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        frequency_penalty=sampling.frequency_penalty,
        presence_penalty=sampling.presence_penalty,
        repetition_penalty=sampling.repetition_penalty,
        min_new_tokens=sampling.min_new_tokens,
        stop=sampling.stop,
        stop_token_ids=sampling.stop_token_ids,
        ignore_eos=sampling.ignore_eos,
        no_stop_trim=sampling.no_stop_trim,
        # Engines in this mode return ids; both steer a detokenizer that is not there.
        skip_special_tokens=sampling.skip_special_tokens,
        spaces_between_special_tokens=True,
        n=1,
    )
    for token, bias in sampling.logit_bias:
        params.logit_bias[str(token)] = bias
    if sampling.constraint is not None:
        kind, value = sampling.constraint
        setattr(params, kind, value)
    return params.SerializeToString()


_remembered = lru_cache(maxsize=256)(_serialized)


class EngineFacts(msgspec.Struct, frozen=True):
    """What an engine says about itself and can be believed.

    GetModelInfo's vocabulary, eos ids and context are constants in some engines, so
    they are taken from the model's files instead.

    Attributes:
        max_prompt_tokens: The longest prompt that it takes; 0 if unknown.
        sampling_defaults: What it applies where a request says nothing.
        served_model_name: The name that its operator gave it; may be empty.
        model_path: Where it loaded the model from.
        tokenizer_path: Where it loaded the tokenizer from; may be empty.
        is_generation: Whether it generates; else it embeds, scores or classifies.
        model_type: As config.json has it, such as "qwen2".
        architectures: As config.json has them.
        weight_version: What its operator calls these weights.
        preferred_sampling_params: Its operator's defaults as JSON; empty for none.
        supports_vision: Whether it takes images, if it says so: SGLang 0.5.23 never does.
        id2label_json: A classifier's labels as JSON. Others are given two that mean nothing.
        num_labels: How many those are.
    """

    max_prompt_tokens: int = 0
    sampling_defaults: Mapping[str, float] = {}
    served_model_name: str = ""
    model_path: str = ""
    tokenizer_path: str = ""
    is_generation: bool = True
    model_type: str = ""
    architectures: tuple[str, ...] = ()
    weight_version: str = ""
    preferred_sampling_params: str = ""
    supports_vision: bool = False
    id2label_json: str = ""
    num_labels: int = 0

    @property
    def generates(self) -> bool:
        """Whether it is known to generate text."""
        return bool(self.model_path) and self.is_generation

    @property
    def embeds(self) -> bool:
        """Whether it is known not to."""
        return bool(self.model_path) and not self.is_generation

    @property
    def model_name(self) -> str:
        """What the engine's operator would call the model; empty if unknown."""
        return self.served_model_name or self.model_path.rstrip("/").rpartition("/")[2]


def model_info_request() -> bytes:
    """Serializes a GetModelInfoRequest."""
    return scheduler.GetModelInfoRequest().SerializeToString()


def read_model_info(message: bytes) -> EngineFacts:
    """Reads a GetModelInfoResponse."""
    info = scheduler.GetModelInfoResponse.FromString(message)
    defaults: dict[str, float] = {}
    if info.default_sampling_params_json:
        try:
            found = msgspec.json.decode(info.default_sampling_params_json, type=dict[str, object])
        except msgspec.DecodeError:
            found = {}
        defaults = {
            name: value
            for name, value in found.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
    return EngineFacts(
        # Prompts must be shorter than what it says.
        max_prompt_tokens=max(info.max_req_input_len - 1, 0),
        sampling_defaults=defaults,
        served_model_name=info.served_model_name,
        model_path=info.model_path,
        tokenizer_path=info.tokenizer_path,
        is_generation=info.is_generation,
        model_type=info.model_type,
        architectures=tuple(info.architectures),
        weight_version=info.weight_version,
        preferred_sampling_params=info.preferred_sampling_params,
        supports_vision=info.supports_vision,
        id2label_json=info.id2label_json,
        num_labels=info.num_labels,
    )


def tokenizer_request() -> bytes:
    """Serializes a GetTokenizerRequest."""
    return common.GetTokenizerRequest().SerializeToString()


def read_tokenizer_chunk(message: bytes) -> tuple[bytes, str]:
    """Reads a GetTokenizerChunk: its bytes, and the digest if it is the last."""
    chunk = common.GetTokenizerChunk.FromString(message)
    return chunk.data, chunk.sha256


def health_request() -> bytes:
    """Serializes a health check of the whole server."""
    return health.HealthCheckRequest().SerializeToString()


def read_health(message: bytes) -> bool:
    """Whether the answer to a health check says SERVING."""
    answer = health.HealthCheckResponse.FromString(message)
    return answer.status == health.HealthCheckResponse.ServingStatus.SERVING
