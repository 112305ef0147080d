"""The ways out of a stream, step by step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event

import gevent
import pytest

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sink import Sink
from sglrouter._proto import scheduler as pb
from sglrouter.engines.channel.channel import Status
from sglrouter.errors import ClientGone, EngineError, RouterError
from sglrouter.http.clock import Clock
from sglrouter.http.event_source import HEARTBEAT, EventSource
from sglrouter.http.event_stream import event_stream
from sglrouter.http.pulled import PulledStream
from sglrouter.http.pushed import PushedBody, PushedStream
from sglrouter.output.chat import ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.serving.answer import Answer
from tests.engines.placed import exchange_of
from tests.patience import LONG, PROMPT

STOPPING = RouterError("The router is shutting down", status=503, code="server_shutting_down")


class FakeCall:
    """A call whose messages the test hands in."""

    def __init__(self, *, calls_back: bool) -> None:
        self.arrived = Event()
        self.messages: list[bytes] = []
        self.ended: Status | None = None
        self.cancelled = 0
        self.calls_back = calls_back
        self.listener: Callable[[], None] | None = None

    @property
    def status(self) -> Status | None:
        return self.ended

    def take(self) -> list[bytes]:
        taken, self.messages = self.messages, []
        return taken

    @property
    def holds_back(self) -> bool:
        return False

    def listen(self, on_news: Callable[[], None] | None) -> bool:
        self.listener = on_news
        return self.calls_back

    def divert(self, sink: Sink) -> None:
        self.sink = sink

    def cancel(self) -> None:
        self.cancelled += 1

    def deliver(self, *messages: pb.GenerateResponse, status: Status | None = None) -> None:
        self.messages += [message.SerializeToString() for message in messages]
        self.ended = status or self.ended
        if self.listener is not None and self.calls_back:
            self.listener()
        self.arrived.set()


class FakeClient:
    """A client that takes all, or nothing until the event loop's next turn."""

    writer: BodyWriter | None = None

    def __init__(self, *, has_greenlet: bool = True) -> None:
        self.has_greenlet = has_greenlet
        self.clock = Clock()
        self.body = b""
        self.ended = False
        self.takes = True
        self.waits = 0
        self.on_end: Callable[[RouterError], None] | None = None
        self.ping: Callable[[], None] | None = None
        self.before_wait: Callable[[], None] = lambda: None

    def send(self, body: bytes, *, last: bool = False) -> bool:
        assert not self.ended
        self.body += body
        self.ended = last
        return self.takes

    def when_taken(self, then: Callable[[OSError | None], None]) -> None:
        self.waits += 1
        gevent.spawn(self._take, then)

    def _take(self, then: Callable[[OSError | None], None]) -> None:
        self.before_wait()
        self.takes = True
        then(None)

    def watch(
        self, on_end: Callable[[RouterError], None], ping: Callable[[], None] | None = None
    ) -> None:
        self.on_end, self.ping = on_end, ping

    def unwatch(self) -> None:
        self.on_end = None


@pytest.fixture(scope="module")
def detokenizers(tiny_model: Path) -> DetokenizerFactory:
    return DetokenizerFactory(load_tokenizer(tiny_model))


def chunk(ids: Sequence[int], total: int) -> pb.GenerateResponse:
    return pb.GenerateResponse(
        chunk=pb.GenerateStreamChunk(token_ids=ids, completion_tokens=total, prompt_tokens=1)
    )


def complete(ids: Sequence[int], total: int) -> pb.GenerateResponse:
    return pb.GenerateResponse(
        complete=pb.GenerateComplete(
            output_ids=ids, completion_tokens=total, prompt_tokens=1, finish_reason="length"
        )
    )


def no_failure(error: Exception) -> tuple[str, list[tuple[str, str]], bytes]:
    raise AssertionError(error)


def open_stream(
    call: FakeCall,
    detokenizers: DetokenizerFactory,
    client: FakeClient | None = None,
    *,
    heartbeat: float = 10.0,
    stream_class: type[ChatStream] = ChatStream,
) -> PushedBody | PulledStream:
    choices = [Choice(Sample(detokenizers))]
    generation = exchange_of(call, first=LONG, idle=LONG)
    stream = stream_class(Head("id", 1, "m"), choices, detokenizers.piece)
    answer = Answer([choice.sample for choice in choices], generation, events=stream)
    opened = event_stream(EventSource(answer, heartbeat), client, no_failure)
    assert not isinstance(opened, PushedStream)
    return opened


@pytest.mark.parametrize("direct", [False, True])
def test_both_ways_say_the_same(detokenizers: DetokenizerFactory, direct: bool) -> None:
    call, client = FakeCall(calls_back=direct), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)
    call.deliver(chunk([41], 2))
    call.deliver(chunk([42], 3), complete([42], 3), status=Status("OK", ""))
    body = b"".join(stream)
    stream.close()
    assert (client.body if direct else body).endswith(b"data: [DONE]\n\n")
    assert (client.body if direct else body).count(b'"content":"') == 3  # role, first, rest
    assert (body == b"") == direct
    assert client.ended == direct
    assert call.cancelled == 0
    assert client.on_end is None


def test_a_client_that_does_not_take_is_waited_for(detokenizers: DetokenizerFactory) -> None:
    call, client = FakeCall(calls_back=True), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)
    client.takes = False

    def finish() -> None:
        # While the greenlet waits, news are left where they are.
        before = client.body
        call.deliver(chunk([41], 2), complete([41], 2), status=Status("OK", ""))
        assert client.body == before

    client.before_wait = finish
    assert list(stream) == []
    assert client.waits == 1
    assert client.body.endswith(b"data: [DONE]\n\n")


