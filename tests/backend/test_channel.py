"""The channel interface, against a real grpcio server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import grpc
import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.backend.channel import Status
from sglrouter.backend.scheduler import (
    GENERATE,
    GET_MODEL_INFO,
    HEALTH_CHECK,
    health_request,
    model_info_request,
    read_health,
    read_model_info,
)
from sglrouter.sim import SimulatedEngine
from tests.backend.calls import PATIENCE, Followed, request
from tests.backend.conftest import Connect
from tests.processes import free_port


def test_a_unary_call_returns_the_answer(connect: Connect, engine: SimulatedEngine) -> None:
    channel = connect(engine.address)
    assert channel.connected is None
    status, answer = channel.unary(GET_MODEL_INFO, model_info_request(), timeout=PATIENCE)
    assert status.ok
    assert read_model_info(answer).model_path.endswith("tiny")
    assert channel.connected is True


def test_the_health_service_answers(connect: Connect, engine: SimulatedEngine) -> None:
    channel = connect(engine.address)
    assert read_health(channel.unary(HEALTH_CHECK, health_request(), timeout=PATIENCE)[1])
    engine.set_serving(False)
    try:
        assert not read_health(channel.unary(HEALTH_CHECK, health_request(), timeout=PATIENCE)[1])
    finally:
        engine.set_serving(True)


def test_an_unknown_method_is_a_status(connect: Connect, engine: SimulatedEngine) -> None:
    status, answer = connect(engine.address).unary("/no.Service/Method", b"", timeout=PATIENCE)
    assert (status.code, answer) == ("UNIMPLEMENTED", b"")


def test_a_stream_delivers_every_message_in_order(
    connect: Connect, engine: SimulatedEngine
) -> None:
    engine.script([[token] for token in range(100, 400)], finish_reason="length")
    followed = Followed(connect(engine.address))
    messages = [pb.GenerateResponse.FromString(message) for message in followed.drain()]
    assert [list(message.chunk.token_ids) for message in messages[:-1]] == [
        [token] for token in range(100, 400)
    ]
    assert messages[-1].HasField("complete")
    assert followed.status.ok


def test_messages_before_a_failure_are_not_lost(connect: Connect, engine: SimulatedEngine) -> None:
    engine.script([[7]] * 20)
    engine.fault("fail,after=5,times=1,status=INTERNAL,message=out of order")
    followed = Followed(connect(engine.address))
    assert len(followed.drain()) == 5
    assert followed.status.code == "INTERNAL"
    assert followed.status.message == "out of order"


def test_a_refusal_is_a_status_without_messages(connect: Connect, engine: SimulatedEngine) -> None:
    message = pb.GenerateRequest(request_id="x" * 32, stream=True).SerializeToString()
    followed = Followed(connect(engine.address), message)
    assert followed.drain() == []
    assert followed.status == Status("INVALID_ARGUMENT", "Tokenized input must be provided")


def test_cancel_reaches_the_engine_once(connect: Connect, engine: SimulatedEngine) -> None:
    engine.script([[7]] * 5000)
    engine.options.token_delay = 0.01
    try:
        before = len(engine.cancelled)
        followed = Followed(connect(engine.address))
        assert followed.arrived.wait(PATIENCE)
        followed.call.cancel()
        followed.call.cancel()
        engine.wait_until(lambda: engine.active == 0)
        assert len(engine.cancelled) == before + 1
    finally:
        engine.options.token_delay = 0.0


def test_a_deadline_ends_a_silent_stream(connect: Connect, engine: SimulatedEngine) -> None:
    engine.fault("hang,times=1")
    followed = Followed(connect(engine.address), timeout=0.2)
    assert followed.drain() == []
    assert followed.status.code == "DEADLINE_EXCEEDED"
    engine.wait_until(lambda: engine.active == 0)


def test_a_deadline_ends_a_unary_call(connect: Connect, engine: SimulatedEngine) -> None:
    method = "/sglang.grpc.scheduler.SglangScheduler/HealthCheck"  # takes half a second
    status, _ = connect(engine.address).unary(method, b"", timeout=0.1)
    assert status.code == "DEADLINE_EXCEEDED"


def test_nobody_listening_is_unavailable_at_once(connect: Connect) -> None:
    channel = connect(f"127.0.0.1:{free_port()}")
    started = time.monotonic()
    status, _ = channel.unary(GET_MODEL_INFO, model_info_request(), timeout=PATIENCE)
    followed = Followed(channel)
    assert followed.drain() == []
    assert status.code == followed.status.code == "UNAVAILABLE"
    assert channel.connected is False
    assert time.monotonic() - started < PATIENCE / 2


def test_an_engine_that_dies_ends_its_streams_and_comes_back(connect: Connect) -> None:
    with SimulatedEngine() as engine:
        engine.script([[7]] * 5000)
        engine.options.token_delay = 0.01
        channel = connect(engine.address)
        followed = Followed(channel)
        assert followed.arrived.wait(PATIENCE)
        engine.kill()
        followed.drain()
        assert followed.status.code == "UNAVAILABLE"
        assert channel.connected is False
        engine.start()
        deadline = time.monotonic() + PATIENCE
        while not channel.unary(GET_MODEL_INFO, model_info_request(), timeout=1.0)[0].ok:
            assert time.monotonic() < deadline, "the channel did not reconnect"
            time.sleep(0.05)
        assert channel.connected is True


def test_streams_of_one_channel_run_side_by_side(connect: Connect, engine: SimulatedEngine) -> None:
    engine.script([[7]] * 20)
    channel = connect(engine.address)
    followed = [Followed(channel) for _ in range(50)]
    assert {len(each.drain()) for each in followed} == {22}  # 20, EOS, complete
    assert all(each.status.ok for each in followed)


def test_metadata_goes_out(connect: Connect, engine: SimulatedEngine) -> None:
    arrived = Event()
    call = connect(engine.address).stream(
        GENERATE,
        request(max_new_tokens=1),
        timeout=PATIENCE,
        arrived=arrived,
        metadata=[("x-request-id", "abc")],
    )
    while call.status is None:
        assert arrived.wait(PATIENCE)
        arrived.clear()
    assert engine.metadata[-1]["x-request-id"] == "abc"


@pytest.fixture
def flood() -> Any:
    """A server that sends as fast as it can, and counts what it has got rid of."""
    sent = [0]

    def generate(_request: bytes, context: grpc.ServicerContext) -> Any:
        while context.is_active() and sent[0] < 100_000:
            sent[0] += 1
            yield bytes(10_000)

    handlers = grpc.method_handlers_generic_handler(
        "sglang.grpc.scheduler.SglangScheduler",
        {"Generate": grpc.unary_stream_rpc_method_handler(generate)},
    )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", sent
    server.stop(0).wait()


def test_a_channel_reads_ahead_only_so_far(connect: Connect, flood: Any) -> None:
    address, sent = flood
    followed = Followed(connect(address))
    followed.arrived.wait(PATIENCE)
    previous = -1
    while previous != sent[0]:  # until flow control has stopped the server
        previous = sent[0]
        time.sleep(0.3)
    # 256 messages are read ahead; transport windows and buffers hold some megabytes.
    assert previous < 5000
    held = followed.call.take()
    assert 0 < len(held) <= 300
    followed.arrived.clear()
    assert followed.arrived.wait(PATIENCE), "taking did not make room"
    followed.call.cancel()
