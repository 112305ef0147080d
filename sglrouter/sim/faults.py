"""Faults on demand: what goes wrong in a Generate call, when, and how often.

A fault is an action that strikes once the call has sent a given number of messages.
Faults queue up: the first one with strikes left takes the next call, so that a test can
say "fail twice, then work".
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import grpc

ACTIONS = {
    "fail": "end with a gRPC status",
    "die": "the whole engine dies",
    "hang": "send nothing more",
    "close": "end with status OK, without `complete`",
    "drop": "cut the TCP connection, with every call on it",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of failure.

    `after` counts the messages that the call sends before it (0: none), `times` the calls
    that it strikes (None: all of them). `status` and `message` are for "fail".
    """

    action: str
    after: int = 0
    times: int | None = None
    status: str = "UNAVAILABLE"
    message: str = "fault on demand"

    def __post_init__(self) -> None:
        """Raises ValueError for an unknown action or status and for negative counts."""
        if self.action not in ACTIONS:
            raise ValueError(f"unknown fault {self.action!r}; known: {', '.join(ACTIONS)}")
        if self.status not in grpc.StatusCode.__members__ or self.status == "OK":
            raise ValueError(f"{self.status!r} is no gRPC error status")
        if self.after < 0 or (self.times is not None and self.times < 0):
            raise ValueError("after and times cannot be negative")

    @property
    def code(self) -> grpc.StatusCode:
        """The gRPC status that "fail" ends with."""
        return grpc.StatusCode[self.status]


def parse_fault(text: str) -> Fault:
    """Reads `ACTION[,after=N][,times=N][,status=NAME][,message=TEXT]`.

    The message, if any, comes last and may contain commas. Raises ValueError with the
    reason.
    """
    head, separator, message = text.partition(",message=")
    action, *settings = head.split(",")
    values: dict[str, str] = {"message": message} if separator else {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not NAME=VALUE")
        values[name] = value
    known = {field.name for field in fields(Fault)} - {"action"}
    if unknown := values.keys() - known:
        raise ValueError(f"unknown setting {min(unknown)!r}; known: {', '.join(sorted(known))}")
    counts = {name: int(values.pop(name)) for name in ("after", "times") if name in values}
    return Fault(action, **counts, **values)  # type: ignore[arg-type]


class FaultQueue:
    """The faults still to strike, in order."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._struck = 0

    def set(self, faults: list[Fault]) -> None:
        """Replaces whatever was planned."""
        self._faults = list(faults)
        self._struck = 0

    def take(self) -> Fault | None:
        """The fault for the next call, if one is planned."""
        while self._faults:
            fault = self._faults[0]
            if fault.times is None or self._struck < fault.times:
                self._struck += 1
                return fault
            self._faults.pop(0)
            self._struck = 0
        return None
