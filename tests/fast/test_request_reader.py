"""Plain requests are read as gunicorn reads them; all others are left to it, byte for byte."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.unreader import IterUnreader
from gunicorn.http.wsgi import create
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter._fast.request_reader import RequestReader

PEER = ("127.0.0.1", 1)
SERVER = ("127.0.0.1", 8080)
LIMITS = (4094, 100, 8190, 65536)
HTTPS = {
    "HTTP_X_FORWARDED_PROTOCOL": "ssl",
    "HTTP_X_FORWARDED_PROTO": "https",
    "HTTP_X_FORWARDED_SSL": "on",
}
BASE = {
    "wsgi.url_scheme": "http",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "SCRIPT_NAME": "",
    "REMOTE_ADDR": PEER[0],
    "REMOTE_PORT": str(PEER[1]),
    "SERVER_NAME": SERVER[0],
    "SERVER_PORT": str(SERVER[1]),
}
PLAIN = (
    b"POST /v1/chat/completions?a=1&b=%20 HTTP/1.1\r\n"
    b"Host: example.org:8080\r\nUser-Agent: x/1 (y; z)\r\nAccept: */*\r\nX-Empty:\r\n"
    b"Authorization: Bearer \tabc \r\ncontent-type: application/json\r\nContent-Length: 4\r\n\r\n"
)

# What a request comes to: environment, body, whether the connection closes, what follows.
Read = tuple[dict[str, Any], bytes, bool, bytes]


def config() -> Config:
    cfg = Config()
    cfg.set("http_parser", "python")
    return cfg


@pytest.fixture(scope="module")
def sock() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def gunicorn_reads(data: bytes, sock: socket.socket) -> Read | type[BaseException]:
    """What gunicorn makes of it, or the error."""
    try:
        request = Request(config(), IterUnreader([data]), PEER)
        _, environ = create(request, sock, PEER, SERVER, config())
        body = request.body.read()
        if len(body) < int(environ.get("CONTENT_LENGTH", 0)):
            cut: type[BaseException] = NoMoreData
            return cut
        kept = {key: environ[key] for key in environ if "wsgi" not in key and "gunicorn" not in key}
        kept["wsgi.url_scheme"] = environ["wsgi.url_scheme"]
        del kept["SERVER_SOFTWARE"]
        return kept, body, request.should_close(), request.unreader.read()
    except (ParseException, OSError, StopIteration) as exc:
        error: type[BaseException] = type(exc)
        return error


def we_read(pieces: Sequence[bytes]) -> Read | Literal[False] | None:
    """What we make of it: a request, nothing of ours, or nothing yet."""
    reader = RequestReader(-1, BASE, HTTPS, LIMITS)
    for place, piece in enumerate(pieces):
        reader.feed(piece)
        environ = reader.next()
        if environ is False:
            # Nothing of it is lost, whatever was looked at.
            assert reader.take() == b"".join(pieces[: place + 1])
            assert reader.waiting == 0
            return False
        if environ is not None:
            body = environ.pop("wsgi.input").read()
            waiting = reader.waiting
            reader.forget()
            assert reader.waiting == waiting
            rest = reader.take()
            assert len(rest) == waiting
            return environ, body, reader.closes, rest + b"".join(pieces[place + 1 :])
    return None


def agree(pieces: Sequence[bytes], sock: socket.socket) -> Read | Literal[False] | None:
    """Has both read it: what we accept, gunicorn accepts, and in the same way."""
    ours, theirs = we_read(pieces), gunicorn_reads(b"".join(pieces), sock)
    if ours is None:
        assert theirs in (NoMoreData, StopIteration), theirs
    elif ours is not False:
        assert ours == theirs
    return ours


def test_a_plain_request_is_read(sock: socket.socket) -> None:
    read = agree([PLAIN + b"bodyGET"], sock)
    assert isinstance(read, tuple)
    environ, body, closes, rest = read
    assert (environ["REQUEST_METHOD"], environ["RAW_URI"]) == (
        "POST",
        "/v1/chat/completions?a=1&b=%20",
    )
    assert (environ["PATH_INFO"], environ["QUERY_STRING"]) == ("/v1/chat/completions", "a=1&b=%20")
    assert environ["HTTP_AUTHORIZATION"] == "Bearer \tabc"
    assert (body, closes, rest) == (b"body", False, b"GET")


@pytest.mark.parametrize("cut", range(1, len(PLAIN) + 4))
def test_a_request_in_two_pieces_is_the_same(sock: socket.socket, cut: int) -> None:
    whole = PLAIN + b"body"
    assert agree([whole[:cut], whole[cut:]], sock) == agree([whole], sock) != False  # noqa: E712


def test_a_request_byte_by_byte_is_the_same(sock: socket.socket) -> None:
    whole = PLAIN + b"body"
    assert agree([bytes([byte]) for byte in whole], sock) == agree([whole], sock)


def test_requests_that_are_sent_ahead_are_read_one_after_the_other() -> None:
    reader = RequestReader(-1, BASE, HTTPS, LIMITS)
    reader.feed((PLAIN + b"body") * 300 + b"GET /last HTTP/1.1\r\nHost: a\r\n\r\nrest")
    for _ in range(300):
        environ = reader.next()
        assert environ
        assert environ["wsgi.input"].read() == b"body"
        reader.forget()
    environ = reader.next()
    assert environ
    assert environ["PATH_INFO"] == "/last"
    # Until it is dealt with it could still be handed over as a whole.
    assert reader.take() == b"GET /last HTTP/1.1\r\nHost: a\r\n\r\nrest"
    assert reader.next() is None


def test_a_body_that_is_not_complete_is_waited_for() -> None:
    reader = RequestReader(-1, BASE, HTTPS, LIMITS)
    reader.feed(PLAIN + b"bo")
    assert reader.next() is None
    assert reader.has_head
    reader.feed(b"dy")
    environ = reader.next()
    assert environ
    assert environ["wsgi.input"].read() == b"body"
    assert not reader.has_head


def test_what_a_socket_has_is_received() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reader = RequestReader(ours.fileno(), BASE, HTTPS, LIMITS)
        assert reader.fill() == -1
        theirs.sendall(PLAIN + b"body")
        assert reader.fill() == len(PLAIN) + 4
        assert reader.next()
        theirs.close()
        assert reader.fill() == 0


def test_a_peer_that_is_not_trusted_says_nothing_of_the_scheme() -> None:
    reader = RequestReader(-1, BASE, {}, LIMITS)
    reader.feed(b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n")
    environ = reader.next()
    assert environ
    assert environ["wsgi.url_scheme"] == "http"


@pytest.mark.parametrize(
    ("value", "scheme"), [(b"https", "https"), (b"http", "http"), (b"HTTPS", "http")]
)
def test_a_peer_that_is_trusted_names_the_scheme(
    sock: socket.socket, value: bytes, scheme: str
) -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: " + value + b"\r\n\r\n"
    read = agree([head], sock)
    assert isinstance(read, tuple)
    assert read[0]["wsgi.url_scheme"] == scheme


@pytest.mark.parametrize(("value", "closes"), [(b"close", True), (b"Keep-Alive", False)])
def test_a_client_says_whether_the_connection_closes(
    sock: socket.socket, value: bytes, closes: bool
) -> None:
    read = agree([b"GET / HTTP/1.1\r\nHost: a\r\nConnection: " + value + b"\r\n\r\n"], sock)
    assert isinstance(read, tuple)
    assert read[2] is closes


# What proxies and servers have been made to disagree about.
SMUGGLED = {
    "two lengths": b"Content-Length: 4\r\nContent-Length: 40",
    "the same length twice": b"Content-Length: 4\r\nContent-Length: 4",
    "a list of lengths": b"Content-Length: 4, 4",
    "a length with a sign": b"Content-Length: +4",
    "a length in hexadecimal": b"Content-Length: 0x4",
    "a length with a space in it": b"Content-Length: 4 0",
    "a length with an underscore": b"Content-Length: 4_0",
    "a length of other digits": "Content-Length: \u0664".encode(),
    "a length beyond all bounds": b"Content-Length: 99999999999999999999",
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    "chunks of an odd name": b"Content-Length: 4\r\nTransfer-Encoding: xchunked",
    "chunks in capitals": b"Content-Length: 4\r\ntRANSFER-eNCODING: CHUNKED",
    "a space before the colon": b"Content-Length: 4\r\nTransfer-Encoding : chunked",
    "a tab before the name": b"Content-Length: 4\r\n\tTransfer-Encoding: chunked",
    "a folded line": b"Content-Length: 4\r\nX: y\r\n Transfer-Encoding: chunked",
    "a bare line feed": b"Content-Length: 4\r\nX: y\nTransfer-Encoding: chunked",
    "a bare carriage return": b"Content-Length: 4\r\nX: y\rTransfer-Encoding: chunked",
    "a vertical tab": b"Content-Length: 4\r\nX: y\x0bTransfer-Encoding: chunked",
    "a zero byte": b"Content-Length: 4\r\nX: y\x00",
    "an underscore for a hyphen": b"Content_Length: 4",
    "two hosts": b"Content-Length: 4\r\nHost: b",
    "two types": b"Content-Length: 4\r\nContent-Type: a\r\nContent-Type: b",
    "an upgrade": b"Content-Length: 4\r\nConnection: Upgrade\r\nUpgrade: h2c",
    "a connection of several words": b"Content-Length: 4\r\nConnection: close, keep-alive",
    "no length": b"X: y",
    "two schemes": b"Content-Length: 4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off",
}


@pytest.mark.parametrize("fields", SMUGGLED.values(), ids=SMUGGLED)
def test_what_could_be_read_in_two_ways_is_not_plain(sock: socket.socket, fields: bytes) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n\r\n"
    assert agree([head + b"bodyGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"], sock) is False


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
def test_odd_heads_are_read_as_gunicorn_does_or_left_to_it(
    sock: socket.socket, head: bytes
) -> None:
    for host in (b"", b"Host: h\r\n"):
        line, _, rest = head.partition(b"\r\n")
        agree([line + b"\r\n" + host + rest + b"GET /next HTTP/1.1\r\n\r\n"], sock)


WORDS = (
    b"GET POST / /a ?b=c # HTTP/1.1 HTTP/1.0 Host: A: B-c: d_e: Content-Length: 3 5 x chunked "
    b"Transfer-Encoding: Connection: close keep-alive Expect: 100-continue X-Forwarded-Proto: "
    b"https http Host Content-Type:"
)
MARKS = (b" ", b"\t", b"\r\n", b"\r\n", b"\r\n\r\n", b"\n", b"\r", b":", b"\x00", b"\xff", b"~")
fragments = st.sampled_from([*WORDS.split(), *MARKS])


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.lists(fragments, max_size=25).map(b"".join), st.integers(0, 200))
def test_scrambled_heads_are_read_as_gunicorn_does_or_left_to_it(tail: bytes, cut: int) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + tail + b"\r\n\r\n"
    with socket.socket() as unused:
        agree([head[:cut], head[cut:]] if 0 < cut < len(head) else [head], unused)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(
    st.integers(0, len(PLAIN) - 1),
    st.one_of(st.just(b""), st.binary(min_size=1, max_size=3), fragments),
)
def test_one_change_to_a_plain_request_makes_no_difference_between_the_two(
    at: int, change: bytes
) -> None:
    with socket.socket() as unused:
        agree([PLAIN[:at] + change + PLAIN[at + 1 :] + b"body"], unused)
