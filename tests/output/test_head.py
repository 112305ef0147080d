"""What every part of an answer repeats, in a stream as in a whole response."""

from __future__ import annotations

import json

import msgspec
import pytest

from sglrouter._fast.framer import Framer
from sglrouter._fast.sse import ChunkFramer, TextFramer
from sglrouter.output.head import Head
from tests.fast.reference import read_event


@pytest.mark.parametrize("model", ["m", "org/model-7B:v1", 'a"b\\c', "\u2028é🚀", ""])
@pytest.mark.parametrize("framer", [ChunkFramer, TextFramer])
def test_a_stream_s_parts_begin_as_a_whole_answer_does(
    model: str, framer: type[ChunkFramer | TextFramer]
) -> None:
    """Chunks are framed by compiled code, whole answers are made of the head."""
    head = Head(id="cmpl-1", created=1_700_000_000, model=model)
    chunks: Framer = framer(head.id, head.created, head.model, 0)
    chunk = read_event(chunks.delta(b"Hi", b"", []))
    whole = json.loads(msgspec.json.encode(head.of(chunk["object"])))
    assert {name: chunk[name] for name in whole} == whole
    assert list(chunk)[: len(whole)] == list(whole) == ["id", "object", "created", "model"]


def test_each_beginning_is_an_object_of_its_own() -> None:
    """Whoever adds to one adds to no other."""
    head = Head(id="a", created=1, model="m")
    body = head.of("chat.completion")
    body["choices"] = []
    assert head.of("chat.completion") == {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
    }
