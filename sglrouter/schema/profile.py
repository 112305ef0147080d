"""The body of /start_profile, which may be left out."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from sglrouter.schema.json_bounds import JsonBounds, decode_bounded

_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class ProfileRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine shall profile itself; what is left out is its choice."""

    output_dir: Annotated[
        str | None, Meta(description="Ignored: the setting `profile_dir` says where traces go.")
    ] = None
    start_step: Annotated[_Count | None, Meta(description="The step to begin with.")] = None
    num_steps: Annotated[
        _Count | None, Meta(description="After how many steps it ends by itself.")
    ] = None
    activities: Annotated[
        list[str] | None, Meta(description="What is recorded, such as `CPU` and `GPU`.")
    ] = None
    with_stack: Annotated[bool | None, Meta(description="Whether with source lines.")] = None
    record_shapes: Annotated[bool | None, Meta(description="Whether with shapes.")] = None
    profile_by_stage: Annotated[
        bool | None, Meta(description="Whether prefill and decode apart.")
    ] = None


_decoder = msgspec.json.Decoder(ProfileRequest, strict=False)


def decode_profile_request(body: bytes, bounds: JsonBounds) -> ProfileRequest:
    """Reads a request body.

    Raises:
        BadRequest: It is not JSON, larger than the bounds, or a field has the wrong type.
    """
    return decode_bounded(_decoder, body, bounds) if body.strip() else ProfileRequest()
