"""Fuzzes the reader of request heads against a regular expression that says the same.

Strategy: an input is either a head as it stands, or a list of pieces of heads: whole lines
come out right often enough for the limits and the headers to be reached.
"""

from __future__ import annotations

import re
from collections import Counter

from sglrouter._fast.head import parse_head
from tests.fuzz.run import Script, fuzz

HEAD = re.compile(
    rb"(?P<line>(?P<method>[A-Z]{3,20}) (?P<target>(?P<path>/(?!/)[!\"$->@-~]*)"
    rb"(?:\?(?P<query>[!\"$-~]*))?) HTTP/1\.1\r\n)"
    rb"(?P<fields>(?:[A-Za-z0-9-]{1,64}:[\t -~]*\r\n)*)\r\n"
)
PIECES = (
    b"GET ",
    b"POST /v1/x?a=b",
    b"CONNECT /",
    b" HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\n",
    b"Host: a:1\r\n",
    b"accept:\t*/*  \r\n",
    b"X-A:\r\n",
    b"X-B: a\tb\r\n",
    b"Host: a:1\r\n\r\n",
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

Parsed = tuple[str, str, str, str, list[tuple[str, str]], int]


def specified(data: bytes, most_line: int, most_fields: int, most_field: int) -> Parsed | None:
    """What parse_head has to return."""
    match = HEAD.match(data)
    if match is None or match["method"] == b"CONNECT" or len(match["line"]) > most_line:
        return None
    lines = match["fields"].split(b"\r\n")[:-1]
    if len(lines) > most_fields or any(len(line) + 2 > most_field for line in lines):
        return None
    fields = [line.decode("ascii").split(":", 1) for line in lines]
    return (
        match["method"].decode(),
        match["target"].decode(),
        match["path"].decode(),
        (match["query"] or b"").decode(),
        [(name.upper(), value.strip(" \t")) for name, value in fields],
        match.end(),
    )


def one_input(data: bytes) -> Counter[str]:
    """Reads one head, and the head that it begins with when it is cut short."""
    script = Script(data)
    shape = script.number()
    limits = (4094, 100, 8190) if shape & 1 else (script.number(), script.number() % 8, 60)
    if shape & 2:
        head = script.take(len(data))
    else:
        head = b"GET /a?b HTTP/1.1\r\nA: b\r\n" if shape & 4 else b""
        while script:
            kind = script.number()
            head += script.take(1) if kind < 32 else PIECES[kind % len(PIECES)]
    parsed = parse_head(head, *limits)
    assert parsed == specified(head, *limits), (head, limits, parsed)
    if parsed is not None:
        # A head is all of it or none: its size is not a guess.
        assert parse_head(head[: parsed[-1]], *limits) == parsed
        assert parse_head(head[: parsed[-1] - 1], *limits) is None
    return Counter(heads=1, plain=parsed is not None, fields=len(parsed[4]) if parsed else 0)


if __name__ == "__main__":
    fuzz(one_input)
