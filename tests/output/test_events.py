"""Events that end a stream, as clients of event streams split and read them."""

from __future__ import annotations

import json

import msgspec
import pytest

from sglrouter.errors import BadRequest, EngineError, RouterError
from sglrouter.output.events import DONE, error_events, event, usage_event, with_usage
from tests.fast.reference import read_event

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
# What line readers take for the end of a line, or for that of an event.
TROUBLE = 'a\n\nb\r\nc\rd\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029e}\n\n"\\ é🚀'


def split(stream: bytes) -> list[bytes]:
    """The events of a stream, which are whole."""
    *events, rest = stream.split(b"\n\n")
    assert rest == b""
    return [part + b"\n\n" for part in events]


@pytest.mark.parametrize(
    "document", [{"text": TROUBLE}, [], None, "}", {"a": {"b": [TROUBLE] * 3}}]
)
def test_a_document_is_one_line_to_every_reader(document: object) -> None:
    data = event(document)
    assert len(data.decode().splitlines()) == 2
    assert data.endswith(b"\n\n")
    assert json.loads(data.removeprefix(b"data: ")) == document


def test_usage_is_a_chunk_without_choices() -> None:
    head = {"id": "chatcmpl-1", "model": TROUBLE}
    (part,) = split(usage_event(head, USAGE))
    assert read_event(part) == {**head, "choices": [], "usage": USAGE}
    # Clients and tests compare bytes: the head comes first.
    assert part.startswith(b'data: {"id":"chatcmpl-1",')


@pytest.mark.parametrize("count", [0, 1, 3])
def test_usage_goes_into_each_chunk_once(count: int) -> None:
    chunks = [{"id": str(number), "choices": [{"text": TROUBLE}]} for number in range(count)]
    stream = b"".join(map(event, chunks))
    assert [read_event(part) for part in split(with_usage(stream, USAGE))] == [
        {**chunk, "usage": USAGE} for chunk in chunks
    ]


@pytest.mark.parametrize(
    "error",
    [
        EngineError("gone"),
        BadRequest(TROUBLE, code="c", param="p[0]"),
        RouterError("x" * 10_000, status=503, type="overloaded"),
    ],
)
def test_an_error_is_the_last_event_but_the_end(error: RouterError) -> None:
    part, done = split(error_events(error))
    assert done == DONE
    assert read_event(part) == msgspec.json.decode(error.body())
    assert read_event(part)["error"]["message"] == error.message
    assert len(part.decode().splitlines()) == 2
