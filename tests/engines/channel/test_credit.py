"""Credit: a peer never waits for it while its stream has nothing left to take.

A peer that keeps to its windows sends to the real session; a real sink takes plain text and
leaves the rest; the owner does what an event stream does. Small windows make credit scarce
at once. All orders of a few steps are tried, and longer ones by chance; after each, what the
peer still has to say must get through to its last byte.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from hyperframe.frame import RstStreamFrame, SettingsFrame, WindowUpdateFrame
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines import frames
from tests.engines.frames import data, framed, headers
from tests.fast.messages import chunk, complete

pytest.importorskip("sglrouter._fast.h2", reason="there is no libnghttp2")

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.detok import Detokenizer, Vocabulary
from sglrouter._fast.h2 import Session, Stream
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import ChunkFramer
from sglrouter._fast.wire import GenerateReader

WINDOW = 256
LONGEST = 100_000
# More in a nightly run: SGLROUTER_TEST_EXAMPLES=100000
EXAMPLES = int(os.environ.get("SGLROUTER_TEST_EXAMPLES", "100"))
_VOCABULARY = Vocabulary([b"<%d>" % i for i in range(100)], [])


class Client:
    """Who the text is for: reads it, or does not for a while."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        for sock in (self.ours, self.theirs):
            sock.setblocking(False)
        self.writer = BodyWriter(self.ours.fileno(), False)

    def stop_reading(self) -> None:
        """Leaves no room for a single byte."""
        while True:
            try:
                self.ours.send(bytes(1 << 16))
            except BlockingIOError:
                return

    def read_on(self) -> None:
        """Takes all there is."""
        left = self.writer.kept
        while left:
            self._drain()
            left = left[self.ours.send(left) :]
        self.writer.take_kept()
        self._drain()

    def _drain(self) -> None:
        while True:
            try:
                self.theirs.recv(1 << 20)
            except BlockingIOError:
                return

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


class Call:
    """One call: what the peer has still to send, and what its owner has got."""

    def __init__(self, stream: Stream, sink: bool) -> None:
        self.stream = stream
        self.backlog = bytearray()
        self.window = WINDOW
        self.taken = 0
        self.said = 0
        self.client = Client()
        self.blocked = False  # the client's socket is full: it waits for its turn
        self.cancelled = False
        if sink:
            self.stream.sink = TextSink(
                GenerateReader(),
                Detokenizer(_VOCABULARY),
                None,
                None,
                ChunkFramer("id", 1, "m", 0),
                self.client.writer,
                self._on_trouble,
            )

    def _on_trouble(self) -> None:
        self.blocked = True

    def pump(self) -> None:
        """What an event stream does with news."""
        while not self.blocked and not self.cancelled:
            messages = self.stream.take()
            self.taken += len(messages)
            if not messages or not self.stream.holds_back:
                return


class Play:
    """A session, its peer, and the calls of one connection."""

    def __init__(self, calls: int, *, sink: bool) -> None:
        self.ours, self.peer = socket.socketpair()
        for sock in (self.ours, self.peer):
            sock.setblocking(False)
        self.session = Session(self.ours.fileno(), b"engine:1", WINDOW, LONGEST)
        self._reader = frames.FrameReader()
        self.calls = [Call(self.session.open(b"/a/B", b"", [], None), sink) for _ in range(calls)]
        self.connection_window = 65535
        self.hear()
        self.peer.sendall(frames.settings() + SettingsFrame(0, flags=["ACK"]).serialize())
        for call in self.calls:
            self.peer.sendall(headers(call.stream.id))
        self.turn()

    def close(self) -> None:
        self.session.abandon()
        for sock in (self.ours, self.peer):
            sock.close()
        for call in self.calls:
            call.stream.sink = None
            call.client.close()

    def say(self, call: Call, message: bytes) -> None:
        """The peer has one more message, and sends what its windows let it."""
        if not call.cancelled:
            call.backlog += framed(message)
            call.said += 1
            self.send(call)

    def send(self, call: Call, most: int = 1 << 14) -> int:
        size = min(len(call.backlog), call.window, self.connection_window, most)
        if call.cancelled:
            return 0
        if size:
            self.peer.sendall(data(call.stream.id, bytes(call.backlog[:size])))
            del call.backlog[:size]
            call.window -= size
            self.connection_window -= size
        return size

    def turn(self) -> None:
        """One turn of the router's loop: reads, tells the owners, writes."""
        owners = {call.stream.id: call for call in self.calls}
        for stream in self.session.on_readable():
            owners[stream.id].pump()
        self.hear()

    def hear(self) -> None:
        """The peer reads what the session has sent."""
        self.session.flush()
        while True:
            try:
                part = self.peer.recv(1 << 16)
            except BlockingIOError:
                return
            for frame in self._reader.feed(part):
                if isinstance(frame, WindowUpdateFrame):
                    self._credit(frame.stream_id, frame.window_increment)
                elif isinstance(frame, RstStreamFrame):
                    assert self._call(frame.stream_id).cancelled

    def _call(self, stream: int) -> Call:
        return next(call for call in self.calls if call.stream.id == stream)

    def _credit(self, stream: int, size: int) -> None:
        if stream == 0:
            self.connection_window += size
            return
        call = self._call(stream)
        call.window += size
        assert call.window <= WINDOW or call.cancelled, "more credit than was used"

    def unblock(self, call: Call) -> None:
        call.client.read_on()
        if call.blocked:
            call.blocked = False
            call.pump()
            self.hear()

    def cancel(self, call: Call) -> None:
        if not call.cancelled:
            call.cancelled = True
            self.session.cancel(call.stream)
            self.hear()

    def finish(self) -> None:
        """All clients read on: everything gets through."""
        for call in self.calls:
            self.unblock(call)
            self.say(call, UNPLAIN)
        idle = 0
        while idle < 2:
            idle = 0 if sum(self.send(call) for call in self.calls) else idle + 1
            self.turn()
            for call in self.calls:
                self.unblock(call)
        for call in self.calls:
            if not call.cancelled:
                assert not call.backlog, f"{len(call.backlog)} bytes wait for credit for ever"
                assert call.window > 0
                assert call.stream.take() == []
                if call.stream.sink is None:
                    assert call.taken == call.said


