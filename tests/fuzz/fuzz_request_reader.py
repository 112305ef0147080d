"""Fuzzes the reader of plain requests against a regular expression that says the same.

Strategy: an input is either a request as it stands, or a list of pieces of requests: whole
lines come out right often enough for the limits and the fields to be reached. It is fed at
once and in two pieces, and what is read must be the same.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from sglrouter._fast.request_reader import RequestReader
from tests.fuzz.run import Script, fuzz

HEAD = re.compile(
    rb"(?P<line>(?P<method>GET|POST|PUT|PATCH|DELETE|OPTIONS) "
    rb"(?P<target>(?P<path>/(?!/)[!\"$->@-~]*)(?:\?(?P<query>[!\"$-~]*))?) HTTP/1\.1\r\n)"
    rb"(?P<fields>(?:[A-Za-z0-9-]{1,64}:[\t -~]*\r\n)*)\r\n"
)
PIECES = (
    b"GET ",
    b"POST /v1/x?a=b",
    b"POST /v1/%20 HTTP/1.1\r\nHost: a\r\n",
    b"CONNECT /",
    b" HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\n",
    b"Host: a:1\r\n",
    b"host:\r\n",
    b"accept:\t*/*  \r\n",
    b"X-A:\r\n",
    b"X-B: a\tb\r\n",
    b"Host: a:1\r\n\r\n",
    b"Content-Length: 3\r\n",
    b"content-length: 0\r\n\r\n",
    b"Content-Length: 5\r\n\r\nbody",
    b"Content-Length: +1\r\n",
    b"Connection: close\r\n",
    b"Connection: KEEP-alive\r\n",
    b"Connection: x\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"X-Forwarded-Proto: https\r\n",
    b"X-Forwarded-Ssl: off\r\n",
    b"Expect: 100-continue\r\n",
    b"X-Long: " + b"v" * 40,
    b"n" * 33,
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\n",
    b": ",
    b" ",
    b"\t",
    b"?",
    b"#",
    b"/",
)
HTTPS = {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_X_FORWARDED_SSL": "on"}
FOR_OTHERS = {
    "HTTP_TRANSFER_ENCODING",
    "HTTP_EXPECT",
    "HTTP_UPGRADE",
    "HTTP_HTTP2_SETTINGS",
    "HTTP_PROXY_CONNECTION",
}

Read = tuple[dict[str, Any], bytes, bool, bytes]


def specified(data: bytes, most_line: int, most_fields: int, most_field: int) -> Read | None:
    """What a request has to be read as; None if it is not plain, or not complete."""
    match = HEAD.match(data)
    if match is None or len(match["line"]) > most_line:
        return None
    lines = match["fields"].split(b"\r\n")[:-1]
    if len(lines) > most_fields or any(len(line) + 2 > most_field for line in lines):
        return None
    environ: dict[str, Any] = {}
    for line in lines:
        name, value = line.decode("ascii").split(":", 1)
        key = name.upper().replace("-", "_")
        key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
        if key in environ or key in FOR_OTHERS:
            return None
        environ[key] = value.strip(" \t")
    length = environ.get("CONTENT_LENGTH")
    method = match["method"].decode()
    connection = environ.get("HTTP_CONNECTION", "keep-alive").lower()
    schemes = {"https" if environ[key] == HTTPS[key] else "http" for key in HTTPS if key in environ}
    if (
        not environ.get("HTTP_HOST")
        or connection not in ("close", "keep-alive")
        or len(schemes) > 1
        or (length is None and method in ("POST", "PUT", "PATCH"))
        or (length is not None and (not length.isdigit() or len(length) > 9))
        or (length is not None and int(length) > 1000)
        or (length is not None and int(length) and method in ("GET", "OPTIONS"))
    ):
        return None
    size = int(length or 0)
    rest = data[match.end() :]
    if len(rest) < size:
        return None
    environ |= {
        "REQUEST_METHOD": method,
        "RAW_URI": match["target"].decode(),
        "PATH_INFO": unquote_to_bytes(match["path"]).decode("latin-1"),
        "QUERY_STRING": (match["query"] or b"").decode(),
        "wsgi.url_scheme": schemes.pop() if schemes else "http",
    }
    return environ, rest[:size], connection == "close", rest[size:]


def read(pieces: list[bytes], limits: tuple[int, int, int]) -> Read | Literal[False] | None:
    """What the reader makes of it."""
    reader = RequestReader(-1, {"wsgi.url_scheme": "http"}, HTTPS, (*limits, 1000))
    for place, piece in enumerate(pieces):
        reader.feed(piece)
        environ = reader.next()
        if environ is False:
            assert reader.take() == b"".join(pieces[: place + 1])
            return False
        if environ is not None:
            body = environ.pop("wsgi.input").read()
            reader.forget()
            return environ, body, reader.closes, reader.take() + b"".join(pieces[place + 1 :])
    return None


def one_input(data: bytes) -> Counter[str]:
    """Reads one request, at once and in two pieces."""
    script = Script(data)
    shape = script.number()
    limits = (4094, 100, 8190) if shape & 1 else (script.number(), script.number() % 8, 60)
    cut = script.number()
    if shape & 2:
        request = script.take(len(data))
    else:
        request = b"POST /a?b HTTP/1.1\r\nHost: a\r\n" if shape & 4 else b""
        for _ in range(script.number() % 8 if shape & 8 else len(data)):
            kind = script.number()
            request += script.take(1) if kind < 16 else PIECES[kind % len(PIECES)]
        if shape & 16:
            request += b"Content-Length: %d\r\n\r\n" % (script.number() % 40) + script.take(50)
    expected = specified(request, *limits)
    for pieces in ([request], [request[:cut], request[cut:]]):
        told = read(pieces, limits)
        assert (told or None) == expected, (pieces, limits, told, expected)
        if told is None and expected is None:
            # What is waited for may still become a request: an ended head does not.
            assert HEAD.match(request) is None or len(request) < 2000
    return Counter(requests=1, plain=expected is not None, bodies=bool(expected and expected[1]))


if __name__ == "__main__":
    fuzz(one_input)
