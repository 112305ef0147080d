"""Streams and single responses say the same, whatever the cutting and the number of choices."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.errors import EngineError
from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.reading import Reading
from sglrouter.output.chat import ChatCompletion, ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.events import DONE
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.schema.responses import ChatChunk
from sglrouter.schema.responses import ChatCompletion as ChatCompletionBody
from tests.fast import messages
from tests.fast.reference import read_event
from tests.output import models

TOKENIZER = models.byte_level(("hello", " world", "日本", "\u2028"))
FACTORY = DetokenizerFactory(TOKENIZER)
EOS = TOKENIZER.get_vocab()[models.EOS]
HEAD = Head(id="chatcmpl-1", created=1_700_000_000, model='m "\u2028')
BASE = {"id": HEAD.id, "created": HEAD.created, "model": HEAD.model}


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The documents of a whole stream."""
    assert stream.endswith(DONE)
    parts = stream.removesuffix(DONE).split(b"\n\n")
    assert parts.pop() == b""
    return [read_event(part + b"\n\n") for part in parts]


def join(events: Sequence[dict[str, Any]], n: int, *, logprobs: bool) -> list[dict[str, Any]]:
    """The choices that a client puts together from a stream."""
    choices: list[dict[str, Any]] = [
        {
            "index": index,
            "message": {},
            "logprobs": {"content": [], "refusal": None} if logprobs else None,
            "finish_reason": None,
        }
        for index in range(n)
    ]
    for event in events:
        assert {key: event[key] for key in BASE} == BASE
        assert event["object"] == "chat.completion.chunk"
        for chunk in event["choices"]:
            choice = choices[chunk["index"]]
            assert choice["finish_reason"] is None  # nothing comes after it
            _add(choice["message"], chunk["delta"])
            if chunk["logprobs"] is not None:
                choice["logprobs"]["content"] += chunk["logprobs"]["content"]
            choice["finish_reason"] = chunk["finish_reason"]
            if chunk["finish_reason"] is not None:
                choice["matched_stop"] = chunk["matched_stop"]
    return choices


def _add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    assert ("role" in delta) == (not message)  # first, and once
    message.update({"role": delta["role"]} if "role" in delta else {})
    if "content" in delta:
        message["content"] = message.get("content", "") + delta["content"]
    for call in delta.get("tool_calls", []):
        calls = message.setdefault("tool_calls", [])
        if "id" in call:
            assert call["index"] == len(calls)
            calls.append(call)
        else:
            calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]


