"""One engine: its connection, whether it serves, and what is known of it.

Strategy: state only. What an engine can be asked is in `control`, what it has said of itself
in `facts`. Connections are made on first use, so that every worker has its own although
engines are listed before the fork.
"""

from __future__ import annotations

import _thread
import logging
import time
from collections.abc import Callable
from threading import Lock

from sglrouter.endpoint import Endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.fleet.control import PROBE_TIMEOUT, Control
from sglrouter.engines.fleet.facts import NO_FACTS, FactsOfEngine
from sglrouter.engines.wire.control_messages import ABORT, abort_request
from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import RouterError

logger = logging.getLogger(__name__)

# How much later than its deadline a question ends where this process is to blame.
_OURS = 1.0
_HEALTH_AGE = 1.0
_ABORT_TIMEOUT = 5.0
_LOOK_AGAIN = 0.01
# How an engine that has no such call answers.
_NOT_THERE = 501

# What is to be expected of an engine.
DOWN, UNKNOWN, SERVING = range(3)


def _nobody() -> None:
    pass


class Engine:
    """One engine.

    Args:
        endpoint: Where it is.
        connect: Makes the channel.
        on_change: Called when it says something new of itself, goes or comes back.

    Attributes:
        endpoint: As given.
        control: What it can be asked.
        facts: What it has said of itself.
        placements: The requests that it has in flight from here.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        connect: Callable[[Endpoint], Channel],
        on_change: Callable[[], None] = _nobody,
    ) -> None:
        self.endpoint = endpoint
        self.control = Control(lambda: self.channel)
        self.facts = FactsOfEngine(self.control.facts, endpoint, on_change)
        # Adding and taking away are safe in every thread, and may come twice.
        self.placements: set[object] = set()
        self._on_change = on_change
        self._connect = connect
        self._channel: Channel | None = None
        self._opening = Lock()
        self._aborting: set[str] = set()
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
    def is_away(self) -> bool:
        """Whether its health service said last that it does not serve, or nothing."""
        return self._serves is False

    @property
    def load(self) -> int:
        """Its calls under way from here, and its failures of late."""
        channel = self._channel
        return self._faults + (0 if channel is None else channel.active)

    def note_end(self, *, fault: bool) -> None:
        """Hears how a call has ended."""
        self._faults = self._faults + 1 if fault else 0

    def facts_now(self) -> EngineFacts:
        """What it says of itself; empty while it does not answer."""
        return self.facts.get() or NO_FACTS

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
        self._on_change()

    def _ask_health(self) -> None:
        began = time.monotonic()
        why = "it says that it does not serve"
        try:
            serves = self.control.health()
        except RouterError as exc:
            # An engine without the health service that answers at all is up.
            serves, why = exc.status == _NOT_THERE, exc.message
        self._health_asked = now = time.monotonic()
        if not serves and now - began > PROBE_TIMEOUT + _OURS:
            # It was us who stood still; the next answer will tell.
            return
        before = self._serves
        if serves:
            # Before requests go to one that is back: it may have another context length.
            self.facts.renew(is_back=before is False)
        self._serves = serves
        if serves and before is False:
            # What went wrong before says nothing of it any more.
            self._faults = 0
            logger.info("engine %s is back", self.endpoint)
        elif not serves and before is not False:
            logger.warning("engine %s gets no more requests: %s", self.endpoint, why)
            self.facts.doubt()
        if serves is not before:
            self._on_change()

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
