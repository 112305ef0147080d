"""Calls that no engine has looked at go to the next one; all others stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.exchange import Deadlines, Exchange
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.fleet.placement import Job, Placement
from sglrouter.engines.wire.control_messages import ABORT
from sglrouter.engines.wire.scheduler import GENERATE, Sampling, generate_request, new_request_id
from sglrouter.errors import RouterError
from tests.engines.conftest import PATCHED, AnEngine
from tests.processes import free_port

Kind = Callable[[Endpoint], Channel]


@contextmanager
def fleet_of(kind: Kind, *addresses: str) -> Iterator[Fleet]:
    fleet = Fleet([parse_endpoint(address) for address in addresses], kind)
    try:
        yield fleet
    finally:
        fleet.close()


def nowhere() -> str:
    return f"127.0.0.1:{free_port()}"


def answered(placement: Placement, n: int = 1, *, stream: bool = True) -> None:
    """Makes a request of `n` samples and sees all of them to their end."""
    requests = {}
    for _ in range(n):
        name = new_request_id()
        requests[name] = generate_request(
            request_id=name,
            text="",
            ids=[1, 2],
            sampling=Sampling(max_new_tokens=3),
            stream=stream,
        )
    job = Job(GENERATE, list(requests.values()), list(requests))
    exchange = Exchange(placement, job, Deadlines(20.0, 20.0, 20.0))
    exchange.begin()
    try:
        left = set(range(n))
        while left:
            for index, messages in exchange.wait():
                # The last message of a sample is its `complete`.
                if b"length" in messages[-1] or b"stop" in messages[-1]:
                    exchange.complete(index)
                    left.discard(index)
    finally:
        exchange.cancel()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [1, 3])
def test_an_engine_that_is_not_there_is_passed_over(
    make_channel: Kind, engine: AnEngine, n: int, stream: bool
) -> None:
    for others in ([nowhere()], ["no-such-host.invalid:1"], [nowhere(), nowhere()]):
        with fleet_of(make_channel, *others, engine.address) as fleet:
            answered(Placement(fleet.engines), n, stream=stream)


def test_if_there_is_no_engine_the_last_one_tried_tells_why(make_channel: Kind) -> None:
    with (
        fleet_of(make_channel, nowhere(), nowhere()) as fleet,
        pytest.raises(RouterError) as failure,
    ):
        answered(Placement(fleet.engines))
    assert failure.value.status == 503


def test_what_an_engine_has_looked_at_goes_nowhere_else(
    make_channel: Kind, engine: AnEngine
) -> None:
    engine.fault("fail,status=UNAVAILABLE,times=1")
    with fleet_of(make_channel, engine.address, engine.address) as fleet:
        with pytest.raises(RouterError) as failure:
            answered(Placement(fleet.engines))
        assert failure.value.status == 503
        answered(Placement(fleet.engines))


def test_a_call_that_is_cancelled_does_not_move(make_channel: Kind, engine: AnEngine) -> None:
    with fleet_of(make_channel, nowhere(), engine.address) as fleet:
        arrived = Event()
        placement = Placement([fleet.engines[1], fleet.engines[0]])
        call = placement.stream(ABORT, b"", timeout=5, arrived=arrived)
        call.cancel()
        while call.status is None:
            assert arrived.wait(5)
            arrived.clear()
        assert call.status.code in ("CANCELLED", "OK")


if PATCHED:
    import gevent

    from sglrouter.engines.channel.http2 import Http2Channel
    from tests.engines import frames
    from tests.engines.frames import headers
    from tests.engines.peer import Peer, PeerConnection, wait_until

    @pytest.mark.parametrize(
        "refusal",
        [lambda stream: frames.reset(stream, frames.REFUSED_STREAM), lambda _: frames.goaway(0)],
    )
    def test_a_request_that_is_refused_unseen_moves(
        make_channel: Kind, engine: AnEngine, refusal: Callable[[int], bytes]
    ) -> None:
        with Peer() as peer, fleet_of(make_channel, peer.address, engine.address) as fleet:

            def refuse() -> None:
                while True:
                    gevent.sleep(0.001)
                    for connection in peer.connections:
                        for stream in connection.opened():
                            if (connection, stream) not in refused:
                                refused.add((connection, stream))
                                connection.send(refusal(stream))

            refused: set[tuple[PeerConnection, int]] = set()

            refusing = gevent.spawn(refuse)
            try:
                answered(Placement(fleet.engines))
            finally:
                refusing.kill()

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (frames.reset(1, frames.ENHANCE_YOUR_CALM), "UNAVAILABLE"),
            (headers(1) + frames.reset(1, frames.ENHANCE_YOUR_CALM), "UNAVAILABLE"),
            (headers(1) + frames.data(1, b"\0" + (2**29).to_bytes(4, "big") + b"x"), "INTERNAL"),
        ],
    )
    def test_what_the_transport_says_is_not_the_engines_queue(
        make_channel: Kind, answer: bytes, code: str
    ) -> None:
        with Peer() as peer, fleet_of(make_channel, peer.address) as fleet:
            arrived = Event()
            call = Placement(fleet.engines).stream("/a/B", b"", timeout=10, arrived=arrived)
            connection = peer.connection()
            connection.streams()
            connection.send(answer)
            wait_until(lambda: call.status is not None, "the end")
            assert call.status is not None
            assert call.status.code == code

    def test_a_request_whose_answer_has_begun_does_not_move(engine: AnEngine) -> None:
        # grpcio cannot tell; no server that is sound does this.
        with Peer() as peer, fleet_of(Http2Channel, peer.address, engine.address) as fleet:
            arrived = Event()
            call = Placement(fleet.engines).stream("/a/B", b"", timeout=10, arrived=arrived)
            connection = peer.connection()
            connection.streams()
            connection.send(headers(1) + frames.reset(1, frames.REFUSED_STREAM))
            wait_until(lambda: call.status is not None, "the end")
            assert call.status is not None
            assert call.status.code == "UNAVAILABLE"
