"""Fuzzes the HTTP/2 session: a peer that may do anything, and an owner that may, too.

Strategy: an input is a script of actions: frames that the peer sends, well-formed and
otherwise, in one piece or cut anywhere, and what the session's owner does in between. The
session talks over a socket pair; h2_model.py says what must come of it. Of all that can go
wrong only SessionError is raised, after which the owner abandons the session, as the
channel does.

The windows are small, so that credit is scarce after a few hundred bytes.
"""

from __future__ import annotations

import gc
import socket
from collections import Counter
from collections.abc import Callable

from sglrouter._fast.h2 import Session, SessionError, Stream
from tests.fuzz import h2_model as h2
from tests.fuzz.h2_model import Call, Model, frame
from tests.fuzz.run import Script, T, fuzz

WINDOW = 2048
LONGEST = 6000
MOST_ACTIONS = 400
MOST_CALLS = 20
LARGE = 40_000  # more than a frame holds; two of them, more than a peer lets through at first
# All of these bytes differ from their neighbours: what is lost or moved shows.
PATTERN = bytes(i * 7 % 251 for i in range(2 * LARGE))


class Play:
    """One input's session, with its peer and its owner."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.reached: Counter[str] = Counter()
        self.model = Model(WINDOW, LONGEST)
        self.ours, self.peer = socket.socketpair()
        for sock in (self.ours, self.peer):
            sock.setblocking(False)
        self.session = Session(self.ours.fileno(), b"engine:1", WINDOW, LONGEST)
        self.preface = 24
        self.over = False
        self.cut_off = False  # a socket is shut: SessionError is in order
        self.streams: dict[int, Stream] = {}
        self.unheard: set[int] = set()  # cancelled, with their last news taken
        self.backlog: dict[int, bytes] = {}  # the rest of what the peer has to say to a call
        self.corked: bytearray | None = None

    def run(self) -> None:
        """Plays the whole script, then brings it to an end."""
        start = self.script.number()
        self.flush()
        self.send(frame(h2.SETTINGS, 0, 0, b""))
        # Acknowledged settings: from here on the session's window counts.
        self.peer_sends(frame(h2.SETTINGS, h2.ACK, 0, b""))
        for i in range(start % 4):
            self.open(10)
            self.flush()
            if start & 4:
                self.send(frame(h2.HEADERS, h2.END_HEADERS, 2 * i + 1, h2.GOOD_HEADERS))
        for _ in range(MOST_ACTIONS):
            if not self.script:
                break
            self.script.choice(ACTIONS)(self)
            self.check()
        self.finish()

    def close(self) -> None:
        """Lets go of the sockets."""
        self.ours.close()
        self.peer.close()

    # Both ends.

    def send(self, content: bytes) -> None:
        """The peer sends this, or keeps it while it is corked."""
        if self.corked is not None:
            self.corked += content
        else:
            self.peer_sends(content)

    def peer_sends(self, content: bytes) -> None:
        """The peer sends this and the session reads it."""
        if self.over or self.cut_off or not content:
            return
        self.peer.sendall(content)
        self.model.moved.clear()
        self.model.deliver(content)
        news = self.guarded(self.session.on_readable) or []
        self.heed(news)
        if not self.over:
            for stream in self.model.moved:
                found = self.streams[stream]
                assert found in news or found.broken is not None, "news were not reported"

    def heed(self, news: list[Stream]) -> None:
        """Looks at what the session reports."""
        assert len({stream.id for stream in news}) == len(news), "news came twice"
        assert all(self.streams[stream.id] is stream for stream in news)
        assert not any(stream.id in self.unheard for stream in news), "news of a cancelled call"
        self.reached["news"] += len(news)

    def guarded(self, action: Callable[[], T]) -> T | None:
        """Does something that may end the session."""
        try:
            return action()
        except SessionError as exc:
            if self.model.sure and not self.over and not self.cut_off:
                raise AssertionError("a connection in order failed") from exc
            self.reached["failures"] += 1
            self.abandon()
        return None

    def flush(self) -> bool:
        """Writes, and lets the peer read; returns whether all is out."""
        done = self.guarded(self.session.flush)
        # Before it fails the session may still have told the peer why.
        while not self.cut_off:
            try:
                part = self.peer.recv(1 << 18)
            except BlockingIOError:
                break
            if not part:
                break
            preface = min(self.preface, len(part))
            self.preface -= preface
            self.model.hear(part[preface:])
        self.heed(self.session.take_news())
        self.model.check_credit()
        return bool(done)

    def flush_all(self) -> None:
        """Writes all that can be written."""
        while not self.flush() and not self.over and not self.cut_off:
            pass

    # What the owner does.

    def open(self, size: int) -> None:
        """Begins a call."""
        if len(self.streams) >= MOST_CALLS:
            return
        message = PATTERN[:size]
        stream = None
        try:
            stream = self.session.open(b"/a/B", message, [(b"x-id", b"1")], self)
        except SessionError:
            assert self.over or not self.model.sure
        if stream is not None:
            assert not self.over
            request = b"\0" + len(message).to_bytes(4, "big") + message
            call = Call(stream.id, request, sure=self.model.goaway is None)
            self.model.calls[stream.id] = call
            self.streams[stream.id] = stream
            self.reached["calls"] += 1

    def cancel(self, stream: Stream) -> None:
        """Cancels a call."""
        was_closed = stream.closed
        self.session.cancel(stream)
        assert stream.closed
        call = self.model.calls[stream.id]
        if not was_closed:
            call.cancelled = True
            self.heed(self.session.take_news())
            self.unheard.add(stream.id)
        call.end()

    def take(self, stream: Stream) -> None:
        """Takes a call's messages."""
        call = self.model.calls[stream.id]
        call.passed_on = len(call.taken)
        messages = stream.take()
        self.model.check_taken(call, messages)
        call.taken += messages
        self.reached["messages"] += len(messages)

    def abandon(self) -> None:
        """Ends the session, as its owner does when it has failed."""
        still_open = {stream.id for stream in self.streams.values() if not stream.closed}
        lost = self.session.abandon()
        assert {stream.id for stream in lost} == still_open
        assert self.session.active == 0
        assert not self.session.wants_write
        for call in self.model.calls.values():
            assert self.streams[call.id].closed
            call.end()
        self.over = True

    def hang_up(self) -> None:
        """The session says that it goes."""
        self.session.close()
        self.model.closing = True
        self.model.doubt()

    # What must hold at any time.

    def check(self) -> None:
        """Compares what can be seen of the session with the model."""
        calls = self.model.calls
        assert 0 <= self.session.active <= len(calls)
        if self.over:
            assert self.session.active == 0
            return
        in_order = [call for call in calls.values() if self.model.is_in_order(call)]
        assert self.session.active >= len(in_order)
        for call in in_order:
            stream = self.streams[call.id]
            assert not stream.closed or stream.broken is not None
        if self.model.sure:
            assert self.session.goaway == self.model.goaway
            assert self.model.goaway is not None or self.session.pongs == self.model.pongs
        self.reached["doubts"] += not self.model.sure

    def go_on(self, call: Call) -> None:
        """A call that is in order must be able to go on, however much of it there is.

        The peer completes its message, sends a glut of long ones, then many empty ones; the
        owner only takes what it has to.
        """
        rest = self.model.rest_of_message(call)
        if rest is None or not self.model.is_between:
            return
        if not call.answered:
            self.peer_sends(frame(h2.HEADERS, h2.END_HEADERS, call.id, h2.GOOD_HEADERS))
        stream = self.streams[call.id]
        long = b"\0" + LONGEST.to_bytes(4, "big") + PATTERN[:LONGEST]
        rest += 2 * long + bytes(5 * 300) + long
        before = len(call.taken)
        while rest and self.model.is_in_order(call):
            room = WINDOW + call.credited - call.flow
            for _ in range(2):
                if room <= 0:
                    self.take(stream)
                    self.flush_all()
                    room = WINDOW + call.credited - call.flow
            assert room > 0, "the call is stuck"
            part, rest = rest[: min(room, 800)], rest[min(room, 800) :]
            self.peer_sends(frame(h2.DATA, 0, call.id, part))
            self.flush_all()
            if len(rest) < 4 * LONGEST // 3:
                self.take(stream)
        self.take(stream)
        self.take(stream)
        self.flush_all()
        assert len(call.taken) >= before + 303
        self.model.check_credit_is_returned(call)
        self.reached["gone on"] += 1

    def finish(self) -> None:
        """Passes everything on, abandons the session and looks once more."""
        uncork(self)
        in_order = [call for call in self.model.calls.values() if self.model.is_in_order(call)]
        if in_order and not self.over and not self.cut_off:
            self.flush_all()
            self.go_on(in_order[-1])
        for stream in self.streams.values():
            self.take(stream)
            self.take(stream)
        self.flush_all()
        for call in self.model.calls.values():
            self.model.check_credit_is_returned(call)
            self.reached["credited"] += call.credited
        self.check()
        if self.model.sure and not self.over and self.model.goaway is None:
            # Calls that never went out may wait in the queue for their turn to be dropped.
            ended = sum(call.ended and call.begun for call in self.model.calls.values())
            assert self.session.active <= len(self.model.calls) - ended, "a call was not let go"
            self.reached["in order"] += 1
        self.abandon()
        for action in (self.session.flush, self.session.on_readable):
            try:
                action()
            except SessionError:
                continue
            raise AssertionError("an abandoned session did something")
        self.heed(self.session.take_news())
        for stream in self.streams.values():
            self.take(stream)
            assert stream.take() == []


