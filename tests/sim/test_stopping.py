"""How calls end before their time: Abort, cancel, deadline, twin ids, full queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sglrouter._proto import scheduler as pb
from tests.patience import DEADLINE
from tests.sim.wire import EngineClient, Reply, request

if TYPE_CHECKING:
    from sglrouter.sim import SimulatedEngine
    from tests.sim.conftest import Connect, StartEngine

ENDLESS: dict[str, Any] = {"ignore_eos": True}


@pytest.fixture
def sim(start_engine: StartEngine) -> SimulatedEngine:
    sim = start_engine(token_delay=0.02)
    sim.script([20, 21, 22, 23])
    return sim


def abort(client: EngineClient, rid: str) -> Reply:
    reply = client.call("Abort", pb.AbortRequest(request_id=rid))
    assert reply.code == "OK"
    return reply


def test_abort_by_its_own_id_leaves_the_call_hanging(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    call = client.start("Generate", request(rid="exact", **ENDLESS), timeout=DEADLINE)
    call.read(3)
    assert abort(client, "exact").messages[0].success
    sim.wait_until(lambda: sim.running == 0)
    info = client.call("GetServerInfo", pb.GetServerInfoRequest()).messages[0]
    assert info.active_requests == sim.active == 1
    reply = call.finish()
    assert reply.code == "DEADLINE_EXCEEDED"
    assert len(reply.chunks) <= 5
    assert not reply.completes
    sim.wait_until(lambda: sim.active == 0)
    assert sim.aborted == ["exact"]
    assert sim.cancelled == ["exact"]


def test_abort_by_a_prefix_ends_the_call(sim: SimulatedEngine, client: EngineClient) -> None:
    other = client.start("Generate", request(rid="other", **ENDLESS))
    call = client.start("Generate", request(rid="prefix-1", **ENDLESS))
    call.read(2)
    other.read(1)
    abort(client, "prefix")
    reply = call.finish()
    assert reply.code == "OK"
    assert reply.complete.finish_reason == "abort"
    assert list(reply.complete.output_ids) == list(reply.chunks[-1].token_ids)
    assert reply.complete.WhichOneof("matched_stop") is None
    assert sim.running == 1
    other.cancel()


def test_abort_of_the_base_id_ends_both_samples(sim: SimulatedEngine, client: EngineClient) -> None:
    call = client.start("Generate", request(rid="both", n=2, **ENDLESS))
    call.read(4)
    abort(client, "both")
    reply = call.finish()
    assert reply.code == "OK"
    assert [complete.finish_reason for complete in reply.completes] == ["abort", "abort"]
    assert {complete.index for complete in reply.completes} == {0, 1}


def test_abort_without_an_id_aborts_everything(sim: SimulatedEngine, client: EngineClient) -> None:
    calls = [client.start("Generate", request(**ENDLESS)) for _ in range(3)]
    for call in calls:
        call.read(1)
    assert abort(client, "").messages[0].success
    assert [call.finish().complete.finish_reason for call in calls] == ["abort"] * 3


def test_abort_of_an_unknown_id_is_a_success(client: EngineClient) -> None:
    message = abort(client, "nobody").messages[0]
    assert (message.success, message.message) == (True, "Request nobody aborted")
    assert not abort(client, "HEALTH_CHECK_1").messages[0].success


def test_abort_before_the_first_token(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(first_delay=60.0)
    client = connect(sim)
    call = client.start("Generate", request(rid="early-1"))
    sim.wait_until(lambda: sim.running == 1)
    abort(client, "early")
    assert call.finish().complete.finish_reason == "abort"


def test_abort_of_a_call_without_stream_hangs(sim: SimulatedEngine, client: EngineClient) -> None:
    call = client.start("Generate", request(rid="all", stream=False, **ENDLESS), timeout=DEADLINE)
    sim.wait_until(lambda: sim.running == 1)
    abort(client, "all")
    reply = call.finish()
    assert (reply.code, reply.messages) == ("DEADLINE_EXCEEDED", [])


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("stream", [True, False])
def test_a_cancelled_call_frees_everything(
    sim: SimulatedEngine, client: EngineClient, stream: bool, samples: int
) -> None:
    # A long pause: the engine must not sit it out.
    sim.options.token_delay = 60.0
    asked = request(stream=stream, n=samples, **ENDLESS)
    call = client.start("Generate", asked)
    sim.wait_until(lambda: sim.running == (samples if stream else 1))
    call.cancel()
    sim.wait_until(lambda: sim.active == sim.running == 0)
    assert sim.cancelled == [asked.request_id]
    info = client.call("GetServerInfo", pb.GetServerInfoRequest()).messages[0]
    assert info.active_requests == 0


def test_a_deadline_frees_everything(sim: SimulatedEngine, client: EngineClient) -> None:
    reply = client.generate(request(**ENDLESS), timeout=0.2)
    assert reply.code == "DEADLINE_EXCEEDED"
    assert reply.chunks
    sim.wait_until(lambda: sim.active == sim.running == 0)
    assert len(sim.cancelled) == 1


def test_cancelling_aborts_by_prefix_too(sim: SimulatedEngine, client: EngineClient) -> None:
    longer = client.start("Generate", request(rid="id-10", **ENDLESS))
    shorter = client.start("Generate", request(rid="id-1", **ENDLESS))
    longer.read(1)
    shorter.read(1)
    shorter.cancel()
    assert longer.finish().complete.finish_reason == "abort"


def test_two_calls_with_one_id(sim: SimulatedEngine, client: EngineClient) -> None:
    first = client.start("Generate", request(rid="twin", **ENDLESS), timeout=DEADLINE)
    first.read(3)
    second = client.generate(request(rid="twin", max_new_tokens=4, ignore_eos=True))
    assert second.code == "OK"
    counts = [chunk.completion_tokens for chunk in second.chunks]
    own = iter(counts)
    assert all(count in own for count in [1, 2, 3, 4])
    assert max(counts) > 4, "the outputs of the first call come to the second"
    assert second.complete.completion_tokens == 4
    reply = first.finish()
    assert reply.code == "DEADLINE_EXCEEDED"
    assert not reply.completes
    sim.wait_until(lambda: sim.active == sim.running == 0)


def test_waiting_requests_run_in_order(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(max_running_requests=1, token_delay=0.01)
    client = connect(sim)
    running = client.start("Generate", request(max_new_tokens=10, ignore_eos=True))
    running.read(1)
    waiting = client.start("Generate", request([50, 51], max_new_tokens=2))
    sim.wait_until(lambda: sim.waiting == 1)
    load = client.call("GetLoads", pb.GetLoadsRequest()).messages[0].loads[0]
    assert (load.num_running_reqs, load.num_waiting_reqs, load.num_total_reqs) == (1, 1, 2)
    assert (load.num_waiting_uncached_tokens, load.queues.waiting) == (2, 1)
    assert load.num_used_tokens > 4
    assert running.finish().code == "OK"
    assert waiting.finish().complete.completion_tokens == 2


def test_a_full_queue_never_answers(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(max_running_requests=1, max_queued_requests=1, token_delay=0.05)
    client = connect(sim)
    running = client.start("Generate", request(**ENDLESS))
    running.read(1)
    waiting = client.start("Generate", request(rid="waits", max_new_tokens=1))
    sim.wait_until(lambda: sim.waiting == 1)
    refused = client.start("Generate", request(max_new_tokens=1), timeout=DEADLINE)
    sim.wait_until(lambda: len(sim.requests) == 3)
    assert sim.waiting == 1
    running.cancel()
    assert waiting.finish().code == "OK"
    reply = refused.finish()
    assert (reply.code, reply.messages) == ("DEADLINE_EXCEEDED", [])


def test_abort_of_a_waiting_request_never_answers(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine(max_running_requests=1, token_delay=0.02)
    client = connect(sim)
    running = client.start("Generate", request(**ENDLESS))
    running.read(1)
    waiting = client.start("Generate", request(rid="waits-1", max_new_tokens=1), timeout=DEADLINE)
    sim.wait_until(lambda: sim.waiting == 1)
    abort(client, "waits")
    assert sim.waiting == 0
    running.cancel()
    reply = waiting.finish()
    assert (reply.code, reply.messages) == ("DEADLINE_EXCEEDED", [])


def test_a_cancelled_waiting_request_leaves_the_queue(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine(max_running_requests=1, token_delay=0.02)
    client = connect(sim)
    running = client.start("Generate", request(**ENDLESS))
    running.read(1)
    waiting = client.start("Generate", request(max_new_tokens=1))
    sim.wait_until(lambda: sim.waiting == 1)
    waiting.cancel()
    sim.wait_until(lambda: sim.waiting == 0 and sim.active == 1)
    running.cancel()
