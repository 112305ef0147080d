"""Exchanges without a fleet: on a bare channel, or of calls that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sglrouter.engines.channel.channel import Call, Channel
from sglrouter.engines.exchange import Deadlines, Exchange
from sglrouter.engines.fleet.placement import Job


class OnChannel:
    """A placement on a channel; what it hears is kept."""

    def __init__(self, channel: Channel | None) -> None:
        self._channel = channel
        self.released = 0
        self.aborted: list[str] = []

    def stream(self, method: str, request: bytes, **options: Any) -> Call:
        assert self._channel is not None
        return self._channel.stream(method, request, **options)

    def abort(self, _call: Call, name: str) -> None:
        self.aborted.append(name)

    def release(self, *, unreachable: bool = False) -> None:
        self.released += 1


class OfCalls(OnChannel):
    """A placement whose calls have been made before."""

    def __init__(self, calls: Sequence[Any]) -> None:
        super().__init__(None)
        self._calls = list(calls)

    def stream(self, method: str, request: bytes, **options: Any) -> Call:
        call = self._calls.pop(0)
        if hasattr(call, "arrived"):
            call.arrived = options["arrived"]
        return cast(Call, call)


def exchange_of(*calls: Any, first: float = 10.0, idle: float = 10.0) -> Exchange:
    """An exchange under way, of these calls."""
    names = [f"sample {index}" for index in range(len(calls))]
    job = Job("/a/B", [b""] * len(calls), names)
    exchange = Exchange(OfCalls(calls), job, Deadlines(10.0, first, idle))
    exchange.begin()
    return exchange
