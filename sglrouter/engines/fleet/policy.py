"""Which of a model's engines gets a job.

Strategy: a policy puts the engines that may have a job in order. The first gets it; the
others follow where one refuses a call unseen. A policy looks at counts and never waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sglrouter.engines.fleet.engine import DOWN, Engine
from sglrouter.engines.fleet.placement import Job


class Policy(Protocol):
    """A way to choose."""

    def order(self, engines: Sequence[Engine], job: Job, /) -> list[Engine]:
        """The engines that may have the job, the best first; one at least.

        Args:
            engines: All that are not to be avoided, always in the same order.
            job: The job.
        """


class LeastLoad:
    """Of the engines that serve, the one with the fewest calls under way from here.

    Engines of the same load take turns. Failures of late count as calls under way, or an
    engine that fails at once would draw everything to it. An engine that does not serve gets
    nothing while another one does; if none does, all are tried.
    """

    def __init__(self) -> None:
        self._next = 0

    def order(self, engines: Sequence[Engine], _job: Job) -> list[Engine]:
        """See Policy.order()."""
        first = self._next % len(engines)
        self._next = first + 1
        turn = [*engines[first:], *engines[:first]]
        able = [engine for engine in turn if engine.standing != DOWN] or turn
        # Sorting keeps those in turn that are alike.
        able.sort(key=_rank)
        return able


def _rank(engine: Engine) -> tuple[bool, int, int]:
    return engine.facts.missing, -engine.standing, engine.load
