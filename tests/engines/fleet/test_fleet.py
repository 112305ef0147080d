"""Which engine gets a request, and what is known of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.engines.exchange import Deadlines, Exchange
from sglrouter.engines.fleet import health_watch
from sglrouter.engines.fleet.engine import DOWN, SERVING, UNKNOWN, Engine
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.fleet.placement import Job
from sglrouter.engines.wire.scheduler import GENERATE, Sampling, generate_request, new_request_id
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.patience import PATIENCE, PROMPT
from tests.processes import free_port


@contextmanager
def fleet_of(*addresses: str) -> Iterator[Fleet]:
    fleet = Fleet([parse_endpoint(address) for address in addresses], GrpcioChannel)
    try:
        yield fleet
    finally:
        fleet.close()


def placed(fleet: Fleet) -> Engine:
    """Where a job goes; it is over at once."""
    placement = fleet.place(Job("/a/B", []))
    placement.release()
    return placement.engine


def test_an_engine_that_cannot_be_reached_is_passed_over(engine: SimulatedEngine) -> None:
    with fleet_of(f"127.0.0.1:{free_port()}", engine.address) as fleet:
        dead, alive = fleet.engines
        assert not dead.healthy()
        assert alive.healthy()
        assert [placed(fleet) for _ in range(6)] == [alive] * 6


def watchers() -> int:
    return sum(thread.name == "engine-health" for thread in threading.enumerate())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_engines_are_asked_while_somebody_calls(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_watch, "INTERVAL", 0.01)
    monkeypatch.setattr(health_watch, "IDLE", 0.1)
    with fleet_of(f"127.0.0.1:{free_port()}", engine.address) as fleet:
        dead, alive = fleet.engines
        assert watchers() == 0
        placed(fleet)
        wait_until(lambda: (dead.standing, alive.standing) == (DOWN, SERVING))
        assert placed(fleet) is alive
        wait_until(lambda: watchers() == 0)
        # What nobody asks for is not known.
        assert alive.standing == UNKNOWN
        placed(fleet)
        wait_until(lambda: alive.standing == SERVING)
    assert watchers() == 0


def test_a_server_asks_for_good_even_a_lone_engine(
    engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_watch, "INTERVAL", 0.01)
    monkeypatch.setattr(health_watch, "IDLE", 0.0)
    with fleet_of(engine.address) as fleet:
        placed(fleet)
        assert watchers() == 0
        fleet.watch()
        wait_until(lambda: fleet.engines[0].standing == SERVING)
        engine.set_serving(False)
        wait_until(lambda: fleet.engines[0].standing == DOWN)
        engine.set_serving(True)
        wait_until(lambda: fleet.engines[0].standing == SERVING)
    assert watchers() == 0


def test_a_lone_engine_is_tried_even_if_it_is_down() -> None:
    with fleet_of(f"127.0.0.1:{free_port()}") as fleet:
        assert not fleet.engines[0].healthy()
        assert [placed(fleet) for _ in range(3)] == [fleet.engines[0]] * 3


def test_all_who_ask_at_once_get_the_engines_answer(engine: SimulatedEngine) -> None:
    with fleet_of(engine.address) as fleet, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: fleet.engines[0].healthy(), range(8)))
    assert answers == [True] * 8


def test_facts_come_from_the_engine() -> None:
    with (
        SimulatedEngine(SimOptions(served_model_name="mine", context_length=100)) as engine,
        fleet_of(engine.address) as fleet,
    ):
        facts = fleet.engines[0].facts_now()
    assert facts.served_model_name == "mine"
    assert facts.max_prompt_tokens == 93
    assert facts.sampling_defaults["temperature"] == 0.7


def test_facts_of_an_engine_that_is_down_are_empty_and_asked_for_again_later() -> None:
    with fleet_of(f"127.0.0.1:{free_port()}") as fleet:
        started = time.monotonic()
        for _ in range(3):
            facts = fleet.engines[0].facts_now()
            assert facts.max_prompt_tokens == 0
            assert not facts.sampling_defaults
        assert time.monotonic() - started < PROMPT


def test_to_settle_is_to_let_engines_hear_of_cancelled_calls(engine: SimulatedEngine) -> None:
    engine.script(*[[[7]] * 5000] * 3)
    engine.options.token_delay = 0.01
    with fleet_of(engine.address) as fleet:
        (one,) = fleet.engines
        names = [new_request_id() for _ in range(3)]
        messages = [
            generate_request(request_id=name, text="", ids=[1], sampling=Sampling(), stream=True)
            for name in names
        ]
        job = Job(GENERATE, messages, names)
        exchange = Exchange(fleet.place(job), job, Deadlines(PATIENCE, PATIENCE, PATIENCE))
        exchange.begin()
        exchange.wait()
        exchange.cancel()
        fleet.settle(PATIENCE)
        assert set(engine.aborted) >= set(names)
        started = time.monotonic()
        one._aborting.add("one that never answers")
        fleet.settle(0.1)
        assert 0.05 < time.monotonic() - started < PROMPT
    engine.options.token_delay = 0.0


def test_a_model_s_facts_fit_every_engine() -> None:
    with (
        SimulatedEngine(SimOptions(context_length=200)) as first,
        SimulatedEngine(SimOptions(context_length=100)) as second,
        fleet_of(f"127.0.0.1:{free_port()}", first.address, second.address) as fleet,
    ):
        # Whoever answers first is enough for a start; the others are asked aside.
        assert fleet.facts().max_prompt_tokens in (193, 93)
        wait_until(lambda: fleet.facts().max_prompt_tokens == 93)
        assert fleet.facts().sampling_defaults["temperature"] == 0.7
        assert fleet.facts() is fleet.facts()


def test_facts_are_asked_again_when_an_engine_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "INTERVAL", 0.01)
    with (
        SimulatedEngine(SimOptions(context_length=200)) as engine,
        SimulatedEngine(SimOptions(context_length=300)) as other,
        fleet_of(engine.address, other.address) as fleet,
    ):
        fleet.watch()
        wait_until(lambda: fleet.facts().max_prompt_tokens == 193)
        engine.kill()
        # What has gone bounds nothing.
        wait_until(lambda: fleet.engines[0].standing == DOWN)
        wait_until(lambda: fleet.facts().max_prompt_tokens == 293)
        engine.options.context_length = 100
        engine.start()
        wait_until(lambda: fleet.engines[0].standing == SERVING)
        # Nobody gets a request that was checked against what it was before.
        known = fleet.engines[0].facts.known
        assert known is not None
        assert known.max_prompt_tokens == 93
        wait_until(lambda: fleet.facts().max_prompt_tokens == 93)


def test_a_lone_engine_that_could_not_be_reached_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sglrouter.engines.fleet.fleet._LOOK_AGAIN", 0.0)
    with (
        SimulatedEngine(SimOptions(context_length=200)) as engine,
        fleet_of(engine.address) as fleet,
    ):
        assert fleet.facts().max_prompt_tokens == 193
        engine.kill()
        engine.options.context_length = 100
        engine.start()
        assert fleet.facts().max_prompt_tokens == 193
        fleet.place(Job("/a/B", [])).release(unreachable=True)
        wait_until(lambda: fleet.facts().max_prompt_tokens == 93)


def test_facts_have_an_age(engine: SimulatedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglrouter.engines.fleet.facts.LONGEST_AGE", 0.05)
    monkeypatch.setattr("sglrouter.engines.fleet.fleet._LOOK_AGAIN", 0.0)
    with fleet_of(engine.address) as fleet:
        fleet.facts()
        before = len(engine.unary_calls)
        wait_until(lambda: fleet.facts().model_path != "" and len(engine.unary_calls) > before)


def test_a_job_may_avoid_engines() -> None:
    with fleet_of("a:1", "b:2") as fleet:
        first, second = fleet.engines
        job = Job("/a/B", [])
        assert [fleet.place(job, [first]).engine for _ in range(3)] == [second] * 3
        # None at all is no choice.
        assert fleet.place(job, [first, second]).engine in (first, second)
        assert (len(first.placements), len(second.placements)) in ((1, 3), (0, 4))
