"""The framing of chunks against the json module."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrouter._fast.sse import ChunkFramer, TextFramer, escape_line_ends, json_string
from tests.fast.reference import chunk_event, read_event

LINE_ENDS = "\u0085\u2028\u2029"
# Everything that is escaped, its neighbours, and the bytes that begin it.
letters = st.sampled_from(
    [
        *map(chr, range(0x20)),
        *'"\\/a \x7f',
        *LINE_ENDS,
        *"\u0080\u0084\u0086\u00c5\u2027\u202a\u2085\ufffd\uffff",
        *"é日😀\U0010ffff",
    ]
)
texts = st.text(letters | st.characters(exclude_categories=["Cs"]), max_size=30)


def framer(model: str = "m") -> ChunkFramer:
    return ChunkFramer("chatcmpl-1", 1_700_000_000, model, 2)


def event(delta: dict[str, Any], model: str = "m", **rest: Any) -> dict[str, Any]:
    return chunk_event("chatcmpl-1", 1_700_000_000, model, 2, delta, **rest)


def check_has_no_line_end(data: bytes) -> None:
    text = data.decode()
    assert not any(char in text for char in LINE_ENDS)
    assert not any(ord(char) < 0x20 for char in text)


@given(texts)
def test_a_json_string_says_the_text_on_one_line(text: str) -> None:
    rendered = json_string(text.encode())
    assert json.loads(rendered) == text
    check_has_no_line_end(rendered)


@pytest.mark.parametrize("code", [*range(0x100), 0x2027, 0x2028, 0x2029, 0x202A, 0xFFFF, 0x1F600])
def test_only_what_must_be_escaped_is(code: int) -> None:
    char = chr(code)
    rendered = json_string(char.encode()).decode()
    if char in LINE_ENDS:
        assert rendered == f'"\\u{code:04x}"'
    else:
        assert rendered == json.dumps(char, ensure_ascii=False)


@given(texts)
def test_a_sequence_cut_short_is_left_as_it_is(text: str) -> None:
    data = text.encode()
    for end in range(len(data)):
        rendered = json_string(data[:end])
        decoded = json.loads(rendered.decode("utf-8", "replace"))
        assert decoded == data[:end].decode("utf-8", "replace")


@given(texts, texts)
def test_content_is_a_chunk_with_the_text(text: str, model: str) -> None:
    chunk = framer(model).content(text.encode())
    assert read_event(chunk) == event({"content": text}, model)


@given(texts, texts)
@example("", LINE_ENDS)
def test_logprobs_are_part_of_their_chunk(text: str, token: str) -> None:
    logprobs = {"content": [{"token": token}], "refusal": None}
    rendered = json.dumps(logprobs, ensure_ascii=False).encode()
    chunk = framer().content(text.encode(), rendered)
    assert read_event(chunk) == event({"content": text}, logprobs=logprobs)
    check_has_no_line_end(chunk[:-2])


@given(texts, st.sampled_from([("reasoning_content",), ("reasoning",), ("a", "b", "c")]))
@example(LINE_ENDS, ("reasoning_content",))
def test_reasoning_has_fields_of_its_own(text: str, fields: tuple[str, ...]) -> None:
    logprobs: dict[str, Any] = {"content": [], "refusal": None}
    for rendered, expected in ((None, None), (json.dumps(logprobs).encode(), logprobs)):
        chunk = ChunkFramer("id", 7, "m", 0, fields).reasoning(text.encode(), rendered)
        (choice,) = read_event(chunk)["choices"]
        assert choice["delta"] == dict.fromkeys(fields, text)
        assert choice["logprobs"] == expected
        check_has_no_line_end(chunk[:-2])


@given(texts, texts, texts, st.integers(0, 200))
@example(LINE_ENDS, LINE_ENDS, LINE_ENDS, 0)
def test_the_first_piece_of_a_call_names_it_and_the_others_do_not(
    call_id: str, name: str, arguments: str, number: int
) -> None:
    chunk = framer().call((number, call_id, name, arguments.encode()))
    call: dict[str, object] = {"index": number, "id": call_id, "type": "function"}
    call["function"] = {"name": name, "arguments": arguments}
    assert read_event(chunk) == event({"tool_calls": [call]})
    check_has_no_line_end(chunk[:-2])
    chunk = framer().call((number, None, None, arguments.encode()))
    call = {"index": number, "function": {"arguments": arguments}}
    assert read_event(chunk) == event({"tool_calls": [call]})
    check_has_no_line_end(chunk[:-2])


@given(st.none() | st.integers(0, 2**32 - 1) | texts)
def test_the_last_chunk_says_why_and_where(matched: int | str | None) -> None:
    chunk = framer().finish("stop", matched)
    expected = event({}, finish_reason="stop")
    expected["choices"][0]["matched_stop"] = matched
    assert read_event(chunk) == expected
    check_has_no_line_end(chunk[:-2])


def test_the_first_chunk_says_who_speaks() -> None:
    assert read_event(framer().role()) == event({"role": "assistant", "content": ""})


def test_a_model_name_that_is_no_text_does_not_break_the_stream() -> None:
    assert read_event(framer("\ud800").role())["model"] == "?"


def text_event(text: str, model: str = "m", **rest: Any) -> dict[str, Any]:
    choice = {"index": 2, "text": text, "logprobs": None, "finish_reason": None, **rest}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": model}
    return {**head, "choices": [choice]}


@given(texts, texts, texts)
@example("", "", LINE_ENDS)
def test_text_completions_have_chunks_of_their_own(text: str, model: str, token: str) -> None:
    framer = TextFramer("cmpl-1", 7, model, 2)
    chunk = framer.content(text.encode())
    assert read_event(chunk) == text_event(text, model)
    check_has_no_line_end(chunk[:-2])
    logprobs = {"tokens": [token]}
    rendered = json.dumps(logprobs, ensure_ascii=False).encode()
    chunk = framer.content(text.encode(), rendered)
    assert read_event(chunk) == text_event(text, model, logprobs=logprobs)
    check_has_no_line_end(chunk[:-2])


@given(st.none() | st.integers(0, 2**32 - 1) | texts)
def test_the_last_chunk_of_a_text_says_why_and_where(matched: int | str | None) -> None:
    chunk = TextFramer("cmpl-1", 7, "m", 2).finish("length", matched)
    assert read_event(chunk) == text_event("", finish_reason="length", matched_stop=matched)
    check_has_no_line_end(chunk[:-2])


def test_every_chunk_says_that_another_has_the_usage() -> None:
    chat = ChunkFramer("id", 7, "m", 0, ("reasoning", "reasoning_content"), usage=True)
    text = TextFramer("id", 7, "m", 0, usage=True)
    logprobs = b'{"content":[]}'
    for chunk in (
        chat.role(),
        chat.content(b"a"),
        chat.content(b"a", logprobs),
        chat.reasoning(b"a"),
        chat.reasoning(b"a", logprobs),
        chat.call((0, "id", "f", b"{}")),
        chat.call((0, None, None, b"{}"), logprobs),
        chat.finish("stop", 7),
        text.content(b"a"),
        text.content(b"a", logprobs),
        text.finish("stop"),
    ):
        event = read_event(chunk)
        assert list(event)[-2:] == ["choices", "usage"]
        assert event["usage"] is None


@given(texts)
def test_escaping_line_ends_changes_nothing_else(text: str) -> None:
    document = json.dumps({text: [text]}, ensure_ascii=False)
    escaped = escape_line_ends(document.encode()).decode()
    assert json.loads(escaped) == {text: [text]}
    for char in LINE_ENDS:
        document = document.replace(char, f"\\u{ord(char):04x}")
    assert escaped == document
