"""The life of an engine: start, stop, die, come back, carry many streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.sim.wire import EngineClient, request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.conftest import Connect, StartEngine


def test_context_manager_and_address(model_path: Path) -> None:
    options = SimOptions(model=model_path, answer="echo")
    with SimulatedEngine(options) as sim:
        assert sim.alive
        assert sim.address == f"127.0.0.1:{sim.port}"
        assert sim.port > 0
    assert not sim.alive
    assert sim.death is None
    sim.stop()


def test_down_and_up_again_on_the_same_port(sim: SimulatedEngine, client: EngineClient) -> None:
    address = sim.address
    sim.script([20])
    client.generate(request())
    sim.stop()
    assert client.health().code == "UNAVAILABLE"
    assert sim.start() == address
    assert client.generate_again(request()).deltas[0] == [20]
    assert len(sim.requests) == 2


def test_killed_and_up_again_at_once(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.options.token_delay = 0.05
    call = client.start("Generate", request(ignore_eos=True))
    call.read(1)
    sim.kill()
    assert sim.death == "killed"
    reply = call.finish()
    assert (reply.code, "Socket closed" in reply.details) == ("UNAVAILABLE", True)
    sim.start()
    assert sim.death is None
    assert client.generate_again(request(max_new_tokens=1)).code == "OK"
    # Dying from within may take a moment: starting waits for it.
    client.generate(request([]))
    sim.start()
    assert sim.alive
    sim.wait_until(lambda: sim.active == 0)


def test_stopping_lets_live_calls_go_on_for_a_while(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.options.token_delay = 0.02
    short = client.start("Generate", request(max_new_tokens=10, ignore_eos=True))
    endless = client.start("Generate", request(ignore_eos=True))
    short.read(1)
    endless.read(1)
    stopping = threading.Thread(target=sim.stop, args=(0.6,))
    stopping.start()
    reply = endless.finish()
    assert (reply.code, reply.details) == ("UNAVAILABLE", "Cancelling all calls")
    assert 5 < len(reply.chunks) < 40
    assert short.finish().complete.completion_tokens == 10
    stopping.join(5)
    assert sim.cancelled == []


def test_a_port_is_for_one_engine(sim: SimulatedEngine, model_path: Path) -> None:
    twin = SimulatedEngine(SimOptions(model=model_path, answer="echo", port=sim.port))
    with pytest.raises(RuntimeError):
        twin.start()
    assert not twin.alive


def test_a_missing_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"config\.json"):
        SimulatedEngine(SimOptions(model=tmp_path)).start()


def test_dropping_connections_keeps_the_engine(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.options.token_delay = 0.02
    call = client.start("Generate", request(ignore_eos=True))
    call.read(1)
    sim.drop_connections()
    assert call.finish().code == "UNAVAILABLE"
    sim.wait_until(lambda: sim.active == sim.running == 0)
    assert client.generate_again(request(max_new_tokens=1)).code == "OK"


def test_engines_side_by_side(start_engine: StartEngine, connect: Connect) -> None:
    engines = [start_engine() for _ in range(3)]
    for index, sim in enumerate(engines):
        sim.script([20 + index])
    answers = [connect(sim).generate(request()).deltas[0] for sim in engines]
    assert answers == [[20], [21], [22]]
    engines[1].kill()
    assert [sim.alive for sim in engines] == [True, False, True]
    assert connect(engines[2]).generate(request()).code == "OK"


def test_an_exception_in_the_scheduler_ends_the_engine(
    sim: SimulatedEngine, client: EngineClient, caplog: pytest.LogCaptureFixture
) -> None:
    # No tokenizer takes such an id.
    sim.script([2**40])
    assert client.generate(request(stop=["x"])).code == "UNAVAILABLE"
    assert not sim.alive
    assert "OverflowError" in str(sim.death)
    assert "simulated scheduler crashed" in caplog.text


def test_waiting_has_a_bound(sim: SimulatedEngine) -> None:
    with pytest.raises(AssertionError):
        sim.wait_until(lambda: False, timeout=0.01)


@pytest.mark.long
def test_a_thousand_slow_streams(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(token_delay=2.0)
    sim.script(list(range(20, 24)))
    client = connect(sim)
    asked = [request(ignore_eos=True, max_new_tokens=8) for _ in range(1000)]
    calls = [client.start("Generate", each, timeout=60.0) for each in asked]
    for call in calls:
        call.read(1)
    # Fourteen seconds of pauses lie between the first token and the last.
    assert sim.active == sim.running == 1000
    sim.options.token_delay = 0.0
    assert {len(call.finish().messages) for call in calls} == {9}
    sim.wait_until(lambda: sim.active == sim.running == 0)
