"""What engines say of themselves: kept, asked again with time, and merged for their model."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from sglrouter.engines.fleet import facts as facts_module
from sglrouter.engines.fleet.facts import LONGEST_AGE, NO_FACTS, FactsOfEngine, merged
from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import EngineError, RouterError
from tests.patience import PATIENCE

SOME = EngineFacts(model_path="/models/m", max_prompt_tokens=100)
OTHER = EngineFacts(model_path="/models/m", max_prompt_tokens=50)


class Asked:
    """Facts of an engine that answers as its test says, under a clock of the test's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.answer: EngineFacts | RouterError = SOME
        self.times = 0
        self.changes = 0
        self.meanwhile: Callable[[], None] = lambda: None
        monkeypatch.setattr(facts_module, "monotonic", lambda: self.now)
        self.facts = FactsOfEngine(self._ask, "a:1", self._note)

    def _ask(self) -> EngineFacts:
        self.times += 1
        self.meanwhile()
        if isinstance(self.answer, RouterError):
            raise self.answer
        return self.answer

    def _note(self) -> None:
        self.changes += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_facts_are_asked_for_once(asked: Asked) -> None:
    assert asked.facts.known is None
    for _ in range(3):
        assert asked.facts.get() is SOME
    assert (asked.times, asked.changes, asked.facts.missing) == (1, 1, False)


def test_facts_are_renewed_when_they_are_old(asked: Asked) -> None:
    asked.facts.get()
    asked.now += LONGEST_AGE - 1
    asked.facts.renew()
    assert asked.times == 1
    asked.now += 1
    asked.answer = OTHER
    asked.facts.renew()
    assert (asked.times, asked.facts.known) == (2, OTHER)
    # And are young again.
    asked.facts.renew()
    assert asked.times == 2
    # Whoever asks gets what is known, however old.
    asked.now += 10 * LONGEST_AGE
    assert asked.facts.get() is OTHER
    assert asked.times == 2


def test_the_same_facts_again_are_no_change(asked: Asked) -> None:
    asked.facts.get()
    asked.answer = EngineFacts(model_path="/models/m", max_prompt_tokens=100)
    for _ in range(3):
        asked.now += LONGEST_AGE
        asked.facts.renew()
    assert (asked.times, asked.changes) == (4, 1)


def test_doubted_facts_are_asked_again_and_kept_until_then(asked: Asked) -> None:
    asked.facts.get()
    asked.facts.doubt()
    assert (asked.facts.best_before, asked.facts.get(), asked.times) == (0.0, SOME, 1)
    asked.facts.renew()
    assert (asked.facts.best_before, asked.times) == (asked.now + LONGEST_AGE, 2)
    assert asked.changes == 2


def test_what_was_known_stays_where_there_is_no_answer(asked: Asked) -> None:
    asked.facts.get()
    asked.facts.doubt()
    asked.answer = EngineError("gone")
    asked.facts.renew()
    assert (asked.times, asked.facts.known, asked.facts.missing) == (2, SOME, False)
    # It stays doubted.
    asked.answer = OTHER
    asked.now += 10
    asked.facts.renew()
    assert asked.facts.known is OTHER


def test_a_question_that_failed_is_not_asked_again_at_once(asked: Asked) -> None:
    asked.answer = EngineError("gone")
    for _ in range(5):
        assert asked.facts.get() is None
        asked.facts.renew()
        asked.now += 0.9
    assert (asked.times, asked.facts.missing) == (1, True)
    asked.now += 1
    assert asked.facts.get() is None
    assert asked.times == 2


def test_an_engine_that_is_back_is_asked_at_once(asked: Asked) -> None:
    asked.answer = EngineError("gone")
    asked.facts.get()
    asked.answer = SOME
    asked.facts.renew()
    assert asked.times == 1
    asked.facts.renew(is_back=True)
    assert (asked.times, asked.facts.known, asked.facts.missing) == (2, SOME, False)


def test_an_engine_without_the_call_has_said_all_it_can(asked: Asked) -> None:
    asked.answer = RouterError("no such call", status=501)
    assert asked.facts.get() is NO_FACTS
    assert asked.facts.get() is NO_FACTS
    assert (asked.times, asked.facts.missing) == (1, False)


@pytest.mark.parametrize(
    ("before", "level"), [("nothing", "WARNING"), ("facts", "WARNING"), ("doubt", "DEBUG")]
)
def test_a_failure_is_told_unless_it_was_to_be_expected(
    asked: Asked, before: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    if before != "nothing":
        asked.facts.get()
        asked.now += LONGEST_AGE
    if before == "doubt":
        asked.facts.doubt()
    caplog.clear()
    asked.answer = EngineError("gone")
    with caplog.at_level("DEBUG"):
        asked.facts.renew()
    (record,) = caplog.records
    assert record.levelname == level
    assert "a:1" in record.message
    assert "gone" in record.message


def test_threads_that_come_at_once_ask_once(asked: Asked) -> None:
    together = Barrier(8)
    # Long enough for the others to come while it is asked.
    asked.meanwhile = partial(time.sleep, 0.05)

    def get() -> EngineFacts | None:
        together.wait(PATIENCE)
        return asked.facts.get()

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: get(), range(8)))
    assert answers == [SOME] * 8
    assert asked.times == 1


def facts_of(facts: EngineFacts | None) -> FactsOfEngine:
    told = FactsOfEngine(lambda: NO_FACTS, "x", lambda: None)
    if facts is not None:
        told.learn(facts)
    return told


@pytest.mark.parametrize(
    ("engines", "path", "length"),
    [
        ([], "", 0),
        ([None, NO_FACTS], "", 0),
        ([SOME], "/models/m", 100),
        ([SOME, OTHER], "/models/m", 50),
        # Who does not say how long a prompt may be bounds none.
        ([EngineFacts(model_path="first"), SOME], "first", 100),
        ([None, NO_FACTS, OTHER, EngineFacts(model_path="last")], "/models/m", 50),
    ],
)
def test_a_request_that_fits_the_merged_facts_fits_each_engine(
    engines: list[EngineFacts | None], path: str, length: int
) -> None:
    together = merged([facts_of(facts) for facts in engines])
    assert (together.model_path, together.max_prompt_tokens) == (path, length)


def test_merged_facts_are_good_until_the_first_is_old(asked: Asked) -> None:
    asked.facts.get()
    asked.now += 10
    young = facts_of(OTHER)
    assert merged([young, asked.facts]).best_before == 1000.0 + LONGEST_AGE
    asked.facts.doubt()
    assert merged([young, asked.facts]).best_before == 0.0
