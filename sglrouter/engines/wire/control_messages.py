"""The scheduler service's messages for everything but generation: built and read here.

What an engine tells about itself becomes plain dicts, fit for JSON: the names are the
wire's, and what it has not set is there with its zero.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import json_format, struct_pb2

from sglrouter._fast import vectors
from sglrouter._fast.prompt_ids import tokenized_input
from sglrouter._proto import common, scheduler
from sglrouter.engines.wire.scheduler import SERVICE
from sglrouter.errors import EngineError, from_engine_response, from_grpc_status

EMBED = f"/{SERVICE}/Embed"
ABORT = f"/{SERVICE}/Abort"
GET_SERVER_INFO = f"/{SERVICE}/GetServerInfo"
GET_LOADS = f"/{SERVICE}/GetLoads"
FLUSH_CACHE = f"/{SERVICE}/FlushCache"
START_PROFILE = f"/{SERVICE}/StartProfile"
STOP_PROFILE = f"/{SERVICE}/StopProfile"
# Not the standard health service: this one generates a token.
HEALTH_GENERATE = f"/{SERVICE}/HealthCheck"

# Beyond this a double does not know its neighbours.
_LARGEST_WHOLE = 2.0**53


class Embedding(NamedTuple):
    """A vector of 32-bit floats (array type "f"), and the tokens that it came from."""

    vector: array[float]
    prompt_tokens: int


class Outcome(NamedTuple):
    """What an engine says of something it was told to do; failure is no gRPC error there."""

    success: bool
    message: str


def embed_request(request_id: str, ids: Sequence[int], text: str = "") -> bytes:
    """Serializes an EmbedRequest; see scheduler.generate_request() for its arguments."""
    # The numbers of both fields are those of GenerateRequest.
    identity = scheduler.EmbedRequest(request_id=request_id).SerializeToString()
    return identity + tokenized_input(text.encode(), ids)


def read_embedding(message: bytes) -> Embedding:
    """Reads an EmbedResponse, as servicers from 0.5.3 on answer or those before.

    Raises:
        RouterError: The response says that something failed, cannot be read, or holds no
            vector of finite numbers.
    """
    try:
        floats, prompt_tokens, failure = vectors.read_embedding(message)
    except ValueError as exc:
        raise EngineError(f"The engine sent a message that cannot be read: {exc}") from exc
    if failure is not None:
        words, code = failure
        raise (from_engine_response if code.isdecimal() else from_grpc_status)(code, words)
    vector = array("f", floats)
    if sys.byteorder == "big":
        vector.byteswap()
    if not vector:
        raise EngineError("The engine answered without an embedding")
    if not vectors.is_finite(vector):
        raise EngineError("The engine's embedding holds values that are no numbers")
    return Embedding(vector, prompt_tokens)


def server_info_request() -> bytes:
    """Serializes a GetServerInfoRequest."""
    return scheduler.GetServerInfoRequest().SerializeToString()


def read_server_info(message: bytes) -> dict[str, Any]:
    """Reads a GetServerInfoResponse; start_time is in seconds since 1970.

    server_args and scheduler_info are dicts. The arguments are all of them: what an
    operator keeps secret (api_key and the like) is among them.
    """
    info = scheduler.GetServerInfoResponse.FromString(message)
    args, state = _plain_struct(info.server_args), _plain_struct(info.scheduler_info)
    info.ClearField("server_args")
    info.ClearField("scheduler_info")
    return {
        **_plain(info),
        "server_args": args,
        "scheduler_info": state,
        "start_time": info.start_time.seconds,
    }


def loads_request(include: Sequence[str] = (), dp_rank: int | None = None) -> bytes:
    """Serializes a GetLoadsRequest."""
    return scheduler.GetLoadsRequest(include=include, dp_rank=dp_rank).SerializeToString()


def read_loads(message: bytes) -> dict[str, Any]:
    """Reads a GetLoadsResponse; a section that the engine left out is left out."""
    return _plain(scheduler.GetLoadsResponse.FromString(message))


def flush_cache_request(timeout: float) -> bytes:
    """Serializes a FlushCacheRequest."""
    return common.FlushCacheRequest(timeout_s=timeout).SerializeToString()


def read_flush_cache(message: bytes) -> Outcome:
    """Reads a FlushCacheResponse."""
    answer = common.FlushCacheResponse.FromString(message)
    return Outcome(answer.success, answer.message)


def start_profile_request(options: Mapping[str, Any]) -> bytes:
    """Serializes a StartProfileRequest; None stands for what is left to the engine.

    Raises:
        TypeError: A value has not the type of its field.
        ValueError: There is no such field.
    """
    return common.StartProfileRequest(**options).SerializeToString()


def stop_profile_request() -> bytes:
    """Serializes a StopProfileRequest."""
    return common.StopProfileRequest().SerializeToString()


def read_profile(message: bytes) -> Outcome:
    """Reads a ProfileResponse."""
    answer = common.ProfileResponse.FromString(message)
    return Outcome(answer.success, answer.message)


def health_generate_request() -> bytes:
    """Serializes the scheduler's own HealthCheckRequest."""
    return scheduler.HealthCheckRequest().SerializeToString()


def read_health_generate(message: bytes) -> Outcome:
    """Reads the scheduler's own HealthCheckResponse."""
    answer = scheduler.HealthCheckResponse.FromString(message)
    return Outcome(answer.healthy, answer.message)


def abort_request(request_id: str) -> bytes:
    """Serializes an AbortRequest.

    Raises:
        ValueError: The id is empty; engines match by prefix and would abort everything.
    """
    if not request_id:
        raise ValueError("an empty id would abort every request of the engine")
    return scheduler.AbortRequest(
        request_id=request_id, reason="cancelled by the router"
    ).SerializeToString()


def _plain(message: Any) -> dict[str, Any]:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in struct.fields.items()}


def _plain_value(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return _plain_struct(value.struct_value)
        case "list_value":
            return [_plain_value(each) for each in value.list_value.values]
        case "number_value":
            return _plain_number(value.number_value)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
    return None


def _plain_number(number: float) -> float | None:
    """A Struct knows doubles only: whole ones were integers, most of them; JSON has no NaN."""
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) <= _LARGEST_WHOLE else number
