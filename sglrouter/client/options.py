"""The timeouts and buffer sizes of a client, with the defaults of the original's SDK."""

from __future__ import annotations

import math
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from sglrouter.errors import ConfigError

Seconds = Annotated[float, Meta(gt=0)]
T = TypeVar("T", bound=msgspec.Struct)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client waits, in seconds.

    Attributes:
        keepalive_time: Interval of the pings to an engine with calls under way. Servers
            with gRPC's defaults take one in 300 s and end connections that ping more.
        keepalive_timeout: How long a ping's answer may take; then the connection is lost.
        close_timeout: How long close() waits for what it has cancelled.
        request: Longest time that one completion may take; None for the setting
            `request_timeout`.
        first_token: Longest wait for an engine's first answer; None for the setting
            `first_token_timeout`.
        idle: Longest silence between two tokens; None for the setting `idle_timeout`.
    """

    keepalive_time: Seconds = 300.0
    keepalive_timeout: Seconds = 20.0
    close_timeout: Annotated[float, Meta(ge=0)] = 5.0
    request: Seconds | None = None
    first_token: Seconds | None = None
    idle: Seconds | None = None


class Buffers(msgspec.Struct, frozen=True, kw_only=True):
    """How much a client keeps of what nobody has asked for yet.

    Attributes:
        results: Most chunks of a stream that are made ahead of its reader. One message
            of an engine is never split, so those of the last one may come on top.
        errors: How many failures `Client.errors` keeps; the oldest go first.
        received: Most messages of an engine that wait in one call; then the engine is
            held back. The native channel counts bytes, 64 for each: a token takes some 50.
    """

    results: Annotated[int, Meta(ge=1)] = 10_000
    errors: Annotated[int, Meta(ge=0)] = 100
    received: Annotated[int, Meta(ge=1)] = 2_000


def checked(options: T) -> T:
    """The same options.

    Raises:
        ConfigError: One is wrong.
    """
    kind = type(options).__name__
    try:
        msgspec.convert(msgspec.structs.asdict(options), type(options))
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{kind}: {exc}") from exc
    for name, value in msgspec.structs.asdict(options).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{kind}: {name} is not a finite number")
    return options
