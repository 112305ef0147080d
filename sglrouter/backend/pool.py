"""The engines, and which of them gets the next request.

Connections are made on first use, so that every worker has its own although the pool
itself is built before the fork.
"""

from __future__ import annotations

import _thread
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock

from sglrouter.backend.channel import Channel, Metadata, sendable
from sglrouter.backend.control import Control
from sglrouter.backend.control_messages import ABORT, abort_request
from sglrouter.backend.generation import Generation
from sglrouter.backend.scheduler import (
    GENERATE,
    GET_MODEL_INFO,
    HEALTH_CHECK,
    EngineFacts,
    health_request,
    model_info_request,
    read_health,
    read_model_info,
)
from sglrouter.config import Endpoint
from sglrouter.errors import RouterError

logger = logging.getLogger(__name__)

# Probes are answered from memory; an engine that takes longer is in trouble.
_PROBE_TIMEOUT = 2.0
# A failed question is not asked again before this many seconds.
_ASK_AGAIN = 5.0
_HEALTH_AGE = 1.0
_ABORT_TIMEOUT = 5.0
_LOOK_AGAIN = 0.01
# How an engine that has no such call answers.
_NOT_THERE = 501


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
        self._try_again = 0.0
        self._asking_health = Lock()
        self._healthy = False
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

    def worth_trying(self) -> bool:
        """Whether to send it a request: always while it can be reached, else now and then."""
        channel = self._channel
        if channel is None or channel.connected is not False:
            return True
        now = time.monotonic()
        if now < self._try_again:
            return False
        self._try_again = now + _ASK_AGAIN
        return True

    def facts(self) -> EngineFacts:
        """What the engine says of itself; empty facts while it does not answer."""
        return self._facts or self._ask_once() or EngineFacts()

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
            logger.warning("engine %s: %s", self.endpoint, exc.message)
            return None
        logger.info("engine %s serves %s", self.endpoint, facts.model_path)
        return facts

    def healthy(self) -> bool:
        """Whether the engine's health service says that it serves, at most a second ago."""
        # Whoever comes while another one asks, waits for the answer.
        with self._asking_health:
            if time.monotonic() >= self._health_asked + _HEALTH_AGE:
                try:
                    self._healthy = self._ask(
                        HEALTH_CHECK, health_request(), read_health, _PROBE_TIMEOUT
                    )
                except RouterError as exc:
                    # An engine without the health service that answers at all is up.
                    self._healthy = exc.status == _NOT_THERE
                self._health_asked = time.monotonic()
            return self._healthy

    def generate(
        self,
        requests: Mapping[str, bytes],
        *,
        timeout: float,
        first_timeout: float,
        idle_timeout: float,
        metadata: Metadata = (),
    ) -> Generation:
        """Starts one call for each serialized GenerateRequest.

        Args:
            requests: The messages by their request ids.
            timeout: Longest time in seconds for each.
            first_timeout: See Generation.
            idle_timeout: See Generation.
            metadata: Request headers of each call.
        """
        ids, channel, headers = list(requests), self.channel, sendable(metadata)

        def abort(index: int) -> None:
            # From wherever this is called, nobody must wait; a Thread's start() would.
            self._aborting.add(ids[index])
            _thread.start_new_thread(self._abort, (channel, ids[index]))

        arrived = Event()
        calls = [
            channel.stream(GENERATE, request, timeout=timeout, arrived=arrived, metadata=headers)
            for request in requests.values()
        ]
        return Generation(
            calls, arrived, first_timeout=first_timeout, idle_timeout=idle_timeout, abort=abort
        )

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

    def pick(self) -> Engine:
        """Takes turns among the engines, passing over those that cannot be reached."""
        engines = self.engines
        first = self._next
        self._next = (first + 1) % len(engines)
        for i in range(first, first + len(engines)):
            engine = engines[i % len(engines)]
            if engine.worth_trying():
                return engine
        return engines[first]

    def settle(self, timeout: float) -> None:
        """Waits, `timeout` seconds at most, until engines know of all cancelled calls."""
        deadline = time.monotonic() + timeout
        for engine in self.engines:
            engine.settle(max(deadline - time.monotonic(), 0.0))

    def close(self) -> None:
        """Ends all connections."""
        for engine in self.engines:
            engine.close()