def any_stream(play: Play) -> int:
    """A stream's number: mostly of a call, now and then of none."""
    index = play.script.number()
    if index >= 250 or not play.streams:
        return index % 16
    return list(play.streams)[index % len(play.streams)]


def open_stream(play: Play) -> int:
    """A stream whose answer may go on: mostly, and if there is one, with its headers sent."""
    index = play.script.number()
    calls = [call for call in play.model.calls.values() if play.model.is_in_order(call)]
    if index >= 240 or not calls:
        return any_stream(play)
    call = calls[index % len(calls)]
    if not call.answered and play.corked is None:
        play.send(frame(h2.HEADERS, h2.END_HEADERS, call.id, h2.GOOD_HEADERS))
    return call.id


def any_call(play: Play) -> Stream | None:
    """One of the calls, if there are any."""
    return play.script.choice(list(play.streams.values())) if play.streams else None


def send_junk(play: Play) -> None:
    play.send(play.script.blob())


def send_any_frame(play: Play) -> None:
    kind, flags = play.script.number() % 17, play.script.number()
    play.send(frame(kind, flags, any_stream(play), play.script.blob()))


def send_settings(play: Play) -> None:
    script = play.script
    values = b""
    for _ in range(script.number() % 4):
        name = script.choice((1, 3, 4, 6, 3, 4, 3, 4, 3, 4, 5, 2, 9))
        # Small, middling, or anything.
        value = script.choice((script.number() % 8, 1000, 30_000, 70_000, script.number(4)))
        values += name.to_bytes(2, "big") + value.to_bytes(4, "big")
    play.send(frame(h2.SETTINGS, 0, 0, values))


