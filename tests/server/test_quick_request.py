"""Heads read in compiled code are read as gunicorn reads them, or by gunicorn."""

from __future__ import annotations

from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter._fast.head import parse_head
from sglrouter.server.quick_request import QuickRequest

PEER = ("127.0.0.1", 1)
PLAIN = (
    b"POST /v1/chat/completions?a=1&b=%20 HTTP/1.1\r\n"
    b"Host: example.org:8080\r\nUser-Agent: x/1 (y; z)\r\nAccept: */*\r\nX-Empty:\r\n"
    b"Authorization: Bearer \tabc \r\ncontent-type: application/json\r\nContent-Length: 4\r\n\r\n"
)


def config() -> Config:
    cfg = Config()
    cfg.set("http_parser", "python")
    return cfg


def outcome(kind: type[Any], pieces: list[bytes]) -> tuple[Any, ...]:
    """All that a request shows, or how reading it fails."""
    try:
        request = kind(config(), IterUnreader(pieces), PEER)
        return (
            request.method,
            request.uri,
            request.path,
            request.query,
            request.fragment,
            request.version,
            request.headers,
            request.scheme,
            request._expected_100_continue,
            request.should_close(),
            request.body.read(),
            request.unreader.read(),
        )
    except (ParseException, OSError, StopIteration) as exc:
        return (type(exc),)


def same(pieces: list[bytes]) -> tuple[Any, ...]:
    ours = outcome(QuickRequest, pieces)
    assert ours == outcome(Request, pieces)
    return ours


def test_a_plain_head_is_read_in_compiled_code() -> None:
    parsed = parse_head(PLAIN + b"body", 4094, 100, 8190)
    assert parsed is not None
    method, target, path, query, headers, size = parsed
    assert (method, target) == ("POST", "/v1/chat/completions?a=1&b=%20")
    assert (path, query) == ("/v1/chat/completions", "a=1&b=%20")
    assert headers[0] == ("HOST", "example.org:8080")
    assert headers[4] == ("AUTHORIZATION", "Bearer \tabc")
    assert size == len(PLAIN)
    assert same([PLAIN + b"body", b"GET"])[-2:] == (b"body", b"GET")


@pytest.mark.parametrize("cut", range(1, len(PLAIN), 7))
def test_a_head_in_two_pieces_is_the_same(cut: int) -> None:
    assert same([PLAIN[:cut], PLAIN[cut:] + b"body"]) == same([PLAIN + b"body"])


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        b"GET /? HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a?b?c#d HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET //a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /[x HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a;b:c@d HTTP/1.1\r\nHost: a\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GE / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /\x80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: 1\r\nA: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Type: a\r\ncontent-type: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\nx",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nExpect: something\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Forwarded-Proto: https\r\n\r\n",
        b"GET / HTTP/1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off\r\n\r\n",
        b"GET / HTTP/1.1\r\nX_Forwarded_For: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nConnection: Keep-Alive\r\n\r\n",
        b"GET / HTTP/1.1\r\n: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nA\r\n\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\nB: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\x00c\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: caf\xe9\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 101 + b"\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"b" * 9000 + b"\r\n\r\n",
        b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"N" * 70 + b": b\r\n\r\n",
    ],
)
def test_odd_heads_are_read_or_refused_as_gunicorn_does(head: bytes) -> None:
    same([head + b"GET /next HTTP/1.1\r\n\r\n"])


WORDS = (
    b"GET POST / /a ?b=c # HTTP/1.1 HTTP/1.0 Host: A: B-c: d_e: Content-Length: 3 5 x chunked "
    b"Transfer-Encoding: Connection: close keep-alive Expect: 100-continue X-Forwarded-Proto: "
    b"https http Host Content-Type:"
)
MARKS = (b" ", b"\t", b"\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b":", b"\x00", b"\xff", b"~")
fragments = st.sampled_from([*WORDS.split(), *MARKS])


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.lists(fragments, max_size=25).map(b"".join), st.integers(0, 200))
def test_scrambled_heads_are_read_or_refused_as_gunicorn_does(tail: bytes, cut: int) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\n" + tail + b"\r\n\r\n"
    same([head[:cut], head[cut:]] if 0 < cut < len(head) else [head])


@settings(max_examples=400, derandomize=True, deadline=None)
@given(
    st.integers(0, len(PLAIN) - 1),
    st.one_of(st.just(b""), st.binary(min_size=1, max_size=3), fragments),
)
def test_one_change_to_a_plain_head_makes_no_difference_between_the_two(
    at: int, change: bytes
) -> None:
    same([PLAIN[:at] + change + PLAIN[at + 1 :] + b"body"])
