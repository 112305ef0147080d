"""The channel over grpcio, in what is its own: its words for failures, and its reader."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event, Thread

import grpc
import pytest

from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.channel import ChannelOptions, Status
from sglrouter.engines.channel.grpcio import GrpcioCall, GrpcioChannel
from sglrouter.engines.wire.scheduler import GET_MODEL_INFO, model_info_request
from sglrouter.sim import SimulatedEngine
from tests.patience import PATIENCE

Code = grpc.StatusCode


class Failure(grpc.RpcError):
    """How a call of grpcio fails."""

    def __init__(self, code: Code, words: str | None) -> None:
        self._code = code
        self._words = words

    def code(self) -> Code:
        return self._code

    def details(self) -> str | None:
        return self._words


class Stream:
    """A call of grpcio: an iterator of messages that waits for them."""

    def __init__(self) -> None:
        self._messages: queue.Queue[bytes | Failure | None] = queue.Queue()
        self.asked = 0
        self.cancelled = 0

    def put(self, *messages: bytes | Failure | None) -> None:
        """More messages; None is the end."""
        for message in messages:
            self._messages.put(message)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.asked += 1
            message = self._messages.get(timeout=PATIENCE)
            if message is None:
                return
            if isinstance(message, Failure):
                raise message
            yield message

    def cancel(self) -> None:
        self.cancelled += 1
        self.put(Failure(Code.CANCELLED, "cancelled here"))


class Reader:
    """A call under test, and what was heard of it."""

    def __init__(self, read_ahead: int = 100) -> None:
        self.stream = Stream()
        self.arrived = Event()
        self.ends: list[Status] = []
        self.call = GrpcioCall(self.stream, self.arrived, self.ends.append, read_ahead)

    def end(self) -> Status:
        wait_until(lambda: self.call.status is not None)
        assert self.call.status is not None
        wait_until(self.arrived.is_set)
        assert self.ends == [self.call.status]
        return self.call.status


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


UNSEEN = [
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: refused",
    "errors resolving nowhere:1: [DNS server returned answer with no data]",
    "DNS resolution failed for nowhere:1",
    "Name resolution failure",
    "Stream refused by server",
    "Received RST_STREAM with error code 7",
    "RST_STREAM (Received RST_STREAM with error code 7)",
    "GOAWAY received",
    "Stream removed (GOAWAY received)",
]
SEEN = [
    "Socket closed",
    "Connection reset by peer",
    "keepalive watchdog timeout",
    "the engine says: failed to connect to all addresses",
    "Received RST_STREAM with error code 8",
    "",
    None,
]


@pytest.mark.parametrize(
    ("words", "unseen"), [*((words, True) for words in UNSEEN), *((words, False) for words in SEEN)]
)
def test_a_request_that_has_not_been_looked_at_may_go_elsewhere(
    words: str | None, unseen: bool
) -> None:
    reader = Reader()
    reader.stream.put(Failure(Code.UNAVAILABLE, words))
    assert reader.end() == Status("UNAVAILABLE", words or "", unseen=unseen)
    # Once there was an answer, it has been.
    reader = Reader()
    reader.stream.put(b"a", Failure(Code.UNAVAILABLE, words))
    assert reader.end() == Status("UNAVAILABLE", words or "", unseen=False)
    # And an engine that has failed has looked, whatever it says.
    reader = Reader()
    reader.stream.put(Failure(Code.INTERNAL, words))
    assert reader.end() == Status("INTERNAL", words or "", unseen=False)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("CLIENT: Received message larger than max (300 vs. 200)", "INTERNAL"),
        ("Received message larger than max (300 vs. 200)", "INTERNAL"),
        ("Received RST_STREAM with error code 11", "UNAVAILABLE"),
        ("RST_STREAM (Received RST_STREAM with error code 11)", "UNAVAILABLE"),
        # What an engine says of itself stays.
        ("the queue is full", "RESOURCE_EXHAUSTED"),
        ("", "RESOURCE_EXHAUSTED"),
    ],
)
def test_what_the_transport_calls_exhausted_is_no_full_engine(words: str, code: str) -> None:
    reader = Reader()
    reader.stream.put(Failure(Code.RESOURCE_EXHAUSTED, words))
    assert reader.end().code == code


def test_the_reader_asks_for_so_many_and_goes_on_when_they_are_taken() -> None:
    reader = Reader(read_ahead=3)
    messages = [bytes((number,)) for number in range(10)]
    reader.stream.put(*messages, None)
    taken: list[bytes] = []
    while len(taken) < len(messages):
        # Three wait at the most, and the last question is answered by the end.
        asked = min(len(taken) + 3, len(messages) + 1)
        wait_until(lambda asked=asked: reader.stream.asked == asked)  # type: ignore[misc]
        time.sleep(0.005)
        assert reader.stream.asked == asked
        taken += reader.call.take()
    assert taken == messages
    assert reader.end().ok
    assert reader.call.take() == []


def test_a_cancelled_call_does_not_wait_for_room() -> None:
    reader = Reader(read_ahead=1)
    reader.stream.put(b"a")
    wait_until(lambda: reader.stream.asked == 1)
    time.sleep(0.01)
    reader.call.cancel()
    assert reader.end() == Status("CANCELLED", "cancelled here")
    assert reader.stream.cancelled == 1
    # What had come is there all the same.
    assert reader.call.take() == [b"a"]


def test_takes_lose_nothing_while_the_reader_writes() -> None:
    reader = Reader(read_ahead=2)
    count = 3000

    def write() -> None:
        for number in range(count):
            reader.stream.put(number.to_bytes(2))
        reader.stream.put(None)

    writer = Thread(target=write)
    writer.start()
    taken: list[bytes] = []
    while len(taken) < count:
        assert reader.arrived.wait(PATIENCE)
        reader.arrived.clear()
        batch = reader.call.take()
        while batch:
            taken += batch
            batch = reader.call.take()
    writer.join(PATIENCE)
    assert [int.from_bytes(message) for message in taken] == list(range(count))
    wait_until(lambda: reader.call.status is not None)
    assert reader.ends == [Status("OK", "")]


def test_a_closed_channel_counts_no_calls(engine: SimulatedEngine) -> None:
    channel = GrpcioChannel(parse_endpoint(engine.address))
    channel.close()
    arrived = Event()
    call = channel.stream("/a/B", b"", timeout=PATIENCE, arrived=arrived)
    wait_until(lambda: call.status is not None)
    wait_until(lambda: channel.active == 0)
    assert channel.connected is False


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e12])
def test_any_keepalive_is_one_that_grpcio_takes(engine: SimulatedEngine, seconds: float) -> None:
    options = ChannelOptions(keepalive=max(seconds, 60.0), keepalive_timeout=seconds)
    with closing(GrpcioChannel(parse_endpoint(engine.address), options)) as channel:
        status, _ = channel.unary(GET_MODEL_INFO, model_info_request(), timeout=PATIENCE)
        assert status.ok


def test_an_endpoint_with_tls_is_spoken_to_in_tls_only(engine: SimulatedEngine) -> None:
    """The engine does not speak it, so that nothing must get through."""
    with closing(GrpcioChannel(parse_endpoint(f"grpcs://{engine.address}"))) as channel:
        before = len(engine.unary_calls)
        status, answer = channel.unary(GET_MODEL_INFO, model_info_request(), timeout=PATIENCE)
        assert (status.code, status.unseen, answer) == ("UNAVAILABLE", True, b"")
        assert channel.connected is False
        assert len(engine.unary_calls) == before