def without_call_ids(choices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Call ids are random: they are checked and taken out."""
    for choice in choices:
        message = choice["message"]
        ids = [call.pop("id") for call in message.get("tool_calls", [])]
        assert all(each.startswith("call_") for each in ids)
        assert len(set(ids)) == len(ids)
        if ids:
            message["content"] = message["content"] or None
    return choices


class Run:
    """One completion in both forms."""

    def __init__(self, n: int, *, forced_calls: bool = False, **options: Any) -> None:
        self.n = n
        self.logprobs = bool(options.get("logprobs"))
        reading = Reading(calls=forced(None) if forced_calls else None)
        self.streamed = [Sample(FACTORY, **options) for _ in range(n)]
        self.stream = ChatStream(
            HEAD,
            [Choice(sample, reading.parser()) for sample in self.streamed],
            FACTORY.piece,
            include_usage=True,
        )
        self.whole = ChatCompletion(
            HEAD,
            [Choice(Sample(FACTORY, **options), reading.parser()) for _ in range(n)],
            FACTORY.piece,
        )

    def check(
        self, samples: Sequence[list[bytes]], order: Sequence[tuple[int, int]]
    ) -> dict[str, Any]:
        """Streams the samples' messages in this order of (choice, how many at once).

        Returns:
            The response that is not streamed, once it equals the joined stream.
        """
        waiting = [list(sample) for sample in samples]
        stream = self.stream.begin()
        turns = [*order, *((index, 1_000) for index in range(self.n))]
        for index, count in turns:
            taken, waiting[index] = waiting[index][:count], waiting[index][count:]
            if self.streamed[index].finish_reason is None:
                stream += self.stream.feed(index, taken)
        stream += self.stream.end()
        *events, last = events_of(stream)

        for index, sample in enumerate(samples):
            self.whole.feed(index, sample)
        body: dict[str, Any] = json.loads(self.whole.body())
        assert {key: body[key] for key in BASE} == BASE
        assert body["object"] == "chat.completion"
        assert last["choices"] == []
        assert all(event["usage"] is None for event in events)
        if not any(sample.engine_goes_on for sample in self.streamed):
            assert last["usage"] == body["usage"]
        msgspec.convert(body, ChatCompletionBody)
        msgspec.convert([*events, last], list[ChatChunk])
        joined = join(events, self.n, logprobs=self.logprobs)
        assert without_call_ids(joined) == without_call_ids(body["choices"])
        return body


VOCABULARY = TOKENIZER.get_vocab()
tokens = st.sampled_from(
    [
        *models.byte_ids(TOKENIZER, "aé\n\u2028"),
        *(VOCABULARY[each] for each in sorted(VOCABULARY) if len(each) > 1),
    ]
)
orders = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=12)


def valid(order: Sequence[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    return [(index % n, count) for index, count in order]


@given(
    st.lists(st.lists(tokens, max_size=8), min_size=1, max_size=3),
    orders,
    st.sampled_from([(), ("a",), ("aa", "hello")]),
    st.booleans(),
)
def test_stream_and_response_agree(
    samples: list[list[int]],
    order: list[tuple[int, int]],
    stop: tuple[str, ...],
    logprobs: bool,
) -> None:
    sequences = [
        messages.sample([[token] for token in ids], top=1 if logprobs else None) for ids in samples
    ]
    run = Run(len(samples), eos_ids=[EOS], stop=stop, logprobs=logprobs)
    body = run.check(sequences, valid(order, len(samples)))
    assert len(body["choices"]) == len(samples)
    for choice in body["choices"]:
        assert not any(each in choice["message"]["content"] for each in stop)


CALLS = '[{"name": "f", "parameters": {"a": "日\u2028"}}, {"parameters": [], "name": "g"}]'
ANSWERS = [CALLS, CALLS[:30], CALLS[:6], "No \u2028 calls.", "", " \n", "[1]", CALLS + " Done."]


@given(
    st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3),
    orders,
    st.sampled_from(["stop", "length"]),
    st.booleans(),
)
def test_forced_calls_agree(
    answers: list[str], order: list[tuple[int, int]], reason: str, logprobs: bool
) -> None:
    sequences = [
        messages.sample(
            [[token] for token in models.byte_ids(TOKENIZER, answer)],
            reason=reason,
            top=0 if logprobs else None,
        )
        for answer in answers
    ]
    run = Run(len(answers), forced_calls=True, logprobs=logprobs)
    body = run.check(sequences, valid(order, len(answers)))
    for answer, choice in zip(answers, body["choices"], strict=True):
        called = "tool_calls" in choice["message"]
        assert called == answer.startswith(CALLS[:20])
        # A call that was cut off is not why the model stopped.
        complete = answer.startswith(CALLS)
        expected = "tool_calls" if complete and reason == "stop" else reason
        assert choice["finish_reason"] == expected
        if not called:
            assert choice["message"]["content"] == answer


def test_calls_and_the_text_after_them_are_delivered() -> None:
    text = CALLS + " Done."
    sequence = messages.sample([models.byte_ids(TOKENIZER, text)], reason="stop")
    (choice,) = Run(1, forced_calls=True).check([sequence], [])["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": " Done.",
        "tool_calls": [
            {
                "index": 0,
                "type": "function",
                "function": {"name": "f", "arguments": '{"a": "日\u2028"}'},
            },
            {"index": 1, "type": "function", "function": {"name": "g", "arguments": "[]"}},
        ],
    }


def test_usage_counts_the_prompt_once_and_every_sample() -> None:
    sequences = [[messages.complete([5] * size, size, prompt_tokens=9)] for size in (1, 2, 4)]
    usage = Run(3).check(sequences, [])["usage"]
    assert usage == {
        "prompt_tokens": 9,
        "completion_tokens": 7,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def test_usage_is_left_out_unless_wanted() -> None:
    sample = Sample(FACTORY)
    stream = ChatStream(HEAD, [Choice(sample)], FACTORY.piece)
    stream.feed(0, messages.sample([[5]]))
    assert stream.end() == DONE


@pytest.mark.parametrize("forced_calls", [False, True])
def test_no_event_is_made_of_nothing(forced_calls: bool) -> None:
    reading = Reading(calls=forced(None) if forced_calls else None)
    choice = Choice(Sample(FACTORY), reading.parser())
    stream = ChatStream(HEAD, [choice], FACTORY.piece)
    assert stream.feed(0, []) == b""
    assert stream.feed(0, [messages.chunk([], 0)]) == b""
    cut = models.byte_ids(TOKENIZER, "é")[:1]
    assert stream.feed(0, [messages.chunk(cut, 1)]) == b""


def test_every_choice_begins_with_its_role() -> None:
    stream = ChatStream(HEAD, [Choice(Sample(FACTORY)) for _ in range(3)], FACTORY.piece)
    events = events_of(stream.begin() + DONE)
    assert [event["choices"][0]["index"] for event in events] == [0, 1, 2]
    for event in events:
        assert event["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_an_error_ends_the_stream_after_the_text_before_it() -> None:
    sample = Sample(FACTORY)
    stream = ChatStream(HEAD, [Choice(sample)], FACTORY.piece, include_usage=True)
    ids = models.byte_ids(TOKENIZER, "so far")
    events = stream.feed(0, [messages.chunk(ids, 6), messages.failure("lost\u2028", "503")])
    assert sample.failure is not None
    content, error = events_of(events + stream.fail(sample.failure))
    assert content["choices"][0]["delta"] == {"content": "so far"}
    assert error == {
        "error": {
            "message": "The engine is not available: lost ",
            "type": "server_error",
            "param": None,
            "code": "engine_unavailable",
        }
    }


def test_an_error_event_is_the_errors_body() -> None:
    error = EngineError("no")
    assert ChatStream.fail(error) == b"data: " + error.body() + b"\n\n" + DONE


def test_logprobs_show_each_token_as_text_and_bytes() -> None:
    first, *rest = models.byte_ids(TOKENIZER, "é")
    (word,) = models.ids_of(TOKENIZER, "hello")
    sequence = messages.sample([[first, *rest, word]], top=1)
    (choice,) = Run(1, logprobs=True).check([sequence], [])["choices"]
    entries = choice["logprobs"]["content"]
    assert [entry["token"] for entry in entries] == ["\ufffd", "\ufffd", "hello"]
    assert [entry["bytes"] for entry in entries] == [[0xC3], [0xA9], list(b"hello")]
    for entry, token in zip(entries, [first, *rest, word], strict=True):
        assert entry["logprob"] == messages.logprob_of(token)
        (top,) = entry.pop("top_logprobs")
        assert top == entry


def test_a_logprob_that_json_cannot_say_is_the_least() -> None:
    logprobs = messages.logprobs([5])
    logprobs.token_logprobs[:] = [-math.inf]
    part = messages.field(1, 5) + messages.field(5, logprobs.SerializeToString())
    sequence = [messages.field(2, part), messages.complete([5], 1)]
    (choice,) = Run(1, logprobs=True).check([sequence], [])["choices"]
    assert choice["logprobs"]["content"][0]["logprob"] == -9999.0
