"""The HTTP/2 session alone: framing, credit, partial writes, its end, hostile bytes.

No event loop: a socket pair, and the peer's frames made by hand.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Callable, Iterator, Sequence

import pytest
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines import frames
from tests.engines.frames import answer, data, framed, headers, trailers

pytest.importorskip("sglrouter._fast.h2", reason="there is no libnghttp2")

from sglrouter._fast.h2 import Session, SessionError, Stream

WINDOW = 65_536
MAX_MESSAGE = 1_000_000
# More in a nightly run: SGLROUTER_TEST_EXAMPLES=100000
EXAMPLES = int(os.environ.get("SGLROUTER_TEST_EXAMPLES", "100"))


class Wire:
    """A session and the peer's end of its socket."""

    def __init__(self, window: int = WINDOW) -> None:
        ours, self.peer = socket.socketpair()
        self.ours = ours
        for sock in (ours, self.peer):
            sock.setblocking(False)
        self.session = Session(ours.fileno(), b"engine:1", window, MAX_MESSAGE)
        self._reader = frames.FrameReader()
        self.session.flush()
        self.received()
        # Acknowledged settings: from now on the session's window counts.
        self.feed(frames.settings(), SettingsFrame(0, flags=["ACK"]).serialize())
        self.session.flush()
        self.received()

    def close(self) -> None:
        self.ours.close()
        self.peer.close()

    def open(self, message: bytes = b"question") -> Stream:
        return self.session.open(b"/a/B", message, [], None)

    def feed(self, *parts: bytes) -> list[Stream]:
        """Sends to the session, reading as often as the socket pair has room for."""
        news: list[Stream] = []
        for part in parts:
            for at in range(0, len(part), 65536):
                self.peer.sendall(part[at : at + 65536])
                news += self.session.on_readable()
        return news

    def received(self) -> list[Frame]:
        """What the session has sent since the last call."""
        found: list[Frame] = []
        while True:
            try:
                part = self.peer.recv(1 << 20)
            except BlockingIOError:
                return found
            if not part:
                return found
            found += self._reader.feed(part)

    def credit(self, stream: int) -> int:
        """What the session grants now, beside what it has before."""
        self.session.flush()
        return sum(
            frame.window_increment
            for frame in self.received()
            if isinstance(frame, WindowUpdateFrame) and frame.stream_id == stream
        )


@contextlib.contextmanager
def wired(window: int = WINDOW) -> Iterator[Wire]:
    wire = Wire(window)
    try:
        yield wire
    finally:
        wire.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    with wired() as wire:
        yield wire


def test_a_call_from_question_to_answer(wire: Wire) -> None:
    stream = wire.session.open(b"/a/B", b"question", [(b"x-id", b"1")], "owner")
    assert wire.session.active == 1
    assert wire.session.wants_write
    assert wire.session.flush()
    sent = wire.received()
    head, body = sent
    assert isinstance(head, HeadersFrame)
    assert isinstance(body, DataFrame)
    assert body.data == framed(b"question")
    assert "END_STREAM" in body.flags
    assert wire.feed(answer(1, b"a", b"b")) == [stream]
    assert stream.take() == [b"a", b"b"]
    assert (stream.closed, stream.reset_code, stream.cut, stream.owner) == (True, 0, False, "owner")
    assert stream.headers == {
        ":status": b"200",
        "content-type": b"application/grpc",
        "grpc-status": b"0",
    }
    assert wire.session.active == 0
    assert wire.session.take_news() == []


def test_news_comes_once_for_all_that_has_happened(wire: Wire) -> None:
    streams = [wire.open() for _ in range(3)]
    wire.session.flush()
    news = wire.feed(headers(1) + headers(3) + data(3, framed(b"x")) * 5 + answer(5, b"y"))
    assert news == streams[1:]
    assert streams[1].take() == [b"x"] * 5


@pytest.mark.parametrize("cut", range(1, len(framed(b"", b"ab", b"", b"c"))))
def test_every_split_gives_the_same_messages(wire: Wire, cut: int) -> None:
    content = framed(b"", b"ab", b"", b"c")
    stream = wire.open()
    wire.session.flush()
    wire.feed(headers(1), data(1, content[:cut]), data(1, content[cut:]) + trailers(1))
    assert stream.take() == [b"", b"ab", b"", b"c"]
    assert not stream.cut


