"""Every rule that some client relies on, checked on the bytes of our streams.

Who needs what: the OpenAI SDKs take each event's data for JSON, and fail on an event without
any; the AI SDK checks chunks against a schema; LangChain and Spring AI merge calls by index
and id, and take a repeated id for another call; many read `choices[0]` of every chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import (
    ANSWER,
    ARGUMENTS,
    CALL,
    OTHER_ARGUMENTS,
    OTHER_CALL,
    THINKS,
    TOOL,
)
from tests.clients.event_stream import Event, EventStreamReader
from tests.processes import RouterProcess, chat_body, finish_reason, joined

pytestmark = pytest.mark.usefixtures("any_chunks")

Chunk = dict[str, Any]


def events_of(router: RouterProcess, **fields: Any) -> list[Event]:
    """The blocks of one stream, read strictly as they come."""
    reader = EventStreamReader()
    events: list[Event] = []
    body = chat_body(stream=True, **fields)
    with router.http.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        for data in response.iter_raw():
            assert not data.startswith(b"\xef\xbb\xbf")
            events += reader.feed(data)
    assert not reader.rest, "the last event is not ended"
    return events


def chunks_of(events: list[Event]) -> Iterator[Chunk]:
    """The chunks, after the rules that hold for every block and for the order of them."""
    datas = [event.data for event in events if event.data is not None]
    assert datas[-1] == events[-1].data == "[DONE]"
    assert datas.count("[DONE]") == 1
    for event in events:
        # A heartbeat is a comment with nothing else; anything else is one line of data.
        if event.data is None:
            assert event.fields == []
            assert event.comments == [" ping"]
        else:
            assert event.fields == ["data"]
            assert event.comments == []
    for data in datas[:-1]:
        chunk = json.loads(data)
        assert isinstance(chunk, dict)
        yield chunk


def checked(events: list[Event], *, n: int = 1, usage: bool = False) -> list[Chunk]:
    """All chunks of a stream that has not failed, after the rules that hold for every chunk."""
    chunks = list(chunks_of(events))
    heads = {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}
    ((completion_id, kind, created, model),) = heads
    assert completion_id.startswith("chatcmpl-")
    assert (kind, model) == ("chat.completion.chunk", "tiny")
    assert type(created) is int
    if usage:
        *chunks, last = chunks
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] > 0
    roles: list[int] = []
    ended: set[int] = set()
    for chunk in chunks:
        assert chunk.get("usage") is None
        (choice,) = chunk["choices"]
        index, delta = choice["index"], choice["delta"]
        assert type(index) is int
        assert index not in ended, "a choice goes on after its finish_reason"
        assert "finish_reason" in choice
        if "role" in delta:
            assert delta["role"] == "assistant"
            roles.append(index)
        else:
            assert index in roles, "a choice begins without its role"
        if choice["finish_reason"] is not None:
            ended.add(index)
        assert all(value is not None for value in delta.values())
    assert sorted(roles) == sorted(ended) == list(range(n))
    check_calls(chunks)
    return chunks


def check_calls(chunks: list[Chunk]) -> None:
    """Calls are told as every client can merge them."""
    ids: set[str] = set()
    open_calls: dict[int, int] = {}
    for chunk in chunks:
        (choice,) = chunk["choices"]
        for call in choice["delta"].get("tool_calls", []):
            index = call["index"]
            assert type(index) is int
            assert type(call["function"]["arguments"]) is str
            count = open_calls.get(choice["index"], 0)
            if "id" in call:
                assert set(call) == {"index", "id", "type", "function"}
                assert set(call["function"]) == {"name", "arguments"}
                assert call["type"] == "function"
                assert call["function"]["name"] == "weather"
                assert index == count
                assert call["id"]
                assert call["id"] not in ids
                ids.add(call["id"])
                open_calls[choice["index"]] = count + 1
            else:
                assert set(call) == {"index", "function"}
                assert set(call["function"]) == {"arguments"}
                # The latest call is the one that goes on.
                assert index == count - 1


def arguments_of(chunks: list[Chunk]) -> list[Any]:
    """The arguments of the first choice's calls."""
    texts: list[str] = []
    for chunk in chunks:
        for call in chunk["choices"][0]["delta"].get("tool_calls", []):
            if "id" in call:
                texts.append("")
            texts[call["index"]] += call["function"]["arguments"]
    return [json.loads(text) for text in texts]


def test_a_text(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    chunks = checked(events_of(router))
    assert joined(chunks) == ANSWER
    assert finish_reason(chunks) == "stop"


def test_usage_is_the_only_chunk_without_choices(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(ANSWER)
    checked(events_of(router, stream_options={"include_usage": True}), usage=True)
    checked(events_of(router, stream_options={"include_usage": False}))
    checked(events_of(router, stream_options={}))


def test_several_choices(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER, CALL, THINKS + CALL)
    options = {"include_usage": True}
    chunks = checked(events_of(router, n=3, tools=[TOOL], stream_options=options), n=3, usage=True)
    assert {finish_reason(chunks, index) for index in range(3)} == {"stop", "tool_calls"}


def test_calls(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(f"{THINKS}I will look.\n{CALL}\n{OTHER_CALL}\n{CALL}")
    chunks = checked(events_of(router, tools=[TOOL]))
    assert arguments_of(chunks) == [ARGUMENTS, OTHER_ARGUMENTS, ARGUMENTS]
    assert finish_reason(chunks) == "tool_calls"


def test_reasoning_has_a_field_of_its_own(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(THINKS + ANSWER)
    deltas = [chunk["choices"][0]["delta"] for chunk in checked(events_of(router))]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas).strip()
    assert not [delta for delta in deltas if "reasoning_content" in delta and delta.get("content")]
    assert "<think>" not in "".join(delta.get("content", "") for delta in deltas)


def test_logprobs_are_in_the_choice(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    chunks = checked(events_of(router, logprobs=True, top_logprobs=2))
    tokens = [
        entry["token"]
        for chunk in chunks
        if chunk["choices"][0]["logprobs"]
        for entry in chunk["choices"][0]["logprobs"]["content"]
    ]
    assert tokens


def test_heartbeats_are_comments(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(f"{ANSWER} {CALL}")
    engine.options.first_delay = 0.5
    events = events_of(router, tools=[TOOL])
    pings = [event for event in events if event.comments]
    assert pings
    assert checked(events)


def test_a_failure_is_an_event_with_an_error_at_its_top(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(ANSWER)
    engine.fault("fail,after=1,times=1,status=INTERNAL,message=out of\u2028memory")
    *chunks, last = chunks_of(events_of(router))
    assert not [chunk for chunk in chunks if "error" in chunk]
    assert set(last) == {"error"}
    assert set(last["error"]) == {"message", "type", "param", "code"}
    # A line end in an engine's words is none of ours.
    assert "out of memory" in last["error"]["message"]


@pytest.mark.parametrize("tail", ["</think>", "<tool_call>\n", '<tool_call>\n{"name": "weat'])
def test_a_cut_answer_is_a_whole_stream(
    router: RouterProcess, engine: SimulatedEngine, tail: str
) -> None:
    """An agent takes a stream without an end, or with nothing in it, for a broken one."""
    engine.script(ANSWER + tail, finish_reason="length")
    assert finish_reason(checked(events_of(router, tools=[TOOL]))) == "length"


def test_an_empty_answer_is_a_whole_stream(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script("")
    chunks = checked(events_of(router, tools=[TOOL]))
    assert (joined(chunks), finish_reason(chunks)) == ("", "stop")