def send_headers(play: Play) -> None:
    unanswered = [call.id for call in play.model.calls.values() if call.begun and not call.answered]
    stream = play.script.choice(unanswered) if unanswered else any_stream(play)
    play.send(frame(h2.HEADERS, h2.END_HEADERS, stream, h2.GOOD_HEADERS))


def send_trailers(play: Play) -> None:
    flags = h2.END_HEADERS | h2.END_STREAM
    play.send(frame(h2.HEADERS, flags, open_stream(play), h2.GOOD_TRAILERS))


def send_any_headers(play: Play) -> None:
    """Literals of any name and value, perhaps very many, perhaps in several frames."""
    script = play.script
    stream = any_stream(play)
    flags = script.choice((0, h2.END_STREAM))
    block = script.choice((b"", h2.GOOD_HEADERS))
    for _ in range(script.number() % 4):
        name = script.choice((b"grpc-status", b"grpc-message", b":status", b"x", script.blob()))
        value = script.choice((b"0", b"200", b"100", script.blob()))
        block += b"\x10" + bytes((len(name),)) + name + bytes((len(value),)) + value
    block += b"\x10\x01a\x01b" * script.choice((0, 0, 0, 40, 70, 5000))
    cut = script.number(2)
    if cut < len(block):
        play.send(frame(h2.HEADERS, flags, stream, block[:cut]))
        play.send(frame(h2.CONTINUATION, h2.END_HEADERS, stream, block[cut:]))
    else:
        play.send(frame(h2.HEADERS, flags | h2.END_HEADERS, stream, block))


def send_any_block(play: Play) -> None:
    stream = any_stream(play)
    flags = h2.END_HEADERS | play.script.choice((0, h2.END_STREAM))
    play.send(frame(h2.HEADERS, flags, stream, play.script.blob()))


def data_frame(play: Play, stream: int, content: bytes) -> bytes:
    """DATA, padded now and then."""
    pad = play.script.number()
    if pad < 192:
        return frame(h2.DATA, 0, stream, content)
    pad -= 192
    return frame(h2.DATA, h2.PADDED, stream, bytes((pad,)) + content + bytes(pad))


def send_messages(play: Play) -> None:
    """Well-formed messages, as they are cut by frames that know nothing of them.

    Not more than the stream's window lets through, unless the script says so.
    """
    script = play.script
    stream = open_stream(play)
    rest = play.backlog.get(stream, b"")
    for _ in range(script.number() % 4):
        size = script.length(LONGEST)
        start = script.number()
        rest += b"\0" + size.to_bytes(4, "big") + PATTERN[start : start + size]
    most = len(rest)
    call = play.model.calls.get(stream)
    if call is not None and script.number() < 250:
        most = min(most, WINDOW + call.credited - call.flow - 64)
    largest = 1 + script.length(4000)
    at = 0
    sent = b""
    # A frame of one byte each would make a slow input of a long message.
    for _ in range(32):
        size = min(largest, most - at)
        if size <= 0:
            break
        sent += data_frame(play, stream, rest[at : at + size])
        at += size
    play.backlog[stream] = rest[at:]
    if sent:
        play.send(sent)


