"""The server of one engine inside an asyncio loop: start, stop, die.

One instance is one life of an engine. What outlives it (the call log, the planned
faults, the port) is handed in, so that an engine can come back.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import grpc

from sglrouter.sim.answers import AnswerSource
from sglrouter.sim.connections import Connections
from sglrouter.sim.generate import GenerateCalls
from sglrouter.sim.inspection import InspectionCalls
from sglrouter.sim.mailboxes import Mailboxes
from sglrouter.sim.model_folder import ModelFolder
from sglrouter.sim.options import DIALECTS
from sglrouter.sim.scheduler import Scheduler
from sglrouter.sim.services import HealthCalls, health_service, scheduler_service

if TYPE_CHECKING:
    from collections.abc import Callable

    from sglrouter.sim.calls import CallLog
    from sglrouter.sim.faults import FaultQueue
    from sglrouter.sim.options import SimOptions

# Below the ports that systems give out by themselves.
_ANY_PORT = range(10_240, 32_768)
_MOST_TRIES = 100
_random = random.SystemRandom()

_MAX_MESSAGE = 256 * 1024 * 1024

_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_send_message_length", _MAX_MESSAGE),
    ("grpc.max_receive_message_length", _MAX_MESSAGE),
    # gRPC ends calls as CANCELLED that the process has not got to for 30 seconds, which under
    # full load happens to sound ones. A loaded engine is slow; that is no failure.
    ("grpc.server_max_unrequested_time_in_server", 24 * 3600),
    # Two engines on one port must be an error, not a lottery.
    ("grpc.so_reuseport", 0),
]

_KEEPALIVE_OPTIONS: list[tuple[str, int]] = [
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


class EngineServer:
    """One life of a simulated engine.

    `on_death` is called with the reason when a deadly request or a fault kills the
    engine. To be made, started and stopped within a running loop.
    """

    def __init__(
        self,
        options: SimOptions,
        log: CallLog,
        faults: FaultQueue,
        on_death: Callable[[str], None],
    ) -> None:
        self._options = options
        self._on_death = on_death
        dialect = DIALECTS[options.dialect]
        folder = ModelFolder.load(options.model)
        self.connections = Connections()
        self.mailboxes = Mailboxes()
        self.answers = AnswerSource(folder, options)
        self.scheduler = Scheduler(
            options=options,
            dialect=dialect,
            folder=folder,
            answers=self.answers,
            deliver=self.mailboxes.deliver,
            die=self._die,
        )
        self._generate = GenerateCalls(
            options=options,
            dialect=dialect,
            folder=folder,
            scheduler=self.scheduler,
            mailboxes=self.mailboxes,
            faults=faults,
            log=log,
            connections=self.connections,
            die=self._die,
        )
        self._inspection = InspectionCalls(
            options=options,
            dialect=dialect,
            folder=folder,
            scheduler=self.scheduler,
            mailboxes=self.mailboxes,
        )
        self.health = HealthCalls()
        server_options = _OPTIONS + (_KEEPALIVE_OPTIONS if dialect.allows_keepalive else [])
        self._server = grpc.aio.server(options=server_options)
        self._server.add_generic_rpc_handlers(
            (
                scheduler_service(self._generate, self._inspection, dialect, log),
                health_service(self.health),
            )
        )

    async def start(self, port: int) -> int:
        """Listens on a port (0: any) and returns it; RuntimeError when it is taken."""
        self.connections.port = self._listen(port) if port else self._listen_anywhere()
        await self._server.start()
        return self.connections.port

    def _listen(self, port: int) -> int:
        return self._server.add_insecure_port(f"{self._options.host}:{port}")

    def _listen_anywhere(self) -> int:
        # Not the system's choice: its ports are those of outgoing connections, too, one of
        # which would take this one while the engine is down.
        for _ in range(_MOST_TRIES):
            port = _ANY_PORT[_random.randrange(len(_ANY_PORT))]
            try:
                return self._listen(port)
            except RuntimeError:
                continue
        raise RuntimeError("there is no free port")

    async def stop(self, grace: float) -> None:
        """Takes no more calls, lets the live ones go on for `grace` seconds, ends."""
        self.health.serving = False
        self._inspection.stopping = True
        self._generate.stopping = True
        await self._server.stop(grace)
        self.scheduler.shut_down()

    async def kill(self) -> None:
        """Ends at once, as a process that crashes: connections cut, port closed."""
        self.connections.drop_all()
        await self.stop(0.0)
        # Clients reconnect within microseconds, and some made it before the port closed.
        self.connections.drop_all()

    def _die(self, reason: str) -> None:
        self._on_death(reason)
