"""Reads a text in pieces, as a stream would bring it, and joins what comes out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sglrouter._fast.parse import OutputParser
from sglrouter.families.reading import Reading


class Call(NamedTuple):
    """A call as a client puts it together."""

    id: str
    name: str
    arguments: str


class Result(NamedTuple):
    """All that an output came to."""

    content: str
    reasoning: str
    calls: list[Call]
    completed: int


def read(reading: Reading, parts: Sequence[str | bytes]) -> Result:
    """Feeds the parts one by one; checks that calls arrive as clients need them."""
    pieces = [part if isinstance(part, bytes) else part.encode() for part in parts]
    parser = reading.parser()
    if parser is None:
        return Result(b"".join(pieces).decode(), "", [], 0)
    content, reasoning = b"", b""
    begun: list[tuple[str, str]] = []
    arguments_of: list[bytes] = []
    for piece in (*pieces, None):
        if piece is None:
            parser.finish()
        else:
            parser.feed(piece)
        more_content, more_reasoning, deltas = parser.take()
        content += more_content
        reasoning += more_reasoning
        for number, call_id, name, arguments in deltas:
            if call_id is not None:
                assert name
                assert number == len(begun)
                begun.append((call_id, name))
                arguments_of.append(arguments)
            else:
                assert name is None
                assert number == len(begun) - 1
                arguments_of[-1] += arguments
    calls = [Call(*each, json.decode()) for each, json in zip(begun, arguments_of, strict=True)]
    assert parser.called == len(calls) == len({call.id for call in calls})
    return Result(content.decode(), reasoning.decode(), calls, parser.completed)


def without_ids(result: Result) -> Result:
    """Random ids taken out."""
    return result._replace(calls=[call._replace(id="") for call in result.calls])


def cuts(text: str, most: int = 2000) -> Iterator[Sequence[str | bytes]]:
    """One byte or character at a time, cut in two at every point or `most`, and at random."""
    yield list(text)
    data = text.encode()
    yield [data[i : i + 1] for i in range(len(data))]
    dice = random.Random(len(text))
    points: Sequence[int] = range(1, len(text))
    if len(text) > most:
        points = sorted(dice.sample(points, most))
    for point in points:
        yield [text[:point], text[point:]]
    for _ in range(20):
        ends = sorted(dice.sample(range(len(text) + 1), min(len(text), dice.randint(1, 12))))
        yield [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def read_every_way(reading: Reading, text: str, most: int = 2000) -> Result:
    """Reads a text whole and in pieces; all have to come to the same."""
    whole = read(reading, [text])
    for parts in cuts(text, most):
        assert without_ids(read(reading, parts)) == without_ids(whole), parts
    return whole


def marker_parser(reading: Reading) -> OutputParser:
    """The reading's parser, which there is."""
    parser = reading.parser()
    assert parser is not None
    return parser
