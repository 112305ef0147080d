"""The native channel's connections: made, shared, lost, left, and made again."""

from __future__ import annotations

import gc
import itertools
import socket
import time
import weakref
from collections.abc import Iterator
from threading import Event
from typing import Any

import gevent
import pytest
from gevent.monkey import is_module_patched
from hyperframe.frame import HeadersFrame

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.detok import Detokenizer, Vocabulary
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import ChunkFramer
from sglrouter._fast.wire import GenerateReader
from sglrouter.engines.channel import http2, http2_connection
from sglrouter.engines.channel.channel import Call, ChannelOptions, Status
from sglrouter.engines.channel.http2 import _timeout_header
from sglrouter.engines.wire.scheduler import GENERATE
from tests.engines import frames
from tests.engines.calls import Followed
from tests.engines.channel.conftest import To
from tests.engines.frames import answer, data, framed, headers, trailers
from tests.engines.peer import Peer, PeerConnection, in_background, is_served, serve, wait_until
from tests.fast.messages import chunk, complete
from tests.patience import LONG, PATIENCE
from tests.processes import free_port

if not is_module_patched("threading"):
    pytest.skip("run by tests.engines.channel.under_gevent", allow_module_level=True)

WINDOW = ChannelOptions().window


# Connecting.


def test_the_first_connection_is_made_by_the_first_call(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        gevent.sleep(0.02)
        assert not peer.connections
        assert channel.connected is None
        followed = Followed(channel)
        assert channel.connected is True
        peer.connection().streams()
        serve(peer.connection(), 1)
        assert is_served(followed)
        assert channel.counts()["connects"] == 1


def test_an_ipv6_engine_is_reached(to: To) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with listener:
        channel = to(f"[::1]:{listener.getsockname()[1]}")
        calling = in_background(channel)
        sock, _ = listener.accept()
        connection = PeerConnection(sock, greeted=True)
        reading = gevent.spawn(connection.follow)
        connection.send(frames.settings())
        assert connection.streams() == [1]
        serve(connection, 1)
        assert is_served(calling.get(timeout=PATIENCE))
        channel.close()
        reading.join(5)
        sock.close()


def test_a_hundred_calls_at_once_share_a_connection(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        calling = [in_background(channel) for _ in range(100)]
        connection = peer.connection()
        for stream in connection.streams(100):
            serve(connection, stream)
        assert all(is_served(each.get(timeout=PATIENCE)) for each in calling)
        assert len(peer.connections) == 1


def test_while_the_engine_is_down_attempts_are_few(to: To, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []
    connect = http2_connection.open_socket

    def count(endpoint: Any) -> Any:
        attempts.append(time.monotonic())
        return connect(endpoint)

    monkeypatch.setattr(http2, "open_socket", count)
    monkeypatch.setattr(http2, "FIRST_BACKOFF", 0.05)
    port = free_port()
    channel = to(f"127.0.0.1:{port}")
    calls = 0
    while len(attempts) < 4:
        followed = Followed(channel)
        assert followed.drain() == []
        assert followed.status == Status(
            "UNAVAILABLE",
            f"cannot connect to grpc://127.0.0.1:{port}: Connection refused",
            unseen=True,
        )
        calls += 1
        gevent.sleep(0.002)
    assert channel.connected is False
    assert calls > len(attempts)
    pauses = [after - before for before, after in itertools.pairwise(attempts)]
    for pause, backoff in zip(pauses, (0.05, 0.1, 0.2), strict=True):
        assert pause > backoff * 0.75  # give or take a fifth
    assert channel.counts()["failed_connects"] == len(attempts)


def test_one_attempt_serves_all_who_wait(to: To, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def fail(endpoint: Any) -> Any:
        attempts.append(endpoint)
        gevent.sleep(0.02)
        raise OSError("no way there")

    monkeypatch.setattr(http2, "open_socket", fail)
    channel = to("127.0.0.1:1")
    calling = [in_background(channel) for _ in range(20)]
    for each in calling:
        followed = each.get(timeout=PATIENCE)
        assert followed.status.code == "UNAVAILABLE"
        assert followed.status.message.endswith(": no way there")
    assert len(attempts) == 1


def test_a_deadline_holds_while_connecting(to: To) -> None:
    with Peer(b"") as peer:
        channel = to(peer.address)
        followed = Followed(channel, timeout=0.1)
        assert followed.drain() == []
        # Not the connection's own time, which is longer and would be UNAVAILABLE.
        assert followed.status.code == "DEADLINE_EXCEEDED"


@pytest.mark.parametrize("rst", [False, True])
def test_a_connection_that_breaks_is_made_again(to: To, rst: bool) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        followed = Followed(channel)
        peer.connection().streams()
        peer.connection().close(rst=rst)
        assert followed.drain() == []
        assert followed.status.code == "UNAVAILABLE"
        assert channel.connected is False
        again = Followed(channel)
        assert peer.connection(1).streams() == [1]
        serve(peer.connection(1), 1)
        assert is_served(again)
        assert channel.connected is True
        assert channel.counts()["lost"] == 1


# Going away.


@pytest.mark.parametrize(
    ("goodbye", "words"),
    [
        (frames.goaway(0), "said goodbye"),
        (frames.goaway(0, frames.ENHANCE_YOUR_CALM, b"too_many_pings"), "too_many_pings"),
    ],
)
def test_a_peer_that_goes_at_once_is_not_asked_again_at_once(
    to: To, goodbye: bytes, words: str
) -> None:
    with Peer(frames.settings() + goodbye, frames.settings()) as peer:
        channel = to(peer.address)
        for _ in range(3):
            followed = Followed(channel)
            assert followed.drain() == []
            assert followed.status.code == "UNAVAILABLE"
            assert words in followed.status.message
        assert len(peer.connections) == 1
        peer.connection().wait_for_end()

        def reached() -> bool:
            return Followed(channel, timeout=0.5).call.status is None

        wait_until(reached, "the next attempt")


def test_a_call_is_sent_again_only_once(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        followed = Followed(channel)
        for index in range(2):
            assert peer.connection(index).streams() == [1]
            peer.connection(index).send(frames.goaway(0, frames.ENHANCE_YOUR_CALM, b"overload"))
        assert followed.drain() == []
        assert followed.status == Status(
            "UNAVAILABLE",
            "the engine is going away: ENHANCE_YOUR_CALM (11): overload",
            unseen=True,
        )
        gevent.sleep(0.01)
        assert len(peer.connections) == 2


def test_a_call_that_was_touched_is_not_sent_again(to: To) -> None:
    with Peer() as peer:
        followed = Followed(to(peer.address))
        peer.connection().streams()
        peer.connection().send(headers(1), frames.goaway(0))
        followed.drain()
        assert followed.status.code == "UNAVAILABLE"
        gevent.sleep(0.01)
        assert len(peer.connections) == 1


def test_a_refused_stream_is_sent_once_more(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        followed, hopeless = Followed(channel), Followed(channel)
        connection = peer.connection()
        connection.streams(2)
        connection.send(frames.reset(1, frames.REFUSED_STREAM))
        assert connection.streams(3)[-1] == 5
        serve(connection, 5)
        assert is_served(followed)
        for stream in (3, 7):
            connection.send(frames.reset(stream, frames.REFUSED_STREAM))
            if stream == 3:
                connection.streams(4)
        assert hopeless.drain() == []
        assert hopeless.status == Status(
            "UNAVAILABLE", "the stream was reset: REFUSED_STREAM (7)", unseen=True
        )


def test_a_refused_call_that_was_cancelled_is_not_sent_again(
    to: To, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        followed = Followed(channel)
        peer.connection().streams()
        connect = http2_connection.open_socket
        begun, go_on = Event(), Event()

        def wait_and_connect(endpoint: Any) -> Any:
            begun.set()
            go_on.wait()
            return connect(endpoint)

        monkeypatch.setattr(http2, "open_socket", wait_and_connect)
        peer.connection().send(frames.goaway(0))
        assert begun.wait(5)
        followed.call.cancel()
        go_on.set()
        other = Followed(channel)
        assert peer.connection(1).streams() == [1]
        serve(peer.connection(1), 1)
        assert is_served(other)
        assert peer.connection(1).opened() == [1]
        assert followed.call.status == Status("CANCELLED", "cancelled here")


# Limits.


def test_a_peer_with_one_stream_gets_more_connections_and_then_a_queue(
    to: To, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "MAX_CONNECTIONS", 3)
    with Peer(frames.settings(MAX_CONCURRENT_STREAMS=1)) as peer:
        channel = to(peer.address)
        calling = [in_background(channel) for _ in range(6)]
        calls = [each.get(timeout=PATIENCE) for each in calling]
        assert len(peer.connections) == 3
        gevent.sleep(0.02)
        assert [each.opened() for each in peer.connections] == [[1]] * 3
        for connection in peer.connections:
            serve(connection, 1)
            connection.streams(2)
            serve(connection, 3)
        assert all(is_served(each) for each in calls)
        assert len(peer.connections) == 3


def test_a_peer_that_allows_no_streams_is_waited_for(to: To) -> None:
    with Peer(frames.settings(MAX_CONCURRENT_STREAMS=0)) as peer:
        channel = to(peer.address)
        impatient = Followed(channel, timeout=0.05)
        assert impatient.drain() == []
        assert impatient.status.code == "DEADLINE_EXCEEDED"
        assert len(peer.connections) == 1
        calls = [Followed(channel) for _ in range(2)]
        gevent.sleep(0.02)
        assert [each.opened() for each in peer.connections] == [[]] * len(peer.connections)
        for connection in peer.connections:
            connection.send(frames.settings(MAX_CONCURRENT_STREAMS=10))
        wait_until(lambda: sum(len(each.opened()) for each in peer.connections) == 2)
        for connection in peer.connections:
            for stream in connection.opened():
                serve(connection, stream)
        assert all(is_served(each) for each in calls)


# Ends.


def test_a_cancelled_call_is_reset_once(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        followed, other = Followed(channel), Followed(channel)
        connection = peer.connection()
        connection.streams(2)
        connection.send(headers(1), data(1, framed(b"some")))
        assert followed.arrived.wait(5)
        for _ in range(3):
            followed.call.cancel()
        # What comes now is for nobody, and does no harm.
        connection.send(data(1, framed(b"more")), trailers(1))
        serve(connection, 3)
        assert is_served(other)
        assert connection.resets() == [(1, frames.CANCEL)]
        assert followed.call.status == Status("CANCELLED", "cancelled here")


def test_a_call_that_is_cancelled_at_once_is_never_sent(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        other = Followed(channel)
        peer.connection().streams()
        Followed(channel).call.cancel()
        serve(peer.connection(), 1)
        assert is_served(other)
        assert peer.connection().opened() == [1]


def test_a_deadline_resets_the_call(to: To) -> None:
    with Peer() as peer:
        followed = Followed(to(peer.address), timeout=0.1)
        connection = peer.connection()
        connection.streams()
        connection.send(headers(1), data(1, framed(b"some")))
        assert followed.drain() == [b"some"]
        assert followed.status == Status("DEADLINE_EXCEEDED", "the deadline is over")
        wait_until(lambda: connection.resets() == [(1, frames.CANCEL)])


def test_the_peer_is_told_the_deadline_and_the_metadata(to: To) -> None:
    from hpack import Decoder

    with Peer() as peer:
        arrived = Event()
        to(peer.address).stream(
            GENERATE, b"x", timeout=2.5, arrived=arrived, metadata=[("X-Id", "a")]
        )
        peer.connection().streams()
        frame = peer.connection().of(HeadersFrame)[0]
        fields = Decoder().decode(frame.data, raw=True)
        sent = {bytes(name).decode(): bytes(value).decode() for name, value in fields}
    timeout = sent.pop("grpc-timeout")
    assert timeout.endswith("m")
    assert 1500 < int(timeout[:-1]) <= 2501
    assert sent == {
        ":method": "POST",
        ":scheme": "http",
        ":path": GENERATE,
        ":authority": peer.address,
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "sglrouter",
        "x-id": "a",
    }


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        (0.0, b"1m"),
        (0.0015, b"2m"),
        (99999.0, b"99999001m"),
        (1e5, b"100000S"),
        (1e12, b"99999999S"),
    ],
)
def test_a_timeout_has_at_most_eight_digits(seconds: float, header: bytes) -> None:
    assert _timeout_header(seconds) == header


def test_close_ends_calls_that_wait_for_a_connection(to: To) -> None:
    with Peer(b"") as peer:
        channel = to(peer.address)
        calling = in_background(channel)
        peer.connection()
        gevent.sleep(0.01)
        channel.close()
        followed = calling.get(timeout=PATIENCE)
        assert followed.status == Status("UNAVAILABLE", "the channel was closed")
        peer.connection().wait_for_end()


def test_a_greenlet_that_is_killed_while_it_waits_leaves_no_call_behind(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        calling = gevent.spawn(channel.unary, "/a/B", b"x", timeout=LONG)
        connection = peer.connection()
        connection.streams()
        calling.kill(timeout=PATIENCE)
        wait_until(lambda: connection.resets() == [(1, frames.CANCEL)])


def test_finished_calls_leave_nothing_to_the_collector(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        gc.collect()
        gc.disable()
        try:
            followed = Followed(channel)
            gone = weakref.ref(followed.call)
            peer.connection().streams()
            serve(peer.connection(), 1)
            assert is_served(followed)
            del followed
            wait_until(lambda: gone() is None, "the end of the call object")
        finally:
            gc.enable()


# News.


def test_a_listener_may_take_and_cancel_where_it_is_called(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        taken: list[bytes] = []
        calls: list[Call] = []

        def on_news() -> None:
            for call in calls:
                taken.extend(call.take())
            for call in calls:
                call.cancel()

        def on_trouble() -> None:
            raise ValueError("a listener's own trouble")

        followed = [Followed(channel) for _ in range(4)]
        connection = peer.connection()
        connection.streams(4)
        calls += [each.call for each in followed[:2]]
        for call in calls:
            assert call.listen(on_news)
        followed[2].call.listen(on_trouble)
        # All in one read: what one call does must not harm the news of the next.
        one_piece = b"".join(headers(s) + data(s, framed(b"%d" % s)) for s in (1, 3, 5))
        connection.send(one_piece, answer(7, b"fine"))
        assert is_served(followed[3])
        assert sorted(taken) == [b"1", b"3"]
        wait_until(lambda: connection.resets() == [(1, frames.CANCEL), (3, frames.CANCEL)])


# Flow.


def test_a_reader_that_stalls_stalls_its_own_stream_alone(to: To) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        stalled, lively = Followed(channel), Followed(channel)
        connection = peer.connection()
        connection.streams(2)
        connection.send(headers(1), headers(3))
        part = framed(b"x" * 9995)
        sent = 0
        while sent + len(part) <= WINDOW + connection.credit(1):
            connection.send(data(1, part))
            sent += len(part)
            gevent.sleep(0)
        gevent.sleep(0.02)
        # Not a byte of credit while nobody takes what is there.
        assert connection.credit(1) == 0
        taken = 0
        for _ in range(200):
            connection.send(data(3, part))
            wait_until(lambda: bool(lively.call.take()), "a message")
            taken += len(part)
        assert connection.credit(3) > taken - 2 * WINDOW
        assert connection.credit(1) == 0
        assert len(stalled.call.take()) == sent // len(part)
        gevent.sleep(0.02)
        # Taken, but not passed on yet.
        assert connection.credit(1) == 0
        assert stalled.call.take() == []
        wait_until(lambda: connection.credit(1) == sent, "the credit")


class Reader:
    """A client of ours: a sink that writes plain text to a real socket."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        vocabulary = Vocabulary([b"<%d>" % i for i in range(100)], [])
        self.writer = BodyWriter(self.ours.fileno(), False)
        self.troubles = 0
        self.sink = TextSink(
            GenerateReader(),
            Detokenizer(vocabulary),
            None,
            None,
            ChunkFramer("id", 1, "m" * 2000, 0),
            self.writer,
            self.on_trouble,
        )

    def on_trouble(self) -> None:
        self.troubles += 1

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()


def test_a_sink_takes_plain_text_and_leaves_the_rest(to: To, reader: Reader) -> None:
    with Peer() as peer:
        followed = Followed(to(peer.address))
        connection = peer.connection()
        connection.streams()
        followed.call.divert(reader.sink)
        news = []
        assert followed.call.listen(lambda: news.append(followed.call.take()))
        connection.send(headers(1), data(1, framed(chunk([1], 1)) + framed(chunk([2], 2))))
        received = b""
        wait_until(lambda: reader.writer.written > 0)
        received += reader.theirs.recv(1 << 20)
        assert b"<1><2>" in received
        assert news == []
        connection.send(data(1, framed(chunk([3], 3)) + framed(complete([3], 3))))
        wait_until(lambda: bool(news))
        assert news == [[chunk([3], 3), complete([3], 3)]]
        connection.send(trailers(1))
        wait_until(lambda: followed.call.status is not None)
        assert followed.status.ok


def test_a_refused_call_keeps_its_sink_when_it_is_sent_again(to: To, reader: Reader) -> None:
    with Peer() as peer:
        followed = Followed(to(peer.address))
        connection = peer.connection()
        connection.streams()
        followed.call.divert(reader.sink)
        connection.send(frames.reset(1, frames.REFUSED_STREAM))
        assert connection.streams(2) == [1, 3]
        connection.send(headers(3), data(3, framed(chunk([1], 1))))
        wait_until(lambda: reader.writer.written > 0)


def test_what_a_sink_takes_is_credited_until_its_client_stalls(to: To, reader: Reader) -> None:
    with Peer() as peer:
        followed = Followed(to(peer.address))
        connection = peer.connection()
        connection.streams()
        followed.call.divert(reader.sink)
        connection.send(headers(1))
        part = framed(chunk([1] * 2000, 1))
        sent = 0
        # The client reads: the engine may send for ever.
        for _ in range(3 * WINDOW // len(part)):
            room = WINDOW - sent - len(part)
            wait_until(lambda room=room: room + connection.credit(1) >= 0, "credit")  # type: ignore[misc]
            written = reader.writer.written
            connection.send(data(1, part))
            sent += len(part)
            wait_until(lambda written=written: reader.writer.written > written)  # type: ignore[misc]
            reader.theirs.recv(1 << 20)
        assert reader.troubles == 0
        # It does not: the engine stops within a window, and nobody else is told but once.
        while sent + len(part) <= WINDOW + connection.credit(1):
            connection.send(data(1, part))
            sent += len(part)
            gevent.sleep(0.001)
        assert reader.troubles == 1
        credit = connection.credit(1)
        gevent.sleep(0.02)
        assert connection.credit(1) == credit
        assert reader.writer.kept


def test_a_window_that_is_taken_at_once_is_credited_at_once(to: To, reader: Reader) -> None:
    with Peer() as peer:
        followed = Followed(to(peer.address))
        connection = peer.connection()
        connection.streams()
        followed.call.divert(reader.sink)
        part = framed(chunk([5000] * 2000, 1))  # tokens without text
        count = WINDOW // len(part)
        connection.send(headers(1), *[data(1, part)] * count)
        # The engine has nothing more to send until it is credited.
        wait_until(lambda: connection.credit(1) > WINDOW // 2, "credit")
        assert reader.writer.written == 0


def test_a_cancelled_call_gives_its_sink_nothing_more(to: To, reader: Reader) -> None:
    with Peer() as peer:
        channel = to(peer.address)
        followed, other = Followed(channel), Followed(channel)
        connection = peer.connection()
        connection.streams(2)
        followed.call.divert(reader.sink)
        followed.call.cancel()
        connection.send(headers(1), data(1, framed(chunk([1], 1))), answer(3, b"fine"))
        assert is_served(other)
        assert reader.writer.written == 0
