"""A request that is ready to be placed, and where it has been placed.

Nothing of a job is still to be checked: whoever has one has a request that can be served. It
is placed at an engine, and at those that follow if that one refuses a call unseen.

A placement counts as in flight at every engine that has had a call of it, until it is
released. Whoever placed the job releases it, however the request ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sglrouter.engines.channel.channel import Bell, Call, Metadata
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.moving_call import MovingCall


class Job(msgspec.Struct, frozen=True):
    """The calls of one request.

    Attributes:
        method: Full method path of all of them.
        requests: Their messages.
        names: The request ids in these messages, by which engines abort; empty where an
            engine must not be told by name.
        ids: The ids of the first prompt: engines that have seen its beginning keep that.
        metadata: Request headers of each call.
    """

    method: str
    requests: Sequence[bytes]
    names: Sequence[str] = ()
    ids: Sequence[int] = ()
    metadata: Metadata = ()


class Placement:
    """The engines of one job.

    Args:
        engines: In the order in which they are tried.
    """

    __slots__ = ("_engines", "_released")

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self._released = False
        engines[0].placements.add(self)

    @property
    def engine(self) -> Engine:
        """The one that was chosen."""
        return self._engines[0]

    def stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> Call:
        """Starts a call; see Channel.stream()."""
        engines = self._engines
        if len(engines) == 1:
            return engines[0].channel.stream(
                method, request, timeout=timeout, arrived=arrived, metadata=metadata
            )
        return MovingCall(
            engines,
            self._count,
            method,
            request,
            timeout=timeout,
            arrived=arrived,
            metadata=metadata,
        )

    def abort(self, call: Call, name: str) -> None:
        """Tells the engine of a call that has been cancelled to stop; never waits.

        Args:
            call: From stream().
            name: The request id that it was sent with.
        """
        engine = call.engine if isinstance(call, MovingCall) else self._engines[0]
        engine.abort(name)

    def release(self, *, unreachable: bool = False) -> None:
        """Says that the request is over.

        Args:
            unreachable: Whether the engine could not be reached: it may come back as another.
        """
        self._released = True
        for engine in self._engines:
            engine.placements.discard(self)
        if unreachable:
            self._engines[0].facts.doubt()

    def _count(self, engine: Engine) -> None:
        engine.placements.add(self)
        # Calls move in threads of their own, maybe after the end.
        if self._released:
            engine.placements.discard(self)
