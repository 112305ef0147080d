"""An engine's channel without an engine: it answers as its test says, and keeps what it hears."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sglrouter._proto import scheduler as pb
from sglrouter.engines.channel.channel import Bell, Metadata, Status
from sglrouter.engines.wire.control_messages import ABORT
from sglrouter.engines.wire.scheduler import GET_MODEL_INFO, HEALTH_CHECK

OK = Status("OK", "")
GONE = Status("UNAVAILABLE", "gone", unseen=True)
NOT_THERE = Status("UNIMPLEMENTED", "no such method")
# grpc.health.v1.HealthCheckResponse, whose only field says whether it serves.
SERVES, SERVES_NOT = b"\x08\x01", b"\x08\x02"

Answer = tuple[Status, bytes]


def model_info(path: str = "m", **fields: Any) -> bytes:
    """What an engine says of its model."""
    return pb.GetModelInfoResponse(model_path=path, **fields).SerializeToString()


class ScriptedCall:
    """A call that is as its test says."""

    def __init__(self, arrived: Bell) -> None:
        self.arrived = arrived
        self.status: Status | None = None
        self.holds_back = False
        self.cancelled = 0

    def take(self) -> list[bytes]:
        return []

    def listen(self, _on_news: Callable[[], None] | None) -> bool:
        return False

    def divert(self, sink: Any) -> None:
        """Gives it nothing."""

    def cancel(self) -> None:
        self.cancelled += 1

    def end(self, status: Status) -> None:
        self.status = status
        self.arrived.set()


class ScriptedChannel:
    """A channel whose unary calls have answers by their methods."""

    def __init__(self) -> None:
        self.health: Answer = (OK, SERVES)
        self.info: Answer = (OK, model_info())
        self.abort: Answer = (OK, b"")
        self.asked: list[str] = []
        self.calls: list[ScriptedCall] = []
        self.connected: bool | None = None
        self.active = 0
        self.closed = False
        # Called while a question is under way.
        self.meanwhile: Callable[[str], None] = lambda method: None

    def unary(
        self, method: str, _request: bytes, *, timeout: float, metadata: Metadata = ()
    ) -> Answer:
        assert timeout > 0
        assert not metadata
        self.asked.append(method)
        self.meanwhile(method)
        return {HEALTH_CHECK: self.health, GET_MODEL_INFO: self.info, ABORT: self.abort}[method]

    def stream(
        self,
        _method: str,
        _request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> ScriptedCall:
        assert timeout > 0
        assert not metadata
        self.calls.append(ScriptedCall(arrived))
        return self.calls[-1]

    def counts(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        self.closed = True
