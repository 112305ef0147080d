"""The worker's clock, on the real event loop."""

from __future__ import annotations

from time import monotonic

import gevent
import pytest

from sglrouter.http.clock import TICK, Clock
from tests.patience import PATIENCE


class Item:
    """Something with deadlines, which it notes."""

    def __init__(self, clock: Clock, after: float, *, again: float = 0.0) -> None:
        self.clock = clock
        self.again = again
        self.due = monotonic() + after
        self.late: list[float] = []

    def on_time(self, now: float) -> None:
        self.late.append(now - self.due)
        if self.again:
            self.due = now + self.again
        else:
            self.clock.forget(self)


def wait_for(item: Item, times: int) -> None:
    with gevent.Timeout(PATIENCE):
        while len(item.late) < times:
            gevent.sleep(TICK / 4)


def test_each_item_is_told_once_its_time_is_over() -> None:
    clock = Clock()
    items = [Item(clock, after) for after in (0.0, 0.3, 0.05)]
    for item in items:
        clock.watch(item)
    wait_for(items[1], 1)
    assert [len(item.late) for item in items] == [1, 1, 1]
    assert all(item.late[0] >= 0 for item in items)


def test_an_item_may_have_another_time() -> None:
    clock = Clock()
    item = Item(clock, 0.0, again=0.01)
    clock.watch(item)
    wait_for(item, 3)
    clock.forget(item)
    gevent.sleep(3 * TICK)
    assert len(item.late) < 6


def test_one_that_is_forgotten_is_not_told_not_even_by_one_of_the_same_turn() -> None:
    clock = Clock()
    second = Item(clock, 0.0)

    class First(Item):
        def on_time(self, now: float) -> None:
            super().on_time(now)
            clock.forget(second)

    first = First(clock, 0.0)
    clock.watch(first)
    clock.watch(second)
    wait_for(first, 1)
    gevent.sleep(2 * TICK)
    assert second.late == []


def test_one_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()

    class Faulty(Item):
        def on_time(self, now: float) -> None:
            self.late.append(now)
            raise ValueError("a bug")

    faulty, other = Faulty(clock, 0.0), Item(clock, 0.0, again=0.01)
    clock.watch(faulty)
    clock.watch(other)
    wait_for(other, 3)
    clock.forget(other)
    assert len(faulty.late) == 1
    assert "a deadline could not be kept" in caplog.text


def test_without_items_nothing_runs_and_it_starts_again() -> None:
    clock = Clock()
    item = Item(clock, 0.0)
    clock.watch(item)
    wait_for(item, 1)
    gevent.sleep(3 * TICK)
    # A timer that went on would keep the loop from ending here.
    gevent.get_hub().join(timeout=0.01)
    again = Item(clock, 0.0)
    clock.watch(again)
    wait_for(again, 1)
