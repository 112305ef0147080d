"""The engines of one model: what they say of it, and which of them gets a request.

Strategy: a request is checked against the model's facts first, which needs no engine; only
one that can be served is placed. Facts are asked for where a request would have to wait for
them only if nothing is known at all; everything else happens aside. Nothing here is made
before its first use, so that a fleet can be built before the fork.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from threading import Thread

from sglrouter.endpoint import Endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.facts import FactsOfEngine, ModelFacts, merged
from sglrouter.engines.fleet.health_watch import HealthWatch
from sglrouter.engines.fleet.placement import Job, Placement
from sglrouter.engines.fleet.policy import LeastLoad, Policy
from sglrouter.waiting import about_to_wait

# How long facts are good for that could not be renewed.
_LOOK_AGAIN = 5.0
_LONGEST_WAIT = 5.0


class Fleet:
    """All engines of a model.

    Args:
        endpoints: Where they are; one at least.
        connect: Makes a channel to one.
        policy: Which of them gets a job; LeastLoad() if None.

    Attributes:
        engines: The engines.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        connect: Callable[[Endpoint], Channel],
        policy: Policy | None = None,
    ) -> None:
        self.engines = [Engine(endpoint, connect, self._forget_facts) for endpoint in endpoints]
        self._policy = LeastLoad() if policy is None else policy
        self._watch = HealthWatch(self.engines)
        self._facts: ModelFacts | None = None
        self._changes = 0
        self._best_before = self._ask_at = 0.0
        self._asking: list[Thread] = []

    def facts(self) -> ModelFacts:
        """What the engines say of their model; empty facts while none answers."""
        facts = self._facts
        if facts is None or time.monotonic() >= self._best_before:
            about_to_wait()
            return self._renewed()
        return facts

    def place(self, job: Job, avoid: Collection[Engine] = ()) -> Placement:
        """Chooses an engine for a job, which is in flight there until it is released.

        Args:
            job: The job.
            avoid: Engines that shall not get it while there are others.
        """
        engines = self.engines
        if len(engines) > 1:
            self._watch.note_use()
            if avoid:
                engines = [engine for engine in engines if engine not in avoid] or engines
            engines = self._policy.order(engines, job)
        return Placement(engines)

    def watch(self) -> None:
        """Asks the engines from now on whether they serve, and logs when one goes or comes.

        Without it, several engines are asked while there are requests, a single one never.
        """
        self._watch.keep_on()

    def ask_facts(self) -> None:
        """Asks the engines, aside, for facts that are not known, are old or may have changed."""
        if any(thread.is_alive() for thread in self._asking):
            return
        self._asking = [
            Thread(target=engine.facts.renew, name="engine-facts", daemon=True)
            for engine in self.engines
        ]
        for thread in self._asking:
            thread.start()

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
        for thread in self._asking:
            thread.join(_LONGEST_WAIT)
        # The last question may have opened one again.
        for engine in self.engines:
            engine.close()

    def _forget_facts(self) -> None:
        """An engine says something new, has gone or is back."""
        self._changes += 1
        self._facts = None

    def _renewed(self) -> ModelFacts:
        able = [engine for engine in self.engines if not engine.is_away] or self.engines
        known = [engine.facts for engine in able if engine.facts.known is not None]
        known = known or self._first_answer()
        if not known:
            return ModelFacts()
        changes = self._changes
        facts = merged(known)
        now = time.monotonic()
        lacking = any(engine.facts.known is None and not engine.facts.missing for engine in able)
        if now >= self._ask_at and (lacking or facts.best_before <= now):
            self._ask_at = now + _LOOK_AGAIN
            self.ask_facts()
        self._best_before = max(facts.best_before, now + _LOOK_AGAIN)
        if changes == self._changes:
            self._facts = facts
        return facts

    def _first_answer(self) -> list[FactsOfEngine]:
        """Those of the first engine that answers, the best asked first."""
        for engine in sorted(self.engines, key=lambda engine: -engine.standing):
            if engine.facts.get() is not None:
                return [engine.facts]
        return []
