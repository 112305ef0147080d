"""What a session must have made of the bytes that a peer has sent it.

Strategy: the model reads the same bytes as the session, frame by frame, and keeps two
bounds for each call. What the session has taken out of DATA is never more than a beginning
of all that the peer sent for the call; and never less than what the peer sent while it was
beyond doubt that both the call and the connection were in order. It knows only the plainest
traffic to be in order. At the first frame that it cannot vouch for, the connection (or the
call) is in doubt from there on: the session may end it or go on, and only the upper bound,
the credit and the memory are checked. Fuzzed input gets into doubt soon enough by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = range(8)
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8

LARGEST_FRAME = 16384
CONNECTION_GRANT = 2**31 - 1 - 65535
PREFIX_SIZE = 5

# Blocks of literals that enter no table: each stands for itself.
GOOD_HEADERS = b"\x88\x0f\x10\x10application/grpc"
GOOD_TRAILERS = b"\x00\x0bgrpc-status\x010"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """An HTTP/2 frame."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


class Frames:
    """Cuts a stream of bytes into frames. DATA is reported as it comes, others when complete.

    Args:
        on_frame: Gets (kind, flags, stream, payload) of each complete frame; of DATA, none.
        on_data: Gets (flags, stream, size of the payload, where in it the part is, part). The
            first part may be empty: only the frame's head has come.

    Attributes:
        is_inside: Whether the last that came is the beginning of a frame other than DATA.
    """

    def __init__(
        self,
        on_frame: Callable[[int, int, int, bytes], None],
        on_data: Callable[[int, int, int, int, bytes], None],
    ) -> None:
        self._on_frame = on_frame
        self._on_data = on_data
        self.is_inside = False
        self._waiting = bytearray()
        self._at = 0  # how much of a DATA frame's payload has been reported

    @property
    def is_between(self) -> bool:
        """Whether the next byte begins a frame."""
        return not self._waiting

    def feed(self, part: bytes) -> None:
        """Reads on."""
        self.is_inside = False
        waiting = self._waiting
        waiting += part
        while len(waiting) >= 9:
            size = int.from_bytes(waiting[:3], "big")
            kind, flags = waiting[3:5]
            stream = int.from_bytes(waiting[5:9], "big") & 0x7FFFFFFF
            payload = bytes(waiting[9 : 9 + size - self._at])
            if kind == DATA:
                # The head stays where it is until the frame is complete.
                del waiting[9 : 9 + len(payload)]
                self._on_data(flags, stream, size, self._at, payload)
                self._at += len(payload)
                if self._at < size:
                    return
                self._at = 0
                payload = b""
            elif len(payload) < size:
                self.is_inside = True
                return
            del waiting[: 9 + len(payload)]
            self._on_frame(kind, flags, stream, payload)


@dataclass
class Call:
    """What is known of one call."""

    id: int
    request: bytes
    asked: int = 0  # bytes of the request that the peer has got
    begun: bool = False  # the peer knows of it
    answered: bool = False  # the HEADERS of the answer have come
    done: bool = False  # the peer has said that nothing more comes
    ended: bool = False  # nothing that comes from here on is for the call
    cancelled: bool = False
    sure: bool = True
    content: bytearray = field(default_factory=bytearray)  # of its DATA
    sure_size: int = 0  # of the beginning of `content` that has surely arrived
    most_size: int | None = None  # of what can have arrived, once it has ended
    flow: int = 0  # bytes that count for flow control
    credited: int = 0
    taken: list[bytes] = field(default_factory=list)
    passed_on: int = 0  # how many of those a second take() has followed
    messages: list[bytes] = field(default_factory=list)  # of `content`, those complete
    ends: list[int] = field(default_factory=list)  # where in it each of them ends
    broken: bool = False  # what follows them is no message

    def add(self, content: bytes, longest: int) -> None:
        """Content has come."""
        self.content += content
        at = self.ends[-1] if self.ends else 0
        while not self.broken and at + PREFIX_SIZE <= len(self.content):
            size = int.from_bytes(self.content[at + 1 : at + PREFIX_SIZE], "big")
            self.broken = self.content[at] != 0 or size > longest
            begin, at = at + PREFIX_SIZE, at + PREFIX_SIZE + size
            if self.broken or at > len(self.content):
                break
            self.messages.append(bytes(self.content[begin:at]))
            self.ends.append(at)

    @property
    def rest(self) -> bytes:
        """What follows the messages that are complete."""
        return bytes(self.content[self.ends[-1] if self.ends else 0 :])

    def end(self) -> None:
        """Nothing that comes from here on is for the call."""
        self.ended = True
        if self.most_size is None:
            self.most_size = len(self.content)


