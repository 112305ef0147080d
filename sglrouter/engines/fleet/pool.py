"""The engines, and which of them gets the next request.

Strategy: of the engines that serve, as their health service said last, the one with the
fewest calls under way from here; in turns where that is equal. Failures of late count as
calls under way, or an engine that fails at once would draw everything to it. An engine that
does not serve gets nothing while another one does; if none does, all are tried.

Connections are made on first use, so that every worker has its own although the pool
itself is built before the fork.
"""

from __future__ import annotations

import _thread
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock

from sglrouter.config import Endpoint
from sglrouter.engines.channel.channel import Bell, Call, Channel, Metadata, sendable
from sglrouter.engines.fleet.control import Control
from sglrouter.engines.fleet.health_watch import HealthWatch
from sglrouter.engines.fleet.routed_call import RoutedCall
from sglrouter.engines.generation import Generation
from sglrouter.engines.wire.control_messages import ABORT, abort_request
from sglrouter.engines.wire.scheduler import (
    GENERATE,
    GET_MODEL_INFO,
    HEALTH_CHECK,
    EngineFacts,
    health_request,
    model_info_request,
    read_health,
    read_model_info,
)
from sglrouter.errors import RouterError
from sglrouter.turns import Pause, no_pause, taking_turns

logger = logging.getLogger(__name__)

# Probes are answered from memory; an engine that takes longer is in trouble.
_PROBE_TIMEOUT = 2.0
# How much later than its deadline a question ends where this process is to blame.
_OURS = 1.0
# A failed question is not asked again before this many seconds.
_ASK_AGAIN = 5.0
_HEALTH_AGE = 1.0
_ABORT_TIMEOUT = 5.0
_LOOK_AGAIN = 0.01
# How an engine that has no such call answers.
_NOT_THERE = 501

# What is to be expected of an engine.
DOWN, UNKNOWN, SERVING = range(3)


