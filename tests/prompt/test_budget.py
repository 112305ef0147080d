"""The time and room for one prompt: counted over all slices, without the rests between them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt import budget as budget_module
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.messages import normalise
from sglrouter.turns import LONGEST_TURN


class Clock:
    """Both clocks: the world's time, and the processor's for this thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.spent = 7.0
        monkeypatch.setattr(budget_module, "monotonic", lambda: self.now)
        monkeypatch.setattr(budget_module, "thread_time", lambda: self.spent)

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.spent += seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_time_is_counted_over_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(budget_module, "monotonic", lambda: now)
    monkeypatch.setattr(budget_module, "thread_time", lambda: now)
    budget = Budget(0.012, 1)
    for _ in range(11):
        now += 0.001
        budget.check()
    now += 0.0015
    with pytest.raises(BadRequest):
        budget.check()


def test_normalising_is_bounded_too() -> None:
    many: list[dict[str, Any]] = [{"role": "user", "content": "x"}] * 300_000
    with pytest.raises(BadRequest, match="takes longer"):
        normalise(many, content_format="string", knows_developer=True, budget=Budget(0.02, 1))


def worked(budget: Budget, clock: Clock, step: float, most: int = 10_000) -> int:
    """How many steps of so many seconds the budget allows."""
    for count in range(most):
        try:
            budget.check()
        except BadRequest:
            return count
        clock.work(step)
    return most


@pytest.mark.parametrize("seconds", [0.001, 0.05, 1.0])
def test_work_may_take_as_long_as_it_says(clock: Clock, seconds: float) -> None:
    step = seconds / 20
    count = worked(Budget(seconds, 1), clock, step)
    # The first slice is charged as a whole, which is a turn at most.
    assert seconds - LONGEST_TURN - step <= count * step <= seconds + LONGEST_TURN + 2 * step


def test_time_in_which_others_work_is_not_charged(clock: Clock) -> None:
    rests = []

    def pause() -> None:
        rests.append(clock.now)
        clock.wait(3600.0)

    budget = Budget(0.1, 1, pause)
    count = worked(budget, clock, 0.001)
    assert 80 <= count <= 120
    # It rests each few milliseconds, and not at each step.
    assert 0.1 / LONGEST_TURN / 2 <= len(rests) <= 0.1 / LONGEST_TURN + 1


def test_time_of_the_machine_s_other_work_is_not_charged_after_the_first_slice(
    clock: Clock,
) -> None:
    budget = Budget(0.1, 1)
    for _ in range(1000):
        # Somebody else has the processor most of the time.
        clock.wait(LONGEST_TURN)
        clock.work(0.00001)
        budget.check()


def test_the_refusal_is_the_client_s(clock: Clock) -> None:
    budget = Budget(0.25, 1)
    for _ in range(2):
        clock.work(0.2)
        with suppress(BadRequest):
            budget.check()
    clock.work(0.2)
    with pytest.raises(BadRequest, match=r"takes longer than 0\.25 s over these") as raised:
        budget.check()
    error = raised.value
    assert (error.status, error.code, error.param) == (400, "chat_template_error", "messages")
    # Used up once, it stays so.
    with pytest.raises(BadRequest):
        budget.overrun()


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_at_all_allows_no_work(seconds: float) -> None:
    with pytest.raises(BadRequest):
        Budget(seconds, 1).check()


def test_who_makes_too_much_is_told_how_much_there_may_be() -> None:
    error = Budget(1.0, 1234).too_large()
    assert "more than 1234 characters" in error.message
    assert (error.status, error.code, error.param) == (400, "chat_template_error", "messages")


def test_what_a_pause_raises_ends_the_work(clock: Clock) -> None:
    """A worker that stops, or a client that has gone, is not swallowed."""

    def pause() -> None:
        raise ConnectionResetError

    budget = Budget(10.0, 1, pause)
    clock.work(LONGEST_TURN)
    with pytest.raises(ConnectionResetError):
        budget.check()