@given(
    sizes=st.lists(st.one_of(st.integers(0, 20), st.integers(0, 40_000)), max_size=12),
    seed=st.integers(0, 2**32),
    largest=st.sampled_from([1, 3, 50, 5000, 16384]),
)
@settings(max_examples=EXAMPLES, deadline=None)
def test_any_cut_gives_the_same_messages_and_all_credit(
    sizes: list[int], seed: int, largest: int
) -> None:
    """Random cuts into frames and into reads; every byte is credited in the end, none before
    its time, and none twice."""
    dice = random.Random(seed)
    messages = [dice.randbytes(size) for size in sizes]
    # Frames of a byte each are slow work: they need not go on for long.
    content = framed(*messages)[: 20_000 if largest < 50 else None]
    with wired() as wire:
        stream = wire.open()
        wire.credit(0)
        wire.feed(headers(1))
        taken: list[bytes] = []
        at = credited = 0
        while at < len(content):
            # As much as the window lets through, in one read or several.
            burst = b""
            while at < len(content) and len(burst) < dice.choice((1, 100, 30_000)):
                size = min(dice.randint(1, largest), WINDOW + credited - at, len(content) - at)
                if size <= 0:
                    break
                burst += data(1, content[at : at + size])
                at += size
            for start in range(0, len(burst), step := dice.choice((1 << 16, 977))):
                wire.feed(burst[start : start + step])
            credited += wire.credit(1)
            assert credited <= at
            if dice.random() < 0.7 or at >= WINDOW + credited:
                taken += stream.take()
                passed_on = sum(5 + len(message) for message in taken)
                # Only a long message that is still arriving is credited before it is taken.
                longest = max((5 + len(message) for message in messages), default=0)
                credited += wire.credit(1)
                assert credited <= passed_on + (longest if longest > WINDOW // 2 else 0)
                if at >= WINDOW + credited:
                    stream.take()
                    credited += wire.credit(1)
        taken += stream.take()
        taken += stream.take()
        credited += wire.credit(1)
        # Credit is granted by the half window: less than that may be outstanding.
        assert at - WINDOW // 2 - stream_rest(content, taken) <= credited <= at
        if len(content) == len(framed(*messages)):
            wire.feed(trailers(1))
            assert taken == messages
            assert stream.closed
            assert not stream.cut
        else:
            assert taken == messages[: len(taken)]


def stream_rest(content: bytes, taken: Sequence[bytes]) -> int:
    """Bytes of a message that is not complete."""
    return len(content) - sum(5 + len(message) for message in taken)


def test_credit_comes_with_the_next_take(wire: Wire) -> None:
    stream = wire.open()
    wire.session.flush()
    content = framed(b"x" * 995) * 60
    wire.feed(headers(1), frames.in_data(1, content, ()))
    assert wire.credit(1) == 0
    assert len(stream.take()) == 60
    assert wire.credit(1) == 0
    assert stream.take() == []
    assert wire.credit(1) == len(content)
    stream.take()
    assert wire.credit(1) == 0


def test_long_messages_that_nobody_takes_are_not_credited(wire: Wire) -> None:
    stream = wire.open()
    wire.session.flush()
    # Of each only the last byte would be left to credit when it is complete.
    message = framed(bytes(2 * 16384 - 4))
    wire.feed(headers(1), frames.in_data(1, message, ()))
    granted = wire.credit(1)
    assert granted == 2 * 16384
    wire.feed(data(1, message[:16384]), data(1, message[16384:32768]))
    assert wire.credit(1) == 0
    assert len(stream.take()) == 1
    # The first is out of the way; the second is as long as the window lets it be.
    assert wire.credit(1) == 2 * 16384
    wire.feed(data(1, message[-1:]))
    assert len(stream.take()) == 1


def test_the_connections_credit_does_not_wait_for_readers(wire: Wire) -> None:
    streams = [wire.open() for _ in range(40)]
    wire.session.flush()
    for stream in streams:
        wire.feed(headers(stream.id), frames.in_data(stream.id, bytes(60_000), ()))
    # 2.4 MB lie untaken. The connection's window is 2 GiB from the start.
    assert wire.credit(1) == 0
    wire.feed(frames.ping())
    wire.session.flush()
    assert [type(frame) for frame in wire.received()] == [PingFrame]


def test_a_request_goes_out_in_as_many_writes_as_it_takes(wire: Wire) -> None:
    wire.feed(frames.settings(INITIAL_WINDOW_SIZE=2**30), frames.window(0, 2**30))
    wire.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    message = random.Random(1).randbytes(500_000)
    wire.open(message)
    rounds = 0
    body = b""
    while not wire.session.flush() or wire.session.wants_write:
        rounds += 1
        assert wire.session.wants_write
        body += b"".join(f.data for f in wire.received() if isinstance(f, DataFrame))
    body += b"".join(f.data for f in wire.received() if isinstance(f, DataFrame))
    assert body == framed(message)
    assert rounds > 10


@pytest.mark.parametrize("sent", [False, True])
def test_a_cancelled_call_is_reset_once_and_not_heard_of(wire: Wire, sent: bool) -> None:
    stream = wire.open()
    if sent:
        wire.session.flush()
        wire.received()
    wire.session.cancel(stream)
    wire.session.cancel(stream)
    wire.session.flush()
    resets = [frame for frame in wire.received() if isinstance(frame, RstStreamFrame)]
    assert [frame.error_code for frame in resets] == ([frames.CANCEL] if sent else [])
    assert wire.session.active == 0
    assert wire.feed(answer(1, b"late") if sent else frames.ping()) == []
    assert stream.take() == []
    wire.session.flush()


def test_a_call_is_cancelled_while_its_request_is_being_sent(wire: Wire) -> None:
    wire.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    wire.feed(frames.settings(INITIAL_WINDOW_SIZE=2**30), frames.window(0, 2**30))
    stream = wire.open(bytes(5_000_000))
    other = wire.open()
    assert not wire.session.flush()
    wire.session.cancel(stream)
    del stream  # the session keeps it for as long as nghttp2 points at it
    sent: list[Frame] = []
    while wire.session.wants_write:
        wire.session.flush()
        sent += wire.received()
    assert [frame.stream_id for frame in sent if isinstance(frame, RstStreamFrame)] == [1]
    assert len([frame for frame in sent if frame.stream_id == 3]) == 2
    assert wire.feed(answer(3, b"x")) == [other]


def test_cancelled_calls_that_wait_for_room_are_never_sent(wire: Wire) -> None:
    wire.feed(frames.settings(MAX_CONCURRENT_STREAMS=1))
    streams = [wire.open(bytes(100_000)) for _ in range(5)]
    wire.session.flush()
    for stream in streams[1:4]:
        wire.session.cancel(stream)
    del streams[1:4], stream
    wire.session.flush()
    sent = wire.received()
    wire.feed(answer(1), frames.reset(1, 0))
    wire.session.flush()
    sent += wire.received()
    begun = [frame.stream_id for frame in sent if isinstance(frame, HeadersFrame)]
    assert begun == [1, 9]
    assert wire.session.active == 1


def test_a_goaway_is_kept_and_ends_what_lies_above(wire: Wire) -> None:
    streams = [wire.open() for _ in range(3)]
    wire.session.flush()
    news = wire.feed(frames.goaway(3, frames.ENHANCE_YOUR_CALM, b"calm down"))
    assert wire.session.goaway == (3, 11, b"calm down")
    assert news == [streams[2]]
    assert streams[2].reset_code == frames.REFUSED_STREAM
    assert not streams[2].touched
    # What is begun all the same does not go out.
    late = wire.open()
    wire.session.flush()
    assert wire.session.take_news() == [late]
    assert late.reset_code == frames.REFUSED_STREAM
    assert wire.feed(answer(1, b"x"), answer(3, b"y")) == streams[:2]


def test_what_breaks_the_protocol_is_named(wire: Wire) -> None:
    wire.open()
    wire.session.flush()
    wire.received()
    wire.feed(b"\0\0\1\0\0\0\0\0\0x")
    with pytest.raises(SessionError, match=r"the peer broke HTTP/2: PROTOCOL_ERROR \(1\): "):
        wire.session.flush()
    assert [type(frame) for frame in wire.received()] == [GoAwayFrame]


def test_pongs_are_counted(wire: Wire) -> None:
    wire.session.ping()
    wire.session.flush()
    (ping,) = wire.received()
    assert isinstance(ping, PingFrame)
    wire.feed(PingFrame(0, ping.opaque_data, flags=["ACK"]).serialize())
    assert wire.session.pongs == 1


def test_the_peers_end_is_an_error_after_its_last_words(wire: Wire) -> None:
    stream = wire.open()
    wire.session.flush()
    wire.received()
    wire.peer.sendall(answer(1, b"last"))
    wire.peer.shutdown(socket.SHUT_WR)
    wire.session.on_readable()
    with pytest.raises(SessionError, match="the peer closed the connection"):
        wire.session.on_readable()
    assert stream.take() == [b"last"]


def test_an_abandoned_session_does_nothing_and_does_it_safely(wire: Wire) -> None:
    session = wire.session
    done, cancelled, half, large = wire.open(), wire.open(), wire.open(), wire.open(bytes(200_000))
    session.flush()
    wire.received()
    wire.feed(answer(1, b"x"), headers(5), data(5, framed(b"y") + b"\0\0"))
    session.cancel(cancelled)
    unsent = wire.open()
    assert session.abandon() == [half, large, unsent]
    assert session.abandon() == []
    assert all(stream.closed for stream in (done, cancelled, half, large, unsent))
    # What has come can still be taken.
    assert (done.take(), half.take(), half.take()) == ([b"x"], [b"y"], [])
    assert half.cut
    assert (session.active, session.max_streams, session.wants_write) == (0, 0, False)
    session.ping()
    session.close()
    session.cancel(half)
    actions: list[Callable[[], object]] = [session.flush, session.on_readable, wire.open]
    for action in actions:
        with pytest.raises(SessionError, match="the session is over"):
            action()
    assert wire.received() == []


def test_a_closed_socket_is_a_session_error(wire: Wire) -> None:
    wire.open()
    wire.close()
    for action in (wire.session.flush, wire.session.on_readable):
        with pytest.raises(SessionError):
            action()
    wire.session.abandon()


def test_streams_outlive_their_session() -> None:
    with wired() as wire:
        stream = wire.open()
        wire.session.flush()
        wire.feed(headers(1), data(1, framed(b"x")))
        del wire.session
    assert stream.take() == [b"x"]
    assert stream.take() == []


def exchange(sent: Sequence[bytes], dice: random.Random) -> None:
    """Feeds bytes to a session with calls on it, as its owner does; SessionError is allowed."""
    with wired() as wire:
        streams = [wire.open(bytes(dice.choice((0, 10, 100_000)))) for _ in range(4)]
        with contextlib.suppress(SessionError):
            wire.session.flush()
            for part in sent:
                wire.received()
                for stream in wire.feed(part):
                    stream.take()
                if dice.random() < 0.1:
                    wire.session.cancel(dice.choice(streams))
                wire.session.flush()
                wire.session.take_news()
        wire.session.abandon()
        for stream in streams:
            stream.take()
            assert stream.closed


GOOD = [
    frames.settings(MAX_CONCURRENT_STREAMS=3, INITIAL_WINDOW_SIZE=100_000),
    headers(1),
    data(1, framed(b"hello", b"x" * 300), padding=9),
    frames.ping(),
    answer(3, b"a", b"b"),
    frames.window(0, 70_000),
    frames.window(5, 70_000),
    data(1, framed(b"y" * 70)[:40]),
    frames.reset(5, 7),
    frames.settings(HEADER_TABLE_SIZE=0, INITIAL_WINDOW_SIZE=10),
    data(1, framed(b"y" * 70)[40:]),
    frames.goaway(7, 0, b"bye"),
    trailers(1, "13", "oh%20no"),
]


@given(junk=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5))
@settings(max_examples=EXAMPLES, deadline=None)
def test_random_bytes_do_no_harm(junk: list[bytes]) -> None:
    exchange(junk, random.Random(0))


@given(seed=st.integers(0, 2**64))
@settings(max_examples=3 * EXAMPLES, deadline=None)
def test_mutated_answers_do_no_harm(seed: int) -> None:
    dice = random.Random(seed)
    parts = [bytearray(part) for part in GOOD]
    for _ in range(dice.randint(1, 6)):
        part = dice.choice(parts)
        kind = dice.randrange(5)
        if kind == 0 and part:
            part[dice.randrange(len(part))] = dice.randrange(256)
        elif kind == 1 and part:
            # The header is where most of the meaning is.
            part[dice.randrange(min(9, len(part)))] ^= 1 << dice.randrange(8)
        elif kind == 2:
            del part[dice.randint(0, len(part)) :]
        elif kind == 3:
            part += dice.choice(GOOD)
        else:
            other = dice.choice(parts)
            part[:], other[:] = bytes(other), bytes(part)
    exchange([bytes(part) for part in parts if part], dice)
