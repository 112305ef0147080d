"""Engines are asked side by side while somebody calls, and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from threading import Event

import pytest

from sglrouter.engines.fleet import health_watch
from sglrouter.engines.fleet.health_watch import HealthWatch
from tests.patience import PATIENCE


class Watched:
    """An engine that counts how often it is looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.forgotten = 0
        self.answers = Event()
        self.answers.set()

    def look(self) -> None:
        self.looks += 1
        assert self.answers.wait(PATIENCE)

    def forget_health(self) -> None:
        self.forgotten += 1


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def threads() -> int:
    return sum(thread.name == "engine-health" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "INTERVAL", 0.002)


@pytest.fixture
def engines() -> Iterator[list[Watched]]:
    engines = [Watched(), Watched()]
    yield engines
    for engine in engines:
        engine.answers.set()
    wait_until(lambda: threads() == 0)


def test_nobody_is_asked_before_somebody_calls(engines: list[Watched]) -> None:
    watch = HealthWatch(engines)
    assert threads() == 0
    watch.close()
    watch.join()
    assert [engine.looks for engine in engines] == [0, 0]


def test_each_engine_is_asked_again_and_again(engines: list[Watched]) -> None:
    watch = HealthWatch(engines)
    watch.note_use()
    wait_until(lambda: all(engine.looks > 3 for engine in engines))
    watch.note_use()
    assert threads() == 2
    watch.close()
    watch.join()
    assert threads() == 0
    # What is asked for no more is not known.
    assert [engine.forgotten for engine in engines] == [1, 1]


def test_an_engine_that_hangs_does_not_hold_up_the_others(engines: list[Watched]) -> None:
    hanging, sound = engines
    hanging.answers.clear()
    watch = HealthWatch(engines)
    watch.note_use()
    wait_until(lambda: sound.looks > 3)
    assert hanging.looks == 1
    watch.close()


def test_it_ends_when_nobody_calls_and_begins_again(
    engines: list[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_watch, "IDLE", 0.01)
    watch = HealthWatch(engines)
    watch.note_use()
    wait_until(lambda: threads() == 0)
    assert [engine.forgotten for engine in engines] == [1, 1]
    before = [engine.looks for engine in engines]
    monkeypatch.setattr(health_watch, "IDLE", PATIENCE)
    watch.note_use()
    for engine, count in zip(engines, before, strict=True):
        wait_until(lambda engine=engine, count=count: engine.looks > count)  # type: ignore[misc]
    watch.close()


def test_a_server_asks_for_good(engines: list[Watched], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "IDLE", 0.0)
    watch = HealthWatch(engines)
    watch.keep_on()
    wait_until(lambda: all(engine.looks > 3 for engine in engines))
    assert [engine.forgotten for engine in engines] == [0, 0]
    watch.close()


def test_closed_it_does_not_begin_again(engines: list[Watched]) -> None:
    watch = HealthWatch(engines)
    watch.close()
    watch.note_use()
    watch.keep_on()
    watch.join()
    assert threads() == 0
    assert [engine.looks for engine in engines] == [0, 0]


def test_many_who_call_at_once_begin_one_thread_for_each_engine(engines: list[Watched]) -> None:
    for engine in engines:
        engine.answers.clear()
    watch = HealthWatch(engines)
    callers = [threading.Thread(target=watch.note_use) for _ in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    wait_until(lambda: all(engine.looks == 1 for engine in engines))
    assert threads() == 2
    watch.close()


def test_two_routers_do_not_ask_in_step(
    engines: list[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        drawn.append((low, high))
        return low

    monkeypatch.setattr("random.uniform", uniform)
    watch = HealthWatch(engines)
    watch.note_use()
    wait_until(lambda: len(drawn) > 3)
    watch.close()
    assert all(low < 1 < high for low, high in drawn)
