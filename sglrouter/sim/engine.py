"""A simulated engine inside another process, for tests and the demo.

All engines of a process share one background thread with one asyncio loop: grpc.aio
polls for the whole process, and several loops get in each other's way there. Every
method may be called from any other thread. Not for processes patched by gevent: those
start `sglrouter sim` as a process.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Self, TypeVar

from sglrouter.sim.answers import Script
from sglrouter.sim.calls import CallLog, UnaryCall
from sglrouter.sim.faults import Fault, FaultQueue, parse_fault
from sglrouter.sim.options import SimOptions
from sglrouter.sim.server import EngineServer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from types import TracebackType

    from sglrouter._proto import scheduler as pb

T = TypeVar("T")

_PATIENCE = 60.0


class SimulatedEngine:
    """An engine that can be started, looked at, upset, killed and started again.

    Requests, scripts and faults survive a restart, and so does the port. Usable as a
    context manager.
    """

    def __init__(self, options: SimOptions | None = None) -> None:
        self.options = options or SimOptions()
        self.port = self.options.port
        # Why the engine died, if it did.
        self.death: str | None = None
        self._log = CallLog()
        self._faults = FaultQueue()
        self._scripts: list[Script] = []
        self._server: EngineServer | None = None
        self._dying: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where the engine listens, or did: "host:port"."""
        return f"{self.options.host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the engine runs; False from the moment it dies."""
        return self._server is not None

    @property
    def requests(self) -> list[pb.GenerateRequest]:
        """The Generate requests so far, oldest first."""
        return list(self._log.requests)

    @property
    def metadata(self) -> list[dict[str, str]]:
        """The metadata of each of `requests`."""
        return list(self._log.metadata)

    @property
    def embeds(self) -> list[pb.EmbedRequest]:
        """The Embed requests so far, oldest first."""
        return list(self._log.embeds)

    @property
    def unary_calls(self) -> list[UnaryCall]:
        """The scheduler's calls so far that are no Generate, oldest first."""
        return list(self._log.unary)

    @property
    def cancelled(self) -> list[str]:
        """Request ids of Generate calls that the client ended: cancel, deadline, gone."""
        return list(self._log.cancelled)

    @property
    def aborted(self) -> list[str]:
        """Ids given to the Abort call."""
        return list(self._log.aborted)

    @property
    def active(self) -> int:
        """How many Generate and Embed calls are being served."""
        return self._log.active

    @property
    def running(self) -> int:
        """How many samples the scheduler runs."""
        return self._server.scheduler.running if self._server else 0

    @property
    def waiting(self) -> int:
        """How many samples wait in the scheduler's queue."""
        return self._server.scheduler.waiting if self._server else 0

    def start(self) -> str:
        """Starts the engine and returns its address; RuntimeError if the port is taken."""
        assert self._server is None, "the engine runs already"
        self.death = None
        self._server = _on_loop(self._start())
        return self.address

    def stop(self, grace: float = 0.0) -> None:
        """Stops as on SIGTERM: live calls may go on for `grace` seconds. Idempotent."""
        if (server := self._take_server()) is not None:
            _on_loop(server.stop(grace), _PATIENCE + grace)

    def kill(self, reason: str = "killed") -> None:
        """Dies like a process: connections cut, port closed. Idempotent."""
        if (server := self._take_server()) is not None:
            self.death = reason
            _on_loop(server.kill())

    def script(
        self,
        *answers: str | Sequence[int] | Sequence[Sequence[int]] | Script,
        finish_reason: str | None = None,
        matched: int | str | None = None,
    ) -> None:
        """Decides the coming answers: one sample each, and the last one for all after.

        `finish_reason` and `matched` go for those that are no Script themselves. Without
        any answer the configured kind (model, echo) is back.
        """
        self._scripts = [
            answer if isinstance(answer, Script) else Script(answer, finish_reason, matched)
            for answer in answers
        ]
        if self._server is not None:
            self._server.answers.use(self._scripts)

    def fault(self, *faults: Fault | str) -> None:
        """Plans what goes wrong with the coming Generate calls; without any, nothing does.

        A text is read as by `parse_fault`: "fail,status=INTERNAL,times=1".
        """
        self._faults.set([parse_fault(each) if isinstance(each, str) else each for each in faults])

    def set_serving(self, serving: bool) -> None:
        """Sets what the standard health service answers."""
        assert self._server is not None, "the engine does not run"
        self._server.health.serving = serving

    def drop_connections(self) -> None:
        """Cuts every TCP connection; the engine goes on."""
        assert self._server is not None, "the engine does not run"
        self._server.connections.drop_all()

    def wait_until(self, condition: Callable[[], bool], timeout: float = _PATIENCE) -> None:
        """Waits for something to become true; AssertionError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            time.sleep(0.002)

    async def _start(self) -> EngineServer:
        if self._dying is not None:
            await self._dying
            self._dying = None
        server = EngineServer(self.options, self._log, self._faults, self._on_death)
        if self._scripts:
            server.answers.use(self._scripts)
        self.port = await server.start(self.port)
        return server

    def _on_death(self, reason: str) -> None:
        # Called by the engine's own loop, which cannot wait for the end of itself.
        if (server := self._take_server()) is not None:
            self.death = reason
            self._dying = asyncio.get_running_loop().create_task(server.kill())

    def _take_server(self) -> EngineServer | None:
        server, self._server = self._server, None
        return server


def _on_loop(work: Coroutine[object, object, T], timeout: float = _PATIENCE) -> T:
    return asyncio.run_coroutine_threadsafe(work, _loop()).result(timeout)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="simulated-engines", daemon=True)
    thread.start()

    def end() -> None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE)
        loop.close()

    atexit.register(end)
    return loop
