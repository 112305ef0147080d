"""The native channel and what peers may answer: split, cut, broken, or not gRPC at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from gevent.monkey import is_module_patched

from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel import http2_connection
from sglrouter.engines.channel.channel import ChannelOptions, Status
from sglrouter.engines.channel.http2 import Http2Channel
from tests.engines import frames
from tests.engines.calls import Followed
from tests.engines.frames import answer, data, framed, headers, trailers
from tests.engines.peer import Peer, PeerConnection, wait_until
from tests.patience import PATIENCE

if not is_module_patched("threading"):
    pytest.skip("run by tests.engines.channel.under_gevent", allow_module_level=True)

WINDOW = ChannelOptions().window


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


@pytest.fixture
def channel(peer: Peer) -> Iterator[Http2Channel]:
    channel = Http2Channel(parse_endpoint(peer.address))
    yield channel
    channel.close()


def ended(peer: Peer, channel: Http2Channel, *sent: bytes) -> tuple[Status, list[bytes]]:
    """Makes a call, sends frames for stream 1 as its answer, and returns how it ended."""
    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    for part in sent:
        connection.send(part)
    messages = followed.drain()
    return followed.status, messages


def works(peer: Peer, channel: Http2Channel) -> bool:
    """Whether the connection still serves calls."""
    connection = peer.connections[-1]
    seen = len(connection.opened())
    followed = Followed(channel)
    wait_until(lambda: len(connection.opened()) > seen, "the next call")
    connection.send(answer(connection.opened()[-1], b"fine"))
    return followed.drain() == [b"fine"] and followed.status.ok


OK = Status("OK", "")
SEVERAL = [b"", b"a", b"b" * 300, b"", b"c" * 20000]


@pytest.mark.parametrize("end_with_data", [False, True])
def test_messages_in_one_piece(peer: Peer, channel: Http2Channel, end_with_data: bool) -> None:
    assert ended(peer, channel, answer(1, *SEVERAL)) == (OK, SEVERAL)


def test_one_byte_in_a_frame(peer: Peer, channel: Http2Channel) -> None:
    content = framed(*SEVERAL[:4])
    sent = headers(1) + frames.in_data(1, content, [1] * len(content)) + trailers(1)
    assert ended(peer, channel, sent) == (OK, SEVERAL[:4])


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_prefix_is_cut_anywhere(peer: Peer, channel: Http2Channel, cut: int) -> None:
    content = framed(b"xyz", b"w")
    sent = headers(1) + data(1, content[:cut])
    assert ended(peer, channel, sent, data(1, content[cut:]) + trailers(1)) == (OK, [b"xyz", b"w"])


def test_padding_is_not_content_but_counts_as_credit(peer: Peer, channel: Http2Channel) -> None:
    part = data(1, framed(b"x" * 100), padding=250)
    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    connection.send(headers(1))
    count = 3 * WINDOW // 351
    sent = 0

    def may_send() -> bool:
        followed.call.take()
        return sent + 351 <= WINDOW + connection.credit(1)

    for _ in range(count):
        wait_until(may_send, "credit")
        connection.send(part)
        sent += 351
    connection.send(trailers(1))
    followed.drain()
    assert followed.status.ok


def test_a_long_message_is_credited_while_it_arrives(peer: Peer, channel: Http2Channel) -> None:
    message = bytes(range(256)) * (3 << 12)  # 3 MB
    content = framed(message)
    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    connection.send(headers(1))
    sent = 0

    def may_send() -> bool:
        return sent + 4000 <= WINDOW + connection.credit(1)

    while sent < len(content):
        wait_until(may_send, "credit")
        connection.send(data(1, content[sent : sent + 4000]))
        sent += 4000
    connection.send(trailers(1))
    assert followed.drain() == [message]


@pytest.mark.parametrize(("size", "code"), [(1000, "OK"), (1001, "INTERNAL")])
def test_the_limit_of_a_message(
    peer: Peer, channel: Http2Channel, monkeypatch: pytest.MonkeyPatch, size: int, code: str
) -> None:
    monkeypatch.setattr(http2_connection, "MAX_MESSAGE", 1000)
    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    connection.send(headers(1), data(1, framed(b"first", b"x" * size)))
    if code == "OK":
        connection.send(trailers(1))
        assert followed.drain() == [b"first", b"x" * size]
    else:
        # Before the message has come whole, and without a word more from the peer.
        assert followed.drain() == [b"first"]
        assert "1001 bytes is larger than 1000" in followed.status.message
        wait_until(lambda: connection.resets() == [(1, frames.CANCEL)], "the reset")
    assert followed.status.code == code


def test_a_compressed_message_is_refused(peer: Peer, channel: Http2Channel) -> None:
    status, messages = ended(peer, channel, headers(1) + data(1, b"\1\0\0\0\1x"))
    assert (status.code, messages) == ("INTERNAL", [])
    assert "compressed" in status.message
    assert works(peer, channel)


def test_trailers_only(peer: Peer, channel: Http2Channel) -> None:
    fields = [
        *frames.GRPC_HEADERS,
        ("grpc-status", "5"),
        ("grpc-message", "no%20such%20thing%zz"),
        ("grpc-status-details-bin", "CAU"),
    ]
    status, messages = ended(peer, channel, headers(1, fields, end=True))
    assert (status, messages) == (Status("NOT_FOUND", "no such thing%zz", b"CAU"), [])


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ([(":status", "503")], "UNAVAILABLE", "HTTP status 503"),
        ([(":status", "404"), ("content-type", "text/html")], "UNIMPLEMENTED", "404"),
        ([(":status", "200"), ("content-type", "text/html")], "UNKNOWN", "text/html"),
        (frames.GRPC_HEADERS, "UNKNOWN", "without a status"),
        ([*frames.GRPC_HEADERS, ("grpc-status", "x")], "UNKNOWN", "unknown grpc-status 'x'"),
        ([*frames.GRPC_HEADERS, ("grpc-status", "9" * 9000)], "UNKNOWN", "unknown grpc-status"),
    ],
)
def test_ends_that_are_not_grpcs(
    peer: Peer, channel: Http2Channel, fields: frames.Fields, code: str, words: str
) -> None:
    status, messages = ended(peer, channel, headers(1, fields) + data(1, b"", end=True))
    assert (status.code, messages) == (code, [])
    assert words in status.message
    assert works(peer, channel)


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        (frames.NO_ERROR, "UNKNOWN", "without a status"),
        (frames.PROTOCOL_ERROR, "INTERNAL", "PROTOCOL_ERROR (1)"),
        (frames.INTERNAL_ERROR, "INTERNAL", "INTERNAL_ERROR (2)"),
        (frames.REFUSED_STREAM, "UNAVAILABLE", "REFUSED_STREAM (7)"),
        (frames.CANCEL, "CANCELLED", "CANCEL (8)"),
        (frames.ENHANCE_YOUR_CALM, "UNAVAILABLE", "ENHANCE_YOUR_CALM (11)"),
        (frames.INADEQUATE_SECURITY, "PERMISSION_DENIED", "INADEQUATE_SECURITY (12)"),
    ],
)
def test_a_reset_after_the_headers(
    peer: Peer, channel: Http2Channel, code: int, name: str, words: str
) -> None:
    sent = headers(1) + data(1, framed(b"one") + b"\0\0") + frames.reset(1, code)
    status, messages = ended(peer, channel, sent)
    assert (status.code, messages) == (name, [b"one"])
    assert words in status.message
    assert works(peer, channel)


@pytest.mark.parametrize("rst", [False, True])
def test_a_connection_closed_inside_a_message(peer: Peer, channel: Http2Channel, rst: bool) -> None:
    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    connection.send(headers(1), data(1, framed(b"one") + b"\0\0\0"))
    assert followed.arrived.wait(5)
    connection.close(rst=rst)
    assert followed.drain() == [b"one"]
    assert followed.status.code == "UNAVAILABLE"
    assert f"the connection to grpc://{peer.address} ended" in followed.status.message


def test_a_connection_closed_together_with_the_last_data(peer: Peer, channel: Http2Channel) -> None:
    one, two = Followed(channel), Followed(channel)
    connection = peer.connection()
    connection.streams(2)
    # One read brings a good end, half a call, half a frame, and the end of the connection.
    connection.send(answer(1, b"whole"), headers(3), data(3, framed(b"a")), b"\0\0\x10\0\0")
    connection.close()
    assert (one.drain(), one.status) == ([b"whole"], OK)
    assert (two.drain(), two.status.code) == ([b"a"], "UNAVAILABLE")


def test_a_message_that_is_cut_by_a_good_end(peer: Peer, channel: Http2Channel) -> None:
    sent = headers(1) + data(1, framed(b"one") + b"\0\0\0\0\5abc") + trailers(1)
    status, messages = ended(peer, channel, sent)
    assert (status.code, messages) == ("INTERNAL", [b"one"])
    assert "inside a message" in status.message


def test_headers_without_end_are_refused(peer: Peer, channel: Http2Channel) -> None:
    many = [*frames.GRPC_HEADERS, *((f"x-{i}", "y") for i in range(1000))]
    status, _ = ended(peer, channel, headers(1, many))
    assert status.code == "INTERNAL"
    assert "more headers" in status.message
    assert works(peer, channel)


def test_a_malformed_header_ends_its_call(peer: Peer, channel: Http2Channel) -> None:
    status, _ = ended(peer, channel, headers(1, [*frames.GRPC_HEADERS, ("Upper Case", "x")]))
    assert status == Status("INTERNAL", "the stream was reset: PROTOCOL_ERROR (1)")
    assert works(peer, channel)


def test_a_huge_header_ends_well_or_ends_the_connection(peer: Peer, channel: Http2Channel) -> None:
    from hpack import Encoder
    from hyperframe.frame import ContinuationFrame, HeadersFrame

    block = Encoder().encode([*frames.GRPC_HEADERS, ("x", "y" * 1_000_000)], huffman=False)
    sent = HeadersFrame(1, block[:16384]).serialize()
    parts = range(16384, len(block), 16384)
    for at in parts:
        flags = ["END_HEADERS"] if at == parts[-1] else []
        sent += ContinuationFrame(1, block[at : at + 16384], flags=flags).serialize()
    status, _ = ended(peer, channel, sent + trailers(1))
    assert status.code in ("UNAVAILABLE", "INTERNAL")
    assert status.message


@pytest.mark.parametrize(
    "junk",
    [
        b"\0\0\1\0\0\0\0\0\0x",  # DATA on the connection
        frames.headers(2),  # a stream that we have not begun, nor the peer may
        frames.window(0, 0x7FFFFFFF),
        b"\0\0\x05\x04\0\0\0\0\0abcde",  # SETTINGS of a wrong size
        b"\xff\xff\xff\x00\0\0\0\0\1",  # a frame of 16 MB
        b"\0\0\x04\x01\x04\0\0\0\1\xff\xff\xff\xff",  # no HPACK
        b"\0\0\x09\x05\x04\0\0\0\1\0\0\0\2abcde",  # PUSH_PROMISE
    ],
    ids=["data", "stream", "window", "settings", "length", "hpack", "push"],
)
def test_frames_that_break_http2_end_the_connection(
    peer: Peer, channel: Http2Channel, junk: bytes
) -> None:
    status, messages = ended(peer, channel, junk)
    assert (status.code, messages) == ("UNAVAILABLE", [])
    assert "the peer broke HTTP/2" in status.message
    peer.connection().wait_for_end()
    followed = Followed(channel)
    connection = peer.connection(1)
    connection.streams()
    connection.send(answer(1, b"again"))
    assert followed.drain() == [b"again"]


def test_a_storm_of_pings_is_answered(peer: Peer, channel: Http2Channel) -> None:
    from hyperframe.frame import PingFrame

    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    for number in range(900):
        connection.send(frames.ping(number.to_bytes(8, "big")))
    wait_until(lambda: len(connection.of(PingFrame)) == 900, "the answers")
    assert [ping.opaque_data for ping in connection.of(PingFrame)] == [
        number.to_bytes(8, "big") for number in range(900)
    ]
    assert all("ACK" in ping.flags for ping in connection.of(PingFrame))
    connection.send(answer(1, b"fine"))
    assert followed.drain() == [b"fine"]


@pytest.mark.parametrize("storm", [frames.ping(), frames.settings(INITIAL_WINDOW_SIZE=1)])
def test_a_storm_in_one_piece_costs_the_peer_its_connection_at_most(
    peer: Peer, channel: Http2Channel, storm: bytes
) -> None:
    followed = Followed(channel)
    connection = peer.connection()
    connection.streams()
    with_end = b"".join([storm] * 20_000) + answer(1, b"fine")
    with contextlib.suppress(OSError):  # it may be cut off
        connection.send(with_end)
    messages = followed.drain()
    assert (messages == [b"fine"]) == followed.status.ok
    assert followed.status.code in ("OK", "UNAVAILABLE")


def test_an_early_end_does_not_wait_for_the_request(peer: Peer, channel: Http2Channel) -> None:
    followed = Followed(channel, bytes(500_000))  # more than the peer's first window
    connection = peer.connection()
    wait_until(lambda: connection.opened() == [1])
    fields = [*frames.GRPC_HEADERS, ("grpc-status", "8"), ("grpc-message", "too long")]
    connection.send(headers(1, fields, end=True))
    assert followed.drain() == []
    assert followed.status == Status("RESOURCE_EXHAUSTED", "too long")
    wait_until(lambda: connection.resets() == [(1, frames.NO_ERROR)], "the reset")


def test_a_large_request_waits_for_credit(peer: Peer, channel: Http2Channel) -> None:
    from hyperframe.frame import DataFrame

    followed = Followed(channel, bytes(range(256)) * 1000)
    connection = peer.connection()

    def received() -> bytes:
        return b"".join(frame.data for frame in connection.of(DataFrame))

    wait_until(lambda: len(received()) == 65535, "the first window")
    connection.send(frames.window(0, 1_000_000), frames.window(1, 10_000))
    wait_until(lambda: len(received()) == 75535, "ten thousand more")
    connection.send(frames.window(1, 1_000_000))
    connection.streams()
    assert received() == framed(bytes(range(256)) * 1000)
    connection.send(answer(1, b"got it"))
    assert followed.drain() == [b"got it"]


def test_a_unary_call_takes_one_answer(peer: Peer, channel: Http2Channel) -> None:
    import gevent

    def call() -> tuple[Status, bytes]:
        seen = sum(len(connection.opened()) for connection in peer.connections)
        calling = gevent.spawn(channel.unary, "/a/B", b"x", timeout=PATIENCE)
        connection = peer.connection()
        wait_until(lambda: len(connection.opened()) > seen, "the call")
        stream = connection.opened()[-1]
        connection.send(*(make(stream) for make in makers))
        result: tuple[Status, bytes] = calling.get(timeout=PATIENCE)
        return result

    makers: list[Callable[[int], bytes]] = [lambda stream: answer(stream, b"one")]
    assert call() == (OK, b"one")
    makers = [lambda stream: answer(stream)]
    assert call() == (Status("INTERNAL", "the engine sent 0 answers to one call"), b"")
    makers = [lambda stream: headers(stream) + data(stream, framed(b"1", b"2", b"3"))]
    assert call()[0].code == "INTERNAL"
    # It goes on and on: it is told to stop.
    wait_until(lambda: len(peer.connection().resets()) == 1, "the reset")


def test_every_byte_may_be_a_read_of_its_own(peer: Peer, channel: Http2Channel) -> None:
    import gevent

    followed = Followed(channel)
    connection: PeerConnection = peer.connection()
    connection.streams()
    for byte in answer(1, *SEVERAL[:4]):
        connection.send(bytes([byte]))
        gevent.sleep(0)
    assert followed.drain() == SEVERAL[:4]
    assert followed.status.ok