class Faulty(ChatStream):
    """A stream with a bug that shows on the second batch."""

    fed = 0

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        self.fed += 1
        if self.fed == 2:
            raise ValueError("a bug")
        return super().feed(index, messages)


@pytest.mark.parametrize("direct", [False, True])
def test_a_bug_ends_its_stream_with_an_error_and_goes_no_further(
    detokenizers: DetokenizerFactory, direct: bool, caplog: pytest.LogCaptureFixture
) -> None:
    call, client = FakeCall(calls_back=direct), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client, stream_class=Faulty)
    call.deliver(chunk([41], 2))  # in the direct way this runs in the event loop
    body = b"".join(stream)
    assert b'"code":"internal_error"' in (client.body if direct else body)
    assert b"a bug" not in (client.body if direct else body)
    assert "a bug" in caplog.text
    assert call.cancelled == 1


@pytest.mark.parametrize("direct", [False, True])
def test_silence_is_filled_with_heartbeats(detokenizers: DetokenizerFactory, direct: bool) -> None:
    call, client = FakeCall(calls_back=direct), FakeClient()
    stream = open_stream(call, detokenizers, client, heartbeat=0.01)
    if direct:
        beats = 0

        def send(body: bytes, *, last: bool = False) -> bool:
            nonlocal beats
            if body == b": ping\n\n":
                beats += 1
            if beats == 3:
                beats += 1
                call.deliver(chunk([41], 1), complete([41], 1), status=Status("OK", ""))
            client.body += body
            return True

        client.send = send  # type: ignore[method-assign]
        assert list(stream) == []
        assert client.body.count(b": ping\n\n") >= 3
    else:
        assert b": ping\n\n" in next(stream)
        assert next(stream) == b": ping\n\n"
    stream.close()


@pytest.mark.parametrize("listening", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_a_failure_that_arrives_with_the_last_message_is_told_at_once(
    detokenizers: DetokenizerFactory, direct: bool, listening: bool
) -> None:
    call, client = FakeCall(calls_back=direct), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)

    def break_off() -> None:
        call.deliver(chunk([41], 2), status=Status("INTERNAL", "boom"))

    if listening and direct:
        # The first bytes are on their way, and the greenlet sleeps.
        gevent.spawn(break_off)
    else:
        break_off()
    started = time.monotonic()
    body = b"".join(stream)
    told = client.body if direct else body
    assert told.count(b'"content":"') == 3
    assert b"boom" in told
    assert time.monotonic() - started < PROMPT


def test_an_engine_that_fails_at_once_has_no_response(detokenizers: DetokenizerFactory) -> None:
    call, client = FakeCall(calls_back=True), FakeClient()
    call.deliver(status=Status("UNAVAILABLE", "down"))
    with pytest.raises(EngineError) as caught:
        open_stream(call, detokenizers, client)
    assert caught.value.status == 503
    assert client.body == b""
    assert client.on_end is None


def test_a_client_that_leaves_before_the_response_ends_the_wait(
    detokenizers: DetokenizerFactory,
) -> None:
    call, client = FakeCall(calls_back=True), FakeClient()

    def leave(
        on_end: Callable[[RouterError], None], ping: Callable[[], None] | None = None
    ) -> None:
        on_end(ClientGone())

    client.watch = leave  # type: ignore[method-assign]
    with pytest.raises(ClientGone):
        open_stream(call, detokenizers, client)
    assert call.cancelled == 1


def test_a_client_that_leaves_while_it_is_written_to_ends_the_stream(
    detokenizers: DetokenizerFactory,
) -> None:
    call, client = FakeCall(calls_back=True), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)
    on_end = client.on_end
    assert on_end is not None
    client.takes = False
    client.before_wait = lambda: on_end(ClientGone())
    with pytest.raises(BrokenPipeError):
        next(stream)
    stream.close()
    assert call.cancelled == 1


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("direct", [True, False])
def test_a_server_that_stops_ends_the_stream_with_an_error(
    detokenizers: DetokenizerFactory, direct: bool, begun: bool
) -> None:
    call, client = FakeCall(calls_back=direct), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)
    assert client.on_end is not None
    body = b""
    if not begun or not direct:
        client.on_end(STOPPING)
        body = b"".join(stream)
    else:
        gevent.spawn_later(0.1, client.on_end, STOPPING)
        body = b"".join(stream)
    body += client.body
    assert b'"content":' in body
    assert b'"code":"server_shutting_down"' in body
    assert body.endswith(b"data: [DONE]\n\n")
    stream.close()
    assert call.cancelled == 1


def test_a_client_that_may_have_left_is_written_to(detokenizers: DetokenizerFactory) -> None:
    call, client = FakeCall(calls_back=True), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)
    ping = client.ping
    assert ping is not None
    # Before the response has begun there is nothing that could be written here.
    ping()
    assert client.body == b""

    def later() -> None:
        ping()
        call.deliver(complete([41], 2))

    gevent.spawn_later(0.1, later)
    assert b"".join(stream) == b""
    assert client.body.count(HEARTBEAT) == 1
    assert client.body.endswith(b"data: [DONE]\n\n")
    # Nothing follows the end.
    ping()
    assert client.body.endswith(b"data: [DONE]\n\n")


def test_a_stream_that_the_server_writes_is_nudged(detokenizers: DetokenizerFactory) -> None:
    call, client = FakeCall(calls_back=False), FakeClient()
    call.deliver(chunk([40], 1))
    stream = open_stream(call, detokenizers, client)
    assert b'"content":' in next(stream)
    assert client.ping is not None
    threading.Timer(0.1, client.ping).start()
    assert next(stream) == HEARTBEAT
    stream.close()


def test_client_gone_is_a_router_error_that_nobody_reads() -> None:
    assert isinstance(ClientGone(), RouterError)
    assert ClientGone().status == 499
