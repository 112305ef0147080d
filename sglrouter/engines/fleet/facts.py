"""What engines say of themselves, how old that is, and what it comes to for their model.

Strategy: an engine's facts change only when it restarts. They are kept, and asked for again
when the engine comes back from a time of not serving, when they are old, and at once where
nothing is known. A model's facts are merged from its engines': a request that is checked
against them fits on each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic

from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import RouterError

logger = logging.getLogger(__name__)

# Seconds after which facts are asked for again although nothing seems to have happened.
LONGEST_AGE = 60.0
# A failed question is not asked again before this many seconds.
_ASK_AGAIN = 5.0
# How an engine that has no such call answers.
_NOT_THERE = 501

NO_FACTS = EngineFacts()


class ModelFacts(EngineFacts, frozen=True):
    """What the engines of a model say of it.

    Attributes:
        best_before: When the engines are to be asked again, by the monotonic clock.
    """

    best_before: float = 0.0


class FactsOfEngine:
    """What one engine has said.

    Args:
        ask: Asks it; may raise RouterError.
        name: What log lines call it.
        on_change: Called when it has said something new.

    Attributes:
        known: What it has said; None while it has not.
        missing: Whether it has been asked and has not said.
    """

    def __init__(
        self, ask: Callable[[], EngineFacts], name: object, on_change: Callable[[], None]
    ) -> None:
        self._ask_engine = ask
        self._name = name
        self._on_change = on_change
        self._asking = Lock()
        self._ask_again = 0.0
        self._best_before = 0.0
        self._doubted = False
        self.known: EngineFacts | None = None
        self.missing = False

    @property
    def best_before(self) -> float:
        """When they are to be asked for again, by the monotonic clock."""
        return 0.0 if self._doubted else self._best_before

    def get(self) -> EngineFacts | None:
        """What it has said, or says now; None while it does not answer."""
        return self.known or self._ask(unless_known=True)

    def doubt(self) -> None:
        """Says that the engine may have restarted."""
        self._doubted = True
        self._on_change()

    def renew(self, *, is_back: bool = False) -> None:
        """Asks again for what may have changed; what was known stays where there is no answer.

        Args:
            is_back: Whether the engine has just come back, whatever it failed to say before.
        """
        if is_back:
            self._ask_again = 0.0
        if self.known is None or monotonic() >= self.best_before:
            self._ask(unless_known=False)

    def learn(self, facts: EngineFacts) -> None:
        """Keeps what the engine has said."""
        self._doubted = self.missing = False
        self._best_before = monotonic() + LONGEST_AGE
        before, self.known = self.known, facts
        if facts != before:
            if facts is not NO_FACTS:
                logger.info("engine %s serves %s", self._name, facts.model_path)
            self._on_change()

    def _ask(self, *, unless_known: bool) -> EngineFacts | None:
        """Asks, unless somebody else did while this one waited for its turn."""
        with self._asking:
            if monotonic() >= self._ask_again and not (unless_known and self.known):
                try:
                    self.learn(self._ask_engine())
                except RouterError as exc:
                    self._note_failure(exc)
            return self.known

    def _note_failure(self, error: RouterError) -> None:
        if error.status == _NOT_THERE:
            self.learn(NO_FACTS)
            return
        self._ask_again = monotonic() + _ASK_AGAIN
        self.missing = self.known is None
        # Of one that is known to be down, its own line has told already.
        level = logging.DEBUG if self._doubted else logging.WARNING
        logger.log(level, "engine %s: %s", self._name, error.message)


def merged(engines: Sequence[FactsOfEngine]) -> ModelFacts:
    """What the engines' facts come to.

    The shortest of their prompts is what fits on each; all else they have in common, and the
    first that says anything says it.

    Args:
        engines: Those that have answered, the best first.
    """
    told = [engine.known for engine in engines if engine.known is not None]
    told = [facts for facts in told if facts != NO_FACTS]
    first = told[0] if told else NO_FACTS
    lengths = [facts.max_prompt_tokens for facts in told if facts.max_prompt_tokens]
    fields = {name: getattr(first, name) for name in EngineFacts.__struct_fields__}
    fields["max_prompt_tokens"] = min(lengths, default=0)
    best_before = min((engine.best_before for engine in engines), default=0.0)
    return ModelFacts(**fields, best_before=best_before)
