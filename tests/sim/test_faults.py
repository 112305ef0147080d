"""Faults on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sglrouter.sim import Fault
from sglrouter.sim.faults import FaultQueue, parse_fault
from tests.patience import DEADLINE
from tests.sim.wire import EngineClient, request

if TYPE_CHECKING:
    from sglrouter.sim import SimulatedEngine


@pytest.fixture
def sim(sim: SimulatedEngine) -> SimulatedEngine:
    sim.script([20, 21, 22])
    return sim


@pytest.mark.parametrize("after", [0, 2, 4])
def test_fail(sim: SimulatedEngine, client: EngineClient, after: int) -> None:
    sim.fault(f"fail,after={after},status=RESOURCE_EXHAUSTED,message=too much, really")
    reply = client.generate(request())
    assert (reply.code, reply.details) == ("RESOURCE_EXHAUSTED", "too much, really")
    assert len(reply.messages) == after
    sim.wait_until(lambda: sim.running == sim.active == 0)


@pytest.mark.parametrize("after", [0, 4])
def test_close_without_complete(sim: SimulatedEngine, client: EngineClient, after: int) -> None:
    sim.fault(Fault("close", after=after))
    reply = client.generate(request())
    assert reply.code == "OK"
    assert reply.kinds == ["chunk"] * after


@pytest.mark.parametrize("after", [0, 2])
def test_hang(sim: SimulatedEngine, client: EngineClient, after: int) -> None:
    sim.fault(Fault("hang", after=after))
    reply = client.generate(request(), timeout=DEADLINE)
    assert reply.code == "DEADLINE_EXCEEDED"
    assert len(reply.messages) == after
    sim.wait_until(lambda: sim.active == 0)


@pytest.mark.parametrize("after", [0, 2])
def test_die(sim: SimulatedEngine, client: EngineClient, after: int) -> None:
    sim.fault(Fault("die", after=after))
    reply = client.generate(request())
    assert reply.code == "UNAVAILABLE"
    assert len(reply.messages) <= after
    assert not sim.alive


@pytest.mark.parametrize("after", [0, 2])
def test_drop_the_connection(sim: SimulatedEngine, client: EngineClient, after: int) -> None:
    sim.options.token_delay = 0.02
    bystander = client.start("Generate", request(ignore_eos=True))
    bystander.read(1)
    sim.fault(Fault("drop", after=after, times=1))
    reply = client.generate(request())
    assert reply.code == "UNAVAILABLE"
    assert bystander.finish().code == "UNAVAILABLE"
    assert sim.alive
    assert client.generate_again(request()).code == "OK"
    sim.wait_until(lambda: sim.active == 0)


def test_a_call_without_stream_fails_before_its_message(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.fault(Fault("fail"))
    reply = client.generate(request(stream=False))
    assert (reply.code, reply.messages) == ("UNAVAILABLE", [])


def test_fail_twice_then_work(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.fault(Fault("fail", times=1), Fault("fail", times=1, status="INTERNAL"))
    codes = [client.generate(request()).code for _ in range(3)]
    assert codes == ["UNAVAILABLE", "INTERNAL", "OK"]


def test_faults_end_when_told(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.fault("fail")
    assert client.generate(request()).code == "UNAVAILABLE"
    sim.fault()
    assert client.generate(request()).code == "OK"


def test_a_fault_later_than_the_answer_does_not_strike(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.fault("fail,after=6")
    assert client.generate(request()).code == "OK"


def test_queue_order() -> None:
    queue = FaultQueue()
    assert queue.take() is None
    first, second = Fault("hang", times=2), Fault("close")
    queue.set([first, second])
    assert [queue.take() for _ in range(4)] == [first, first, second, second]


def test_spec() -> None:
    assert parse_fault("die") == Fault("die")
    assert parse_fault("fail,status=INTERNAL,after=2,times=3,message=a=b, c") == Fault(
        "fail", after=2, times=3, status="INTERNAL", message="a=b, c"
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("explode", "unknown fault 'explode'"),
        ("", "unknown fault"),
        ("fail,after", "is not NAME=VALUE"),
        ("fail,color=red", "unknown setting 'color'"),
        ("fail,action=die", "unknown setting 'action'"),
        ("fail,after=x", "invalid literal"),
        ("fail,after=-1", "negative"),
        ("fail,status=OK", "no gRPC error status"),
        ("fail,status=TEAPOT", "no gRPC error status"),
    ],
)
def test_bad_spec(spec: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_fault(spec)
