"""Where a job has been placed, and how long it is in flight there."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from threading import Event

import pytest

from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Call, Channel
from sglrouter.engines.exchange import Deadlines, Exchange
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.placement import Job, Placement
from sglrouter.engines.wire.control_messages import ABORT
from sglrouter.engines.wire.scheduler import (
    GENERATE,
    EngineFacts,
    Sampling,
    generate_request,
    new_request_id,
)
from sglrouter.sim import SimulatedEngine
from tests.engines.fleet.test_fleet import fleet_of
from tests.engines.scripted import GONE, ScriptedChannel
from tests.patience import PATIENCE
from tests.processes import free_port


def test_a_placement_is_in_flight_until_it_is_released() -> None:
    with fleet_of("a:1", "b:2") as fleet:
        placements = [fleet.place(Job("/a/B", [])) for _ in range(4)]
        assert [len(engine.placements) for engine in fleet.engines] == [2, 2]
        for placement in placements:
            placement.release()
            placement.release()
        assert [len(engine.placements) for engine in fleet.engines] == [0, 0]


def test_a_call_that_moves_is_in_flight_where_it_goes(engine: SimulatedEngine) -> None:
    with fleet_of(f"127.0.0.1:{free_port()}", engine.address) as fleet:
        name = new_request_id()
        message = generate_request(
            request_id=name, text="", ids=[1], sampling=Sampling(max_new_tokens=1), stream=False
        )
        job = Job(GENERATE, [message], [name])
        placement = fleet.place(job)
        assert placement.engine is fleet.engines[0]
        exchange = Exchange(placement, job, Deadlines(PATIENCE, PATIENCE, PATIENCE))
        exchange.begin()
        assert exchange.wait()
        assert fleet.engines[1].placements == {placement}
        exchange.complete(0)
        assert [len(each.placements) for each in fleet.engines] == [0, 0]


def _given(channel: ScriptedChannel, _: Endpoint) -> Channel:
    return channel


class Pair:
    """Two engines with channels that do as the test says, and a placement at both."""

    def __init__(self) -> None:
        self.channels = [ScriptedChannel(), ScriptedChannel()]
        self.engines = [
            Engine(parse_endpoint(f"{name}:1"), partial(_given, channel))
            for name, channel in zip("ab", self.channels, strict=True)
        ]
        self.placement = Placement(self.engines)
        self.arrived = Event()

    def stream(self) -> Call:
        return self.placement.stream("/a/B", b"", timeout=PATIENCE, arrived=self.arrived)

    def in_flight(self) -> list[int]:
        return [len(engine.placements) for engine in self.engines]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_it_is_in_flight_at_each_engine_that_has_had_a_call_of_it() -> None:
    pair = Pair()
    assert (pair.placement.engine, pair.in_flight()) == (pair.engines[0], [1, 0])
    pair.stream()
    assert pair.in_flight() == [1, 0]
    pair.channels[0].calls[0].end(GONE)
    wait_until(lambda: len(pair.channels[1].calls) == 1)
    assert pair.in_flight() == [1, 1]
    # Another call of it may move there as well: it counts once.
    pair.stream()
    pair.channels[0].calls[1].end(GONE)
    wait_until(lambda: len(pair.channels[1].calls) == 2)
    assert pair.in_flight() == [1, 1]
    pair.placement.release()
    assert pair.in_flight() == [0, 0]


def test_a_call_that_moves_after_the_end_is_in_flight_nowhere() -> None:
    pair = Pair()
    pair.stream()
    pair.placement.release()
    pair.channels[0].calls[0].end(GONE)
    wait_until(lambda: len(pair.channels[1].calls) == 1)
    assert pair.in_flight() == [0, 0]


def test_the_engine_that_has_the_call_is_told_to_stop() -> None:
    pair = Pair()
    staying, moving = pair.stream(), pair.stream()
    pair.channels[0].calls[1].end(GONE)
    wait_until(lambda: len(pair.channels[1].calls) == 1)
    pair.placement.abort(moving, "moved")
    wait_until(lambda: pair.channels[1].asked == [ABORT])
    assert pair.channels[0].asked == []
    pair.placement.abort(staying, "stayed")
    wait_until(lambda: pair.channels[0].asked == [ABORT])


def test_at_a_lone_engine_a_call_is_its_own() -> None:
    channel = ScriptedChannel()
    engine = Engine(parse_endpoint("a:1"), lambda _: channel)
    placement = Placement([engine])
    call = placement.stream("/a/B", b"", timeout=PATIENCE, arrived=Event())
    assert call is channel.calls[0]
    placement.abort(call, "r")
    wait_until(lambda: channel.asked == [ABORT])
    placement.release()
    assert engine.placements == set()


@pytest.mark.parametrize("unreachable", [True, False])
def test_an_engine_that_could_not_be_reached_may_come_back_as_another(unreachable: bool) -> None:
    pair = Pair()
    for engine in pair.engines:
        engine.facts.learn(EngineFacts(model_path="m"))
    pair.placement.release(unreachable=unreachable)
    # Of the others, nobody has said anything.
    assert (pair.engines[0].facts.best_before == 0.0) is unreachable
    assert pair.engines[1].facts.best_before > 0.0
