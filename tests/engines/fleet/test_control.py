"""An engine's calls that are answered once, made to a simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, NoReturn

import pytest

from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel, Metadata, Status, sendable
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.engines.exchange import Deadlines, Exchange
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.placement import Job, Placement
from sglrouter.engines.wire.scheduler import GENERATE
from sglrouter.errors import BadRequest, EngineError, EngineTimeout, RouterError
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.engines.calls import request

Start = Callable[..., tuple[SimulatedEngine, Engine]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts engines, and the router's side of each."""
    started: list[tuple[SimulatedEngine, Engine]] = []

    def start_one(**options: Any) -> tuple[SimulatedEngine, Engine]:
        sim = SimulatedEngine(SimOptions(**options))
        started.append((sim, Engine(parse_endpoint(sim.start()), GrpcioChannel)))
        return started[-1]

    yield start_one
    for sim, engine in started:
        engine.close()
        sim.stop()


def test_the_engine_tells_its_arguments(start: Start) -> None:
    _, engine = start(context_length=64, server_args={"tool_call_parser": "qwen"})
    info = engine.control.server_info()
    assert info["server_args"]["tool_call_parser"] == "qwen"
    assert info["server_args"]["context_length"] == 64
    assert type(info["server_args"]["context_length"]) is int
    assert info["sglang_version"] == "0.5.23"
    assert info["scheduler_info"]["status"] == "ready"


def test_the_engine_tells_its_loads(start: Start) -> None:
    _, engine = start()
    (load,) = engine.control.loads()["loads"]
    assert load["num_running_reqs"] == 0
    assert load["disaggregation"]["mode"] == "null"
    assert "memory" not in engine.control.loads(["core"])["loads"][0]
    assert engine.control.loads(dp_rank=1)["loads"] == []
    with pytest.raises(BadRequest, match="bogus"):
        engine.control.loads(["bogus"])


def test_a_busy_engine_says_why_it_keeps_its_cache(start: Start) -> None:
    sim, engine = start(token_delay=0.05)
    call = engine.channel.stream(
        "/sglang.grpc.scheduler.SglangScheduler/Generate", request(), timeout=9.0, arrived=Event()
    )
    sim.wait_until(lambda: sim.running == 1)
    assert engine.control.flush_cache() == (False, "failed")
    assert engine.control.flush_cache(0.1) == (False, "Timed out waiting for idle state.")
    call.cancel()
    assert engine.control.flush_cache(5.0) == (True, "Cache flushed successfully")
    assert [each.request.timeout_s for each in sim.unary_calls if each.method == "FlushCache"] == [
        0.0,
        pytest.approx(0.1),
        5.0,
    ]


def test_a_profile_begins_and_ends_once(start: Start) -> None:
    sim, engine = start()
    assert engine.control.start_profile(output_dir="/traces", num_steps=3).success
    assert not engine.control.start_profile().success
    assert engine.control.stop_profile() == (True, "Stop profiling succeeded")
    success, message = engine.control.stop_profile()
    assert not success
    assert "not in progress" in message
    asked = sim.unary_calls[0].request
    assert (asked.output_dir, asked.num_steps) == ("/traces", 3)
    assert not asked.HasField("with_stack")


def test_a_call_that_an_engine_does_not_have_is_told_apart(start: Start) -> None:
    _, engine = start(dialect="0.5.9")
    for call in (
        engine.control.flush_cache,
        engine.control.start_profile,
        engine.control.stop_profile,
    ):
        with pytest.raises(RouterError) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (501, "engine_unsupported")


def test_health_takes_a_token(start: Start) -> None:
    _, engine = start()
    assert engine.control.health_generate() == (True, "Health check passed")
    with pytest.raises(EngineTimeout):
        engine.control.health_generate(timeout=0.1)


CALLS: dict[str, Callable[[Engine, Metadata], object]] = {
    "GetServerInfo": lambda engine, headers: engine.control.server_info(metadata=headers),
    "GetLoads": lambda engine, headers: engine.control.loads(metadata=headers),
    "FlushCache": lambda engine, headers: engine.control.flush_cache(metadata=headers),
    "StartProfile": lambda engine, headers: engine.control.start_profile(metadata=headers),
    "StopProfile": lambda engine, headers: engine.control.stop_profile(metadata=headers),
    "HealthCheck": lambda engine, headers: engine.control.health_generate(metadata=headers),
}


