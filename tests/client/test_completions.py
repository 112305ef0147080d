"""What a client returns, and how it says that something went wrong."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest

from sglrouter import Client
from sglrouter.client.stream import ChatCompletionStream
from sglrouter.errors import BadRequest, EngineError, RouterError
from tests.client.conftest import AnEngine, Open, question, wait_until
from tests.processes import finish_reason, joined

CAPITAL = "What is the capital of France?"


def rest(stream: ChatCompletionStream) -> list[dict[str, Any]]:
    """What recv() returns until the end."""
    chunks = []
    while True:
        try:
            chunks.append(stream.recv())
        except EOFError:
            return chunks


def test_a_whole_completion_is_openais_object(client: Client) -> None:
    completion = client.create_chat_completion(question(CAPITAL))
    assert completion["object"] == "chat.completion"
    assert "Paris" in completion["choices"][0]["message"]["content"]
    assert completion["choices"][0]["finish_reason"] == "stop"
    assert completion["usage"]["completion_tokens"] > 5


def test_a_stream_says_the_same_in_chunks(client: Client) -> None:
    whole = client.create_chat_completion(question(CAPITAL))
    chunks = list(client.create_chat_completion_stream(question(CAPITAL)))
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert joined(chunks) == whole["choices"][0]["message"]["content"]
    assert finish_reason(chunks) == "stop"


def test_the_end_is_told_again_and_again(client: Client) -> None:
    stream = client.create_chat_completion_stream(question(max_tokens=3))
    assert rest(stream)
    for _ in range(2):
        with pytest.raises(EOFError):
            stream.recv()
        with pytest.raises(EOFError):
            stream.recv_json()
        assert next(stream, None) is None
    stream.close()
    with pytest.raises(EOFError):
        stream.recv()


def test_chunks_come_as_json_as_well(client: Client) -> None:
    stream = client.create_chat_completion_stream(
        question(CAPITAL, stream_options={"include_usage": True})
    )
    texts = [stream.recv_json()]
    chunks = [json.loads(texts[0]), *rest(stream)]
    assert texts[0].startswith('{"id":"chatcmpl-')
    assert "Paris" in joined(chunks[:-1])
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 5


@pytest.mark.parametrize(
    "request_",
    [
        question(CAPITAL),
        json.dumps(question(CAPITAL)),
        json.dumps(question(CAPITAL)).encode(),
        MappingProxyType({"messages": (MappingProxyType({"role": "user", "content": CAPITAL}),)}),
        question(CAPITAL, stream=True),
        json.dumps(question(CAPITAL, stream=False)),
    ],
    ids=["dict", "str", "bytes", "mappings", "stream", "not stream"],
)
def test_requests_come_in_many_forms(client: Client, request_: Any) -> None:
    completion = client.create_chat_completion(request_)
    assert "Paris" in completion["choices"][0]["message"]["content"]
    chunks = list(client.create_chat_completion_stream(request_))
    assert "Paris" in joined(chunks)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (question(temperature="hot"), "temperature"),
        (question(temperature=float("nan")), None),
        (question(metadata={"set": {1}}), None),
        (question(metadata=b"bytes"), None),
        (question("\ud800"), None),
        ("{", None),
        (question(tool_choice="required"), "tool_choice"),
    ],
)
def test_a_wrong_request_is_told_at_once(client: Client, request_: Any, param: str | None) -> None:
    with pytest.raises(BadRequest) as streamed:
        client.create_chat_completion_stream(request_)
    assert streamed.value.param == param
    with pytest.raises(BadRequest) as whole:
        client.create_chat_completion(request_)
    assert (whole.value.param, whole.value.status) == (param, 400)
    assert not client.errors


def test_options_of_streams_are_nothing_to_a_whole_answer(client: Client) -> None:
    request = question(CAPITAL, stream_options={"include_usage": True})
    assert "Paris" in client.create_chat_completion(request)["choices"][0]["message"]["content"]


@pytest.mark.parametrize("value", [float("nan"), {1}, b"bytes", "\ud800"])
def test_what_json_cannot_say_is_told_as_that(client: Client, value: object) -> None:
    with pytest.raises(BadRequest, match="The request cannot be written as JSON: "):
        client.create_chat_completion(question(metadata=value))


def test_a_request_has_a_size(open_client: Open) -> None:
    client = open_client(max_body=2000)
    with pytest.raises(RouterError, match="larger than 2000 bytes") as refusal:
        client.create_chat_completion(question("x" * 2000))
    assert refusal.value.status == 413


def test_a_refusal_comes_before_any_chunk(client: Client, engine: AnEngine) -> None:
    engine.fault("fail,times=2,status=RESOURCE_EXHAUSTED,message=the queue is full")
    stream = client.create_chat_completion_stream(question())
    with pytest.raises(EngineError, match="the queue is full") as refusal:
        stream.recv()
    assert refusal.value.status == 429
    assert list(client.errors) == [refusal.value]
    with pytest.raises(EngineError, match="the queue is full"):
        client.create_chat_completion(question())


def test_what_came_before_a_failure_is_delivered_first(client: Client, engine: AnEngine) -> None:
    engine.script([[301]] * 100, [[301]] * 100)
    whole = client.create_chat_completion(question())["choices"][0]["message"]["content"]
    engine.fault("fail,after=50,times=1,status=INTERNAL,message=out of order")
    before = len(engine.requests)
    stream = client.create_chat_completion_stream(question())
    # Nobody reads until all of it is there.
    wait_until(lambda: len(engine.requests) > before and engine.active == 0)
    chunks: list[dict[str, Any]] = []
    with pytest.raises(EngineError, match="out of order"):
        chunks.extend(stream)
    assert not [chunk for chunk in chunks if "error" in chunk]
    assert joined(chunks) == whole[: len(whole) // 2]
    # It is no good end the next time, either.
    for _ in range(2):
        with pytest.raises(EngineError, match="out of order"):
            next(stream)
    assert len(client.errors) == 1


def test_a_failure_that_comes_with_events_comes_after_them(client: Client) -> None:
    """Engines before SGLang 0.5.10 report failures inside their answers."""
    stream = client.create_chat_completion_stream(question())
    failure = EngineError("in band")
    stream._answer.wait = lambda **_: (b'data: {"n":1}\n\ndata: {"n":2}\n\n', failure)  # type: ignore[method-assign]
    assert stream.recv()["choices"][0]["delta"]["role"] == "assistant"
    assert stream.recv() == {"n": 1}
    assert stream.recv_json() == '{"n":2}'
    with pytest.raises(EngineError, match="in band"):
        stream.recv()
    assert list(client.errors) == [failure]


def test_fields_that_nothing_is_done_about_are_named(client: Client) -> None:
    with client.create_chat_completion_stream(question(seed=1, max_tokens=1)) as stream:
        assert "seed" in stream.ignored


def test_several_choices_share_a_stream(client: Client) -> None:
    chunks = list(client.create_chat_completion_stream(question(CAPITAL, n=3)))
    for index in range(3):
        assert "Paris" in joined(chunks, index)
        assert finish_reason(chunks, index) == "stop"