def send_any_data(play: Play) -> None:
    """Content that is no messages, unless by chance."""
    script = play.script
    stream = open_stream(play)
    prefix = script.choice((b"", b"\0", b"\0\0\0\0\0", b"\1\0\0\0\0", b"\0\0\0\x17\x71", b"\0\xff"))
    play.send(data_frame(play, stream, prefix + script.blob()))


def send_last_data(play: Play) -> None:
    play.send(frame(h2.DATA, h2.END_STREAM, open_stream(play), play.script.blob()[:8]))


def send_reset(play: Play) -> None:
    play.send(frame(h2.RST_STREAM, 0, any_stream(play), bytes(3) + play.script.take(1)))


def send_goaway(play: Play) -> None:
    script = play.script
    last = script.choice((2**31 - 1, any_stream(play), 0, script.number(4)))
    play.send(frame(h2.GOAWAY, 0, 0, last.to_bytes(4, "big") + bytes(4) + script.blob()))


def send_ping(play: Play) -> None:
    play.send(frame(h2.PING, play.script.choice((0, h2.ACK)), 0, b"12345678"))


def send_window(play: Play) -> None:
    stream = play.script.choice((0, any_stream(play)))
    size = play.script.choice((1, 100, 1000, 10_000, 100_000, play.script.number(4)))
    play.send(frame(h2.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big")))


def cork(play: Play) -> None:
    """From here on the peer keeps what it sends."""
    if play.corked is None:
        play.corked = bytearray()


def send_part(play: Play) -> None:
    """Sends some of what was kept, which may end anywhere in a frame."""
    if play.corked is not None:
        size = play.script.length(5000)
        part = bytes(play.corked[:size])
        del play.corked[:size]
        play.peer_sends(part)


def uncork(play: Play) -> None:
    if play.corked is not None:
        part, play.corked = bytes(play.corked), None
        # No more at once than the socket pair has room for.
        for at in range(0, len(part), 65536):
            play.peer_sends(part[at : at + 65536])


def interrupt(play: Play) -> None:
    """The owner does something while a frame is half there."""
    cork(play)
    play.script.choice(SENDING)(play)
    send_part(play)
    play.script.choice((cancel_one, cancel_one, take_one, flush_once, begin, hang_up))(play)
    uncork(play)


def shut(play: Play) -> None:
    """A socket is shut: the session may notice it in reading or in writing."""
    sock = play.script.choice((play.ours, play.peer))
    if not play.cut_off:
        sock.shutdown(play.script.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
        play.cut_off = True
        play.guarded(play.session.on_readable)


def begin(play: Play) -> None:
    play.open(play.script.choice((0, 10, 3000, 10, LARGE, 2 * LARGE)))


def cancel_one(play: Play) -> None:
    stream = any_call(play)
    if stream is not None:
        play.cancel(stream)


def take_one(play: Play) -> None:
    stream = any_call(play)
    if stream is not None:
        play.take(stream)


def flush_once(play: Play) -> None:
    play.flush()


def ping(play: Play) -> None:
    play.session.ping()


def hang_up(play: Play) -> None:
    # Rarely: little can happen afterwards.
    if play.script.number() < 32:
        play.hang_up()


def abandon(play: Play) -> None:
    if play.script.number() < 16:
        play.abandon()


def collect(play: Play) -> None:
    """The collector may run at any time, and must not free what nghttp2 points at."""
    gc.collect(0)


SENDING = (
    send_messages,
    send_headers,
    send_trailers,
    send_last_data,
    send_any_data,
    send_any_headers,
    send_goaway,
    send_settings,
)

# What keeps a connection going is there more than once: chance should not end it too soon.
ACTIONS: tuple[Callable[[Play], None], ...] = (
    *(send_messages, take_one, flush_once) * 6,
    *(begin, send_headers, uncork, interrupt) * 3,
    *(cork, send_part, send_ping, cancel_one, send_window, send_settings) * 2,
    send_trailers,
    send_last_data,
    send_any_data,
    send_reset,
    send_goaway,
    send_any_headers,
    send_any_block,
    send_any_frame,
    send_junk,
    ping,
    shut,
    hang_up,
    abandon,
    collect,
)


def one_input(data: bytes) -> Counter[str]:
    """Plays one script."""
    play = Play(Script(data))
    try:
        play.run()
    finally:
        play.close()
    return play.reached


if __name__ == "__main__":
    fuzz(one_input)