@contextmanager
def played(calls: int = 1, *, sink: bool = True) -> Iterator[Play]:
    play = Play(calls, sink=sink)
    try:
        yield play
    finally:
        play.close()


UNPLAIN = complete([1], 1, "stop")
SMALL, HALF, NEARLY_ALL, LONG = (chunk(list(range(count)), count) for count in (1, 80, 200, 400))
# (call, what happens to it)
Step = tuple[int, str]
KINDS = ("small", "half", "nearly", "long", "unplain", "byte", "turn", "block", "unblock")
_MESSAGES = {
    "small": SMALL, "half": HALF, "nearly": NEARLY_ALL, "long": LONG, "unplain": UNPLAIN,
}  # fmt: skip


def play_steps(steps: Iterable[Step], calls: int, *, sink: bool) -> None:
    with played(calls, sink=sink) as play:
        for number, kind in steps:
            call = play.calls[number]
            if kind in _MESSAGES:
                play.say(call, _MESSAGES[kind])
            elif kind == "byte":
                play.send(call, 1)
            elif kind == "turn":
                play.turn()
            elif kind == "block":
                call.client.stop_reading()
            elif kind == "unblock":
                play.unblock(call)
            elif kind == "cancel":
                play.cancel(call)
        play.finish()


@pytest.mark.parametrize("sink", [True, False])
def test_whatever_the_order_the_peer_can_go_on(sink: bool) -> None:
    # "block" and "unblock" mean nothing without a sink.
    kinds = KINDS if sink else KINDS[:-2]
    for steps in itertools.product(kinds, repeat=4):
        try:
            play_steps([(0, kind) for kind in steps], 1, sink=sink)
        except AssertionError as exc:
            raise AssertionError(f"{steps}: {exc}") from exc


steps_of_three = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from((*KINDS, "turn", "cancel"))), max_size=40
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(steps_of_three, st.booleans())
def test_several_streams_go_on_each_by_itself(steps: list[Step], sink: bool) -> None:
    play_steps(steps, 3, sink=sink)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.integers(0, 3 * WINDOW), max_size=20), st.integers(1, 50), st.booleans())
def test_messages_of_any_size_get_through(sizes: list[int], every: int, sink: bool) -> None:
    with played(1, sink=sink) as play:
        (call,) = play.calls
        for number, size in enumerate(sizes):
            play.say(call, bytes(size))
            if number % every == 0:
                play.turn()
        play.finish()


def test_a_whole_window_that_comes_at_once_is_credited() -> None:
    with played() as play:
        (call,) = play.calls
        for _ in range(100):
            play.say(call, SMALL)
        assert call.window == 0
        play.turn()
        assert call.window > WINDOW // 2
        play.finish()


def test_a_client_that_takes_nothing_holds_up_its_own_stream_alone() -> None:
    with played(2) as play:
        slow, quick = play.calls
        slow.client.stop_reading()
        for _ in range(200):
            for call in play.calls:
                play.say(call, SMALL)
            play.turn()
        assert slow.blocked
        # One batch is kept for the client, and a window waits behind it.
        assert len(slow.backlog) > 200 * len(SMALL) // 2
        assert not quick.backlog
        play.finish()


def test_all_that_comes_counts_for_the_connection_at_once() -> None:
    with played(3) as play:
        for call in play.calls:
            call.client.stop_reading()
        for _ in range(50):
            for call in play.calls:
                play.say(call, NEARLY_ALL)
            play.turn()
        # The session has granted 2 GiB at first: what it holds is bounded by the streams.
        assert play.connection_window > 2**30
        play.finish()
