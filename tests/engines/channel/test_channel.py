"""The channel interface, against a real grpcio server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from threading import Event

from sglrouter._proto import scheduler as pb
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.channel import Channel, ChannelOptions, Status
from sglrouter.engines.wire.scheduler import (
    GENERATE,
    GET_MODEL_INFO,
    HEALTH_CHECK,
    health_request,
    model_info_request,
    read_health,
    read_model_info,
)
from tests.engines.calls import Followed, request
from tests.engines.conftest import PATCHED, AnEngine, Connect
from tests.engines.flood import Flood
from tests.engines.remote import RemoteEngine, RemoteFlood, one_engine
from tests.patience import DEADLINE, PATIENCE, PROMPT
from tests.processes import free_port


def test_a_unary_call_returns_the_answer(connect: Connect, engine: AnEngine) -> None:
    channel = connect(engine.address)
    assert channel.connected is None
    status, answer = channel.unary(GET_MODEL_INFO, model_info_request(), timeout=PATIENCE)
    assert status.ok
    assert read_model_info(answer).model_path.endswith("tiny")
    assert channel.connected is True


def test_the_health_service_answers(connect: Connect, engine: AnEngine) -> None:
    channel = connect(engine.address)
    assert read_health(channel.unary(HEALTH_CHECK, health_request(), timeout=PATIENCE)[1])
    engine.set_serving(False)
    try:
        assert not read_health(channel.unary(HEALTH_CHECK, health_request(), timeout=PATIENCE)[1])
    finally:
        engine.set_serving(True)


def test_an_unknown_method_is_a_status(connect: Connect, engine: AnEngine) -> None:
    status, answer = connect(engine.address).unary("/no.Service/Method", b"", timeout=PATIENCE)
    assert (status.code, answer) == ("UNIMPLEMENTED", b"")


def test_a_stream_delivers_every_message_in_order(connect: Connect, engine: AnEngine) -> None:
    engine.script([[token] for token in range(100, 400)], finish_reason="length")
    followed = Followed(connect(engine.address))
    messages = [pb.GenerateResponse.FromString(message) for message in followed.drain()]
    assert [list(message.chunk.token_ids) for message in messages[:-1]] == [
        [token] for token in range(100, 400)
    ]
    assert messages[-1].HasField("complete")
    assert followed.status.ok


def test_messages_before_a_failure_are_not_lost(connect: Connect, engine: AnEngine) -> None:
    engine.script([[7]] * 20)
    engine.fault("fail,after=5,times=1,status=INTERNAL,message=out of order")
    followed = Followed(connect(engine.address))
    assert len(followed.drain()) == 5
    assert followed.status.code == "INTERNAL"
    assert followed.status.message == "out of order"


def test_a_refusal_is_a_status_without_messages(connect: Connect, engine: AnEngine) -> None:
    message = pb.GenerateRequest(request_id="x" * 32, stream=True).SerializeToString()
    followed = Followed(connect(engine.address), message)
    assert followed.drain() == []
    assert followed.status == Status("INVALID_ARGUMENT", "Tokenized input must be provided")


def test_cancel_reaches_the_engine_once(connect: Connect, engine: AnEngine) -> None:
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


def test_a_deadline_ends_a_silent_stream(connect: Connect, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    followed = Followed(connect(engine.address), timeout=0.2)
    assert followed.drain() == []
    assert followed.status.code == "DEADLINE_EXCEEDED"
    engine.wait_until(lambda: engine.active == 0)


def test_a_deadline_ends_a_unary_call(connect: Connect, engine: AnEngine) -> None:
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
    assert time.monotonic() - started < PROMPT


def test_an_engine_that_dies_ends_its_streams_and_comes_back(connect: Connect) -> None:
    with one_engine(patched=PATCHED) as engine:
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
        while not channel.unary(GET_MODEL_INFO, model_info_request(), timeout=PATIENCE)[0].ok:
            assert time.monotonic() < deadline, "the channel did not reconnect"
            time.sleep(0.05)
        assert channel.connected is True


def test_streams_of_one_channel_run_side_by_side(connect: Connect, engine: AnEngine) -> None:
    engine.script([[7]] * 20)
    channel = connect(engine.address)
    followed = [Followed(channel) for _ in range(50)]
    assert {len(each.drain()) for each in followed} == {22}  # 20, EOS, complete
    assert all(each.status.ok for each in followed)


def test_metadata_goes_out(connect: Connect, engine: AnEngine) -> None:
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


def until_it_stops(flood: Flood | RemoteFlood) -> int:
    """Waits until flow control has stopped the server; returns how much it has sent."""
    deadline = time.monotonic() + PATIENCE
    previous, same = 0, 0
    while same < 5:
        assert time.monotonic() < deadline, "it goes on and on"
        time.sleep(0.1)
        sent = flood.sent
        same = same + 1 if sent == previous > 0 else 0
        previous = sent
    return previous


def test_a_channel_reads_ahead_only_so_far(connect: Connect, flood: Flood | RemoteFlood) -> None:
    followed = Followed(connect(flood.address))
    previous = until_it_stops(flood)
    # 256 messages are read ahead; transport windows and buffers hold some megabytes.
    assert previous < 5000
    held = followed.call.take()
    assert 0 < len(held) <= 300
    # To take again says that what was held has been passed on.
    deadline = time.monotonic() + PATIENCE
    while not followed.call.take():
        assert time.monotonic() < deadline, "taking did not make room"
        time.sleep(0.001)
    followed.call.cancel()


def test_how_far_a_channel_reads_ahead_can_be_set(
    make_channel: Callable[..., Channel], flood: Flood | RemoteFlood
) -> None:
    options = ChannelOptions(read_ahead=10, window=100_500)
    with closing(make_channel(parse_endpoint(flood.address), options)) as channel:
        followed = Followed(channel)
        until_it_stops(flood)
        assert len(followed.call.take()) == 10
        followed.call.cancel()


def test_an_engine_that_answers_no_pings_is_given_up(make_channel: Callable[..., Channel]) -> None:
    options = ChannelOptions(keepalive=0.3, keepalive_timeout=DEADLINE)
    with RemoteEngine() as engine:
        engine.fault("hang,times=1")
        with closing(make_channel(parse_endpoint(engine.address), options)) as channel:
            followed = Followed(channel)
            engine.wait_until(lambda: engine.active == 1)
            with engine.frozen():
                started = time.monotonic()
                assert followed.drain() == []
                assert 0.2 < time.monotonic() - started < PROMPT
    assert followed.status.code == "UNAVAILABLE"


def test_a_call_on_a_closed_channel_fails_as_a_status(engine: AnEngine, connect: Connect) -> None:
    channel = connect(engine.address)
    channel.close()
    status, answer = channel.unary(HEALTH_CHECK, b"", timeout=2.0)
    assert (status.code, answer) == ("UNAVAILABLE", b"")
    followed = Followed(channel)
    assert followed.drain() == []
    assert followed.status.code == "UNAVAILABLE"
    followed.call.cancel()
