"""Bodies written to a real socket, whole and in part."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from sglrouter._fast.chunked import BodyWriter


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize(
    ("head", "body", "chunked", "last", "expected"),
    [
        (b"", b"abc", True, False, b"3\r\nabc\r\n"),
        (b"", b"x" * 300, True, False, b"12c\r\n" + b"x" * 300 + b"\r\n"),
        (b"H\r\n\r\n", b"abc", True, True, b"H\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        (b"", b"", True, True, b"0\r\n\r\n"),
        (b"H\r\n\r\n", b"", True, False, b"H\r\n\r\n"),
        (b"H\r\n\r\n", b"abc", False, True, b"H\r\n\r\nabc"),
        (b"", b"abc", False, False, b"abc"),
    ],
)
def test_framing(
    pair: tuple[socket.socket, socket.socket],
    head: bytes,
    body: bytes,
    chunked: bool,
    last: bool,
    expected: bytes,
) -> None:
    ours, theirs = pair
    writer = BodyWriter(ours.fileno(), chunked)
    assert writer.write(body, last, head)
    assert (writer.written, writer.kept) == (len(body), b"")
    ours.shutdown(socket.SHUT_WR)
    received = b""
    while piece := theirs.recv(65536):
        received += piece
    assert received == expected


def test_nothing_is_written_for_nothing(pair: tuple[socket.socket, socket.socket]) -> None:
    assert BodyWriter(pair[0].fileno(), True).write(b"")
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pair[1].recv(1)


def test_what_the_socket_does_not_take_is_kept_framed(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    body = bytes(range(256)) * 40_000
    writer = BodyWriter(ours.fileno(), True)
    assert not writer.write(body, head=b"head")
    assert not writer.write(b"more")
    assert not writer.write(b"last", last=True)
    rest = writer.take_kept()
    assert (writer.written, writer.kept) == (len(body) + 8, b"")
    expected = b"head%x\r\n%b\r\n4\r\nmore\r\n4\r\nlast\r\n0\r\n\r\n" % (len(body), body)
    received = b""
    while len(received) < len(expected) - len(rest):
        received += theirs.recv(1 << 20)
    assert received + rest == expected


def test_the_time_of_the_last_write_is_known(pair: tuple[socket.socket, socket.socket]) -> None:
    writer = BodyWriter(pair[0].fileno(), False)
    assert writer.written_at == 0
    before = time.monotonic()
    writer.write(b"x")
    assert before <= writer.written_at <= time.monotonic()


def test_a_client_that_is_gone_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(BrokenPipeError):
        BodyWriter(ours.fileno(), True).write(b"abc")