def test_request_headers_go_along(start: Start) -> None:
    sim, engine = start(embedding=True)
    for call in CALLS.values():
        call(engine, [("x-request-id", "abc"), ("x-other", "é\n")])
    assert [each.method for each in sim.unary_calls] == list(CALLS)
    for each in sim.unary_calls:
        assert each.metadata["x-request-id"] == "abc"
        assert "x-other" not in each.metadata


def test_request_headers_go_along_with_a_generation(start: Start) -> None:
    sim, engine = start()
    headers = [("x-request-id", "abc"), ("x-other", "a\r\nb")]
    job = Job(GENERATE, [request()], ["a"], metadata=headers)
    exchange = Exchange(Placement([engine]), job, Deadlines(9.0, 9.0, 9.0))
    exchange.begin()
    assert exchange.wait()
    exchange.cancel()
    (metadata,) = sim.metadata
    assert metadata["x-request-id"] == "abc"
    assert "x-other" not in metadata


@pytest.mark.parametrize("value", ["é", "a\nb", "a\x00", "\x7f"])
def test_what_a_header_cannot_carry_is_not_sent(value: str) -> None:
    assert list(sendable([("a", "b c"), ("x", value), ("y", "")])) == [("a", "b c"), ("y", "")]


class Canned:
    """A channel on which every call gets the same answer."""

    connected = True

    def __init__(self, status: Status, answer: bytes = b"") -> None:
        self.reply = status, answer
        self.methods: list[str] = []
        self.timeouts: dict[str, float] = {}

    def unary(
        self, method: str, _request: bytes, *, timeout: float, metadata: Metadata = ()
    ) -> tuple[Status, bytes]:
        assert not metadata
        self.methods.append(method.rpartition("/")[2])
        self.timeouts[self.methods[-1]] = timeout
        return self.reply

    def stream(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError

    @property
    def active(self) -> int:
        return 0

    def counts(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


def engine_of(channel: Canned) -> Engine:
    def connect(_endpoint: Endpoint) -> Channel:
        return channel

    return Engine(parse_endpoint("h:1"), connect)


def test_the_engine_has_the_time_that_it_allows_itself() -> None:
    channel = Canned(Status("OK", ""))
    engine = engine_of(channel)
    for call in CALLS.values():
        call(engine, ())
    assert channel.timeouts["FlushCache"] > 30.0
    assert channel.timeouts["StartProfile"] > 600.0
    assert channel.timeouts["StopProfile"] > 600.0
    assert channel.timeouts["HealthCheck"] > 20.0
    engine.control.flush_cache(100.0)
    assert channel.timeouts["FlushCache"] > 110.0


@pytest.mark.parametrize("name", [name for name in CALLS if name != "Abort"])
def test_an_answer_that_cannot_be_read_is_the_engines_failure(name: str) -> None:
    with pytest.raises(EngineError, match="cannot be read") as caught:
        CALLS[name](engine_of(Canned(Status("OK", ""), b"\xff")), ())
    assert caught.value.status == 502


def test_facts_and_health_that_cannot_be_read_are_as_if_not_answered() -> None:
    engine = engine_of(Canned(Status("OK", ""), b"\xff"))
    assert engine.facts_now().model_path == ""
    assert not engine.healthy()


def test_an_engine_without_health_service_is_up() -> None:
    assert engine_of(Canned(Status("UNIMPLEMENTED", ""))).healthy()
    assert not engine_of(Canned(Status("UNAVAILABLE", ""))).healthy()


@pytest.mark.parametrize(("code", "asked"), [("UNIMPLEMENTED", 1), ("UNAVAILABLE", 3)])
def test_an_engine_that_has_no_facts_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, code: str, asked: int
) -> None:
    monkeypatch.setattr("sglrouter.engines.fleet.facts._ASK_AGAIN", 0.0)
    channel = Canned(Status(code, ""))
    engine = engine_of(channel)
    for _ in range(3):
        assert engine.facts_now().is_generation
    assert channel.methods == ["GetModelInfo"] * asked