class Model:
    """The connection as the peer and the session must both see it.

    Args:
        window: The session's, of each stream.
        longest: The session's max_message.
    """

    def __init__(self, window: int, longest: int) -> None:
        self.window = window
        # A message that is longer may be credited while it arrives.
        self.most_owed = window // 2 - min(16384, window // 16)
        self.longest = longest
        self.calls: dict[int, Call] = {}
        self._in_order = True
        self.closing = False  # the session has said that it goes
        self.goaway: tuple[int, int, bytes] | None = None
        self.pongs = 0
        # The session begins with a grant for the connection that nothing has been received for.
        self.flow = CONNECTION_GRANT
        self.credited = 0
        self.moved: set[int] = set()  # calls that surely have news, until cleared
        self._unacknowledged = 0  # settings of the session
        self._pad = 0  # of the DATA frame that is arriving
        self._given = 65535  # at most: the window of any stream, were there no sending
        self._sent = Frames(self._on_sent, self._on_sent_data)
        self._heard = Frames(self._on_heard, self._on_heard_data)

    # What the peer sends.

    def deliver(self, part: bytes) -> None:
        """The session has read these bytes."""
        self._sent.feed(part)

    @property
    def is_between(self) -> bool:
        """Whether the peer's next byte begins a frame."""
        return self._sent.is_between

    @property
    def sure(self) -> bool:
        """Whether the connection is beyond doubt in order.

        Of a frame that is not complete nobody knows; the session may dislike its beginning.
        """
        return self._in_order and not self._sent.is_inside

    def doubt(self) -> None:
        """From here on nobody knows whether the connection is in order."""
        self._in_order = False

    def _open_call(self, stream: int) -> Call | None:
        """The call, if the peer may still send something for it."""
        call = self.calls.get(stream)
        return call if call is not None and call.begun and not call.done else None

    def _on_sent_data(self, flags: int, stream: int, size: int, at: int, part: bytes) -> None:
        call = self.calls.get(stream)
        if at == 0:
            known = self._open_call(stream)
            if size > LARGEST_FRAME or known is None or not known.answered:
                self.doubt()
            elif known.flow + size > self.window + known.credited:
                known.sure = False
            self._pad = part[0] if flags & PADDED and part else 0
            if flags & PADDED and (size == 0 or self._pad >= size):
                self.doubt()
        begin = 1 if flags & PADDED else 0
        content = part[max(begin - at, 0) : max(size - self._pad - at, 0)]
        self.flow += len(part)
        if call is None:
            return
        call.flow += len(part)
        call.add(content, self.longest)
        if content and self.sure and call.sure and not call.ended:
            self.moved.add(stream)
            call.sure_size = len(call.content)

    def _on_sent(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if self.goaway is not None and not any(map(self.is_in_order, self.calls.values())):
            # With nothing left to wait for, the session need not read on.
            self.doubt()
        if kind == HEADERS:
            self._on_sent_headers(flags, stream, payload)
        elif kind == DATA:
            call = self._open_call(stream)
            if flags & END_STREAM and call is not None:
                self._finish(call)
        elif kind == RST_STREAM and len(payload) == 4 and self._open_call(stream) is not None:
            self._finish(self.calls[stream])
        elif kind == WINDOW_UPDATE and len(payload) == 4:
            self._given += int.from_bytes(payload, "big")
            known = stream == 0 or self._open_call(stream) is not None
            if not known or self._given > 2**30 or payload == bytes(4):
                self.doubt()
        elif stream == 0 and kind == PING and len(payload) == 8:
            self.pongs += flags & ACK
        elif stream == 0 and kind == SETTINGS and flags & ACK and self._unacknowledged:
            self._unacknowledged -= 1
            if payload:
                self.doubt()
        elif stream == 0 and kind == SETTINGS and not flags & ACK and len(payload) % 6 == 0:
            self._on_sent_settings(payload)
        elif stream == 0 and kind == GOAWAY and len(payload) >= 8:
            self._on_sent_goaway(payload)
        else:
            self.doubt()

    def _finish(self, call: Call) -> None:
        if self.sure and call.sure and not call.ended:
            self.moved.add(call.id)
        call.done = True
        call.end()

    def _on_sent_headers(self, flags: int, stream: int, payload: bytes) -> None:
        call = self._open_call(stream)
        last = flags & END_STREAM
        if call is None or len(payload) > LARGEST_FRAME:
            self.doubt()
        elif flags & ~END_STREAM == END_HEADERS and payload == GOOD_HEADERS:
            if call.answered:
                call.sure = False
            call.answered = True
        elif flags & ~END_STREAM == END_HEADERS and payload == GOOD_TRAILERS:
            if not (call.answered and last):
                call.sure = False
        else:
            self.doubt()
        if call is not None and last:
            self._finish(call)

    def _on_sent_settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            value = int.from_bytes(payload[at + 2 : at + 6], "big")
            if name == 4:  # INITIAL_WINDOW_SIZE
                self._given += value
            if (
                name not in (1, 3, 4, 5, 6)
                or self._given > 2**30
                or (name == 5 and not LARGEST_FRAME <= value < 2**24)
            ):
                self.doubt()

    def _on_sent_goaway(self, payload: bytes) -> None:
        last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        most = self.goaway[0] if self.goaway is not None else 2**31 - 1
        if (last and last % 2 == 0) or last > most or len(payload) > LARGEST_FRAME:
            self.doubt()
        if self.sure:
            self.goaway = last, int.from_bytes(payload[4:8], "big"), payload[8:]
        for call in self.calls.values():
            if call.id > last or not call.begun:
                call.sure = False

    # What the session sends.

    def hear(self, part: bytes) -> None:
        """The peer has read these bytes."""
        self._heard.feed(part)

    def _on_heard(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        call = self.calls.get(stream)
        if kind == WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            if stream == 0:
                self.credited += increment
            else:
                assert call is not None, stream
                call.credited += increment
        elif kind == HEADERS:
            assert call is not None, stream
            assert not call.begun
            call.begun = True
        elif kind == RST_STREAM:
            assert call is not None, stream
            assert call.begun
            legal = call.cancelled or call.ended or not call.sure or not self.sure
            assert legal or call.broken, "a call in order was reset"
            call.end()
        elif kind == GOAWAY:
            assert self.closing or not self.sure, f"a connection in order was ended: {payload!r}"
            self.closing = True
            self.doubt()
        elif kind == SETTINGS and not flags & ACK:
            self._unacknowledged += 1
        elif kind == DATA and flags & END_STREAM:
            assert call is not None, stream
            assert call.asked == len(call.request), "the request was cut"

    def _on_heard_data(self, flags: int, stream: int, size: int, at: int, part: bytes) -> None:
        call = self.calls[stream]
        assert call.begun
        assert call.request.startswith(part, call.asked), "the request was garbled"
        call.asked += len(part)

    # What must hold.

    def check_taken(self, call: Call, messages: list[bytes]) -> None:
        """What is taken now is what came, no less and no more."""
        before, after = len(call.taken), len(call.taken) + len(messages)
        assert messages == call.messages[before:after], "a message that was not sent"
        ended_at = len(call.content) if call.most_size is None else call.most_size
        assert after <= bisect_right(call.ends, ended_at), "a message from after the end"
        assert after >= bisect_right(call.ends, call.sure_size), "a message was lost"

    def check_credit(self) -> None:
        """No credit for what has not come, or (long messages aside) was not passed on."""
        assert self.credited <= self.flow, "credit for the connection that is not due"
        for call in self.calls.values():
            kept = sum(
                PREFIX_SIZE + len(message)
                for message in call.messages[call.passed_on :]
                if PREFIX_SIZE + len(message) <= self.most_owed
            )
            if not call.broken and self._is_short(call.rest):
                kept += len(call.rest)
            assert call.credited <= max(call.flow - kept, 0), "credit for what was not passed on"
            if self.is_in_order(call) and not call.broken:
                # One long message, credited while it arrived, and a window behind it.
                held = len(call.content) - (call.ends[len(call.taken) - 1] if call.taken else 0)
                assert held <= self.window + PREFIX_SIZE + self.longest, "no bound to what waits"

    def check_credit_is_returned(self, call: Call) -> None:
        """A call whose messages all have been passed on can go on; after two take()s."""
        if self.is_in_order(call) and not call.broken:
            owed = call.flow - call.credited - len(call.rest)
            assert owed <= self.window // 2, "credit was lost"
            assert call.flow - call.credited < self.window, "the peer waits for ever"

    def is_in_order(self, call: Call) -> bool:
        """Whether the call is beyond doubt open."""
        return self.sure and call.sure and call.begun and not call.ended

    def rest_of_message(self, call: Call) -> bytes | None:
        """What completes the message that the call's content ends in, if that can be done."""
        rest = call.rest
        if not rest:
            return b""
        head = rest[:PREFIX_SIZE].ljust(PREFIX_SIZE, b"\0")
        wanted = PREFIX_SIZE + int.from_bytes(head[1:], "big")
        possible = not call.broken and rest[0] == 0 and wanted <= PREFIX_SIZE + self.longest
        return bytes(wanted - len(rest)) if possible else None

    def _is_short(self, rest: bytes) -> bool:
        """Whether this beginning belongs to a message that may not be credited before it ends."""
        if len(rest) < PREFIX_SIZE:
            return True
        size = int.from_bytes(rest[1:PREFIX_SIZE], "big")
        return PREFIX_SIZE + size <= self.most_owed