class Engine(Control):
    """One engine: its channel, its calls and what is known of it.

    Args:
        endpoint: Where it is.
        connect: Makes the channel.
    """

    def __init__(self, endpoint: Endpoint, connect: Callable[[Endpoint], Channel]) -> None:
        self.endpoint = endpoint
        self._connect = connect
        self._channel: Channel | None = None
        self._opening = Lock()
        self._facts: EngineFacts | None = None
        self._asking = Lock()
        self._aborting: set[str] = set()
        self._ask_again = 0.0
        self._asking_health = Lock()
        self._serves: bool | None = None
        self._faults = 0
        self._health_asked = -_HEALTH_AGE

    @property
    def channel(self) -> Channel:
        """The connection of this process."""
        channel = self._channel
        if channel is None:
            with self._opening:
                channel = self._channel
                if channel is None:
                    channel = self._channel = self._connect(self.endpoint)
        return channel

    @property
    def standing(self) -> int:
        """What is to be expected of it: SERVING, UNKNOWN or DOWN."""
        channel = self._channel
        if self._serves is False or (channel is not None and channel.connected is False):
            return DOWN
        return UNKNOWN if self._serves is None else SERVING

    @property
    def load(self) -> int:
        """Its calls under way from here, and its failures of late."""
        channel = self._channel
        return self._faults + (0 if channel is None else channel.active)

    def note_end(self, *, fault: bool) -> None:
        """Hears how a call has ended."""
        self._faults = self._faults + 1 if fault else 0

    def facts(self) -> EngineFacts:
        """What the engine says of itself; empty facts while it does not answer."""
        return self.known_facts() or EngineFacts()

    def known_facts(self) -> EngineFacts | None:
        """What the engine says of itself; None while it does not answer."""
        return self._facts or self._ask_once()

    def _ask_once(self) -> EngineFacts | None:
        """Asks, unless another request did while this one waited for its turn."""
        with self._asking:
            if self._facts is None and time.monotonic() >= self._ask_again:
                self._facts = self._ask_facts()
                self._ask_again = time.monotonic() + _ASK_AGAIN
            return self._facts

    def _ask_facts(self) -> EngineFacts | None:
        try:
            facts = self._ask(GET_MODEL_INFO, model_info_request(), read_model_info, _PROBE_TIMEOUT)
        except RouterError as exc:
            if exc.status == _NOT_THERE:
                return EngineFacts()
            # Of one that is known to be down, its own line has told already.
            level = logging.DEBUG if self._serves is False else logging.WARNING
            logger.log(level, "engine %s: %s", self.endpoint, exc.message)
            return None
        logger.info("engine %s serves %s", self.endpoint, facts.model_path)
        return facts

    def healthy(self) -> bool:
        """Whether the engine's health service says that it serves, at most a second ago."""
        # Whoever comes while another one asks, waits for the answer.
        with self._asking_health:
            if time.monotonic() >= self._health_asked + _HEALTH_AGE:
                self._ask_health()
            return self._serves is True

    def look(self) -> None:
        """Asks the engine whether it serves, and keeps the answer in mind."""
        with self._asking_health:
            self._faults //= 2
            self._ask_health()

    def forget_health(self) -> None:
        """Nobody asks any more: what was known does not count."""
        self._serves = None

    def _ask_health(self) -> None:
        began = time.monotonic()
        why = "it says that it does not serve"
        try:
            serves = self._ask(HEALTH_CHECK, health_request(), read_health, _PROBE_TIMEOUT)
        except RouterError as exc:
            # An engine without the health service that answers at all is up.
            serves, why = exc.status == _NOT_THERE, exc.message
        self._health_asked = now = time.monotonic()
        if not serves and now - began > _PROBE_TIMEOUT + _OURS:
            # It was us who stood still; the next answer will tell.
            return
        before, self._serves = self._serves, serves
        if serves and before is False:
            logger.info("engine %s is back", self.endpoint)
        elif not serves and before is not False:
            logger.warning("engine %s gets no more requests: %s", self.endpoint, why)

    def abort(self, request_id: str) -> None:
        """Tells the engine by name to stop a call that has been cancelled; never waits."""
        self._aborting.add(request_id)
        # A Thread's start() would wait.
        _thread.start_new_thread(self._abort, (self.channel, request_id))

    def _abort(self, channel: Channel, request_id: str) -> None:
        """Tells the engine by name to stop a call that has been cancelled.

        SGLang's gRPC server forgets to tell its scheduler of a cancellation that comes while
        it writes a token: one in ten or twenty went on to their last token for nobody. On
        a call that is cancelled, Abort does no harm.
        """
        try:
            status, _ = channel.unary(ABORT, abort_request(request_id), timeout=_ABORT_TIMEOUT)
        finally:
            self._aborting.discard(request_id)
        if not status.ok:
            logger.debug("engine %s: Abort: %s: %s", self.endpoint, status.code, status.message)

    def settle(self, timeout: float) -> None:
        """Waits, `timeout` seconds at most, until it knows of all calls that were cancelled."""
        deadline = time.monotonic() + timeout
        while self._aborting and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)

    def close(self) -> None:
        """Ends the connection, if there is one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


class Route:
    """The engines that a request may go to.

    Args:
        engines: In the order in which they are tried.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = list(engines)

    @property
    def engine(self) -> Engine:
        """The first."""
        return self._engines[0]

    def facts(self) -> EngineFacts:
        """What the first that answers says of itself, to which the request then goes first."""
        for engine in self._engines:
            facts = engine.known_facts()
            if facts is not None:
                if engine is not self._engines[0]:
                    self._engines.remove(engine)
                    self._engines.insert(0, engine)
                return facts
        return EngineFacts()

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
        if len(self._engines) == 1:
            return self._engines[0].channel.stream(
                method, request, timeout=timeout, arrived=arrived, metadata=metadata
            )
        return RoutedCall(
            self._engines, method, request, timeout=timeout, arrived=arrived, metadata=metadata
        )

    def generate(
        self,
        requests: Mapping[str, bytes],
        *,
        timeout: float,
        first_timeout: float,
        idle_timeout: float,
        metadata: Metadata = (),
        pause: Pause = no_pause,
    ) -> Generation:
        """Starts one call for each serialized GenerateRequest.

        Args:
            requests: The messages by their request ids.
            timeout: Longest time in seconds for each.
            first_timeout: See Generation.
            idle_timeout: See Generation.
            metadata: Request headers of each call.
            pause: Called now and then where there are many, to let others go on.
        """
        ids, headers = list(requests), sendable(metadata)
        first, arrived = self._engines[0], Event()
        calls: list[Call] = []
        try:
            # One by one, so that those begun are known if a pause ends by an exception.
            calls.extend(
                self.stream(GENERATE, request, timeout=timeout, arrived=arrived, metadata=headers)
                for request in taking_turns(requests.values(), pause)
            )
        except BaseException:
            for call in calls:
                call.cancel()
            raise

        def abort(index: int) -> None:
            call = calls[index]
            engine = call.engine if isinstance(call, RoutedCall) else first
            engine.abort(ids[index])

        return Generation(
            calls, arrived, first_timeout=first_timeout, idle_timeout=idle_timeout, abort=abort
        )


class Pool:
    """All engines.

    Args:
        endpoints: Where they are; one at least.
        connect: Makes a channel to one.
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], connect: Callable[[Endpoint], Channel]
    ) -> None:
        self.engines = [Engine(endpoint, connect) for endpoint in endpoints]
        self._next = 0
        self._watch = HealthWatch(self.engines)

    def pick(self) -> Route:
        """Where the next request goes."""
        engines = self.engines
        if len(engines) == 1:
            return Route(engines)
        self._watch.note_use()
        first = self._next
        self._next = (first + 1) % len(engines)
        turn = engines[first:] + engines[:first]
        able = [engine for engine in turn if engine.standing != DOWN] or turn
        # Sorting keeps those in turn that are alike.
        return Route(sorted(able, key=lambda engine: (-engine.standing, engine.load)))

    def by_standing(self) -> list[Engine]:
        """All engines, those first that serve."""
        return sorted(self.engines, key=lambda engine: -engine.standing)

    def watch(self) -> None:
        """Asks the engines from now on whether they serve, and logs when one goes or comes.

        Without it, several engines are asked while there are requests, a single one never.
        """
        self._watch.keep_on()

    def settle(self, timeout: float) -> None:
        """Waits, `timeout` seconds at most, until engines know of all cancelled calls."""
        deadline = time.monotonic() + timeout
        for engine in self.engines:
            engine.settle(max(deadline - time.monotonic(), 0.0))

    def close(self) -> None:
        """Ends all connections."""
        self._watch.close()
        for engine in self.engines:
            engine.close()
        self._watch.join()
        # The last question may have opened one again.
        for engine in self.engines:
            engine.close()
