"""Native answers: SGLang's shapes, and the law that cutting does not matter."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter._proto import scheduler
from sglrouter.errors import EngineError
from sglrouter.output.native import NativeBody, NativeOutput, NativeRequest, NativeStream
from sglrouter.output.sample import Sample
from tests.fast import messages
from tests.fast.messages import Style
from tests.fast.profile import soak
from tests.output.test_sample import (
    EOS,
    FACTORY,
    PROMPT,
    SELECTED,
    cut_up,
    ends,
    ids_of,
    options,
    tokens,
)
from tests.sim.captures import read_capture

PROMPT_IDS = [7, 8, 9]
# What depends on when it was asked.
TIMES = ("e2e_latency", "response_sent_to_client_ts")


def output(
    *,
    scores: bool = True,
    shows_prompt: bool = False,
    piece: Callable[[int], bytes] = FACTORY.piece,
    **kwargs: Any,
) -> NativeOutput:
    """An output that shows all that there is, or none of the scores."""
    sample = Sample(
        FACTORY,
        keep_ids=True,
        logprobs=scores,
        input_logprobs=scores,
        selected_logprobs=scores,
        **kwargs,
    )
    return NativeOutput(
        sample,
        NativeRequest(
            id="me\u2028",
            prompt_ids=PROMPT_IDS,
            weight_version="v1",
            began=time.monotonic(),
            top=scores,
            selected=scores,
            start=0 if scores else -1,
            shows_prompt=shows_prompt,
            piece=piece,
        ),
    )


def events_of(data: bytes) -> list[Any]:
    """The documents of some events."""
    assert "\u2028" not in data.decode()
    blocks = data.decode().split("\n\n")
    assert blocks.pop() == ""
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks)
    return [json.loads(block[6:]) for block in blocks]


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in document["meta_info"].items() if key not in TIMES}
    return {**document, "meta_info": meta}


def streamed(parts: Sequence[Sequence[bytes]], **kwargs: Any) -> list[dict[str, Any]]:
    """The documents of a stream."""
    one = output(**kwargs)
    stream = NativeStream([one], several=False)
    data = stream.begin()
    for part in parts:
        data += stream.feed(0, part)
        if one.sample.finish_reason is not None:
            break
    return events_of(data)


def whole(parts: Sequence[Sequence[bytes]], **kwargs: Any) -> dict[str, Any]:
    """The body."""
    one = output(**kwargs)
    body = NativeBody([one], several=False)
    for part in parts:
        body.feed(0, part)
        if one.sample.finish_reason is not None:
            break
    document: dict[str, Any] = json.loads(body.body())
    return document


def assert_begins(early: dict[str, Any], late: dict[str, Any]) -> None:
    """That an event takes nothing back of what an earlier one has said."""
    assert late["text"].startswith(early["text"])
    grown = {"output_ids": (early["output_ids"], late["output_ids"])}
    for key, value in early["meta_info"].items():
        if isinstance(value, list):
            grown[key] = (value, late["meta_info"][key])
    for name, (before, after) in grown.items():
        assert after[: len(before)] == before, name


@pytest.mark.soak
@soak
@given(
    data=st.data(),
    ids=st.lists(tokens, min_size=1, max_size=12),
    end=ends,
    kwargs=options,
    style=st.sampled_from(Style),
    scores=st.booleans(),
)
def test_cutting_changes_nothing(
    data: st.DataObject,
    ids: list[int],
    end: tuple[str, int | str | None],
    kwargs: dict[str, Any],
    style: Style,
    scores: bool,
) -> None:
    reason, matched = end

    def sequence(deltas: Sequence[Sequence[int]]) -> list[bytes]:
        plain = messages.sample(deltas, style, reason, matched=matched, top=2 if scores else None)
        if not scores:
            return plain
        return messages.with_scores(plain, selected=SELECTED, prompt=PROMPT)

    expected = whole([sequence([ids])], scores=scores, **kwargs)
    assert expected["meta_info"]["completion_tokens"] == len(expected["output_ids"])
    deltas = data.draw(cut_up(ids))
    for parts in ([[each] for each in sequence(deltas)], data.draw(cut_up(sequence(deltas)))):
        assert timeless(whole(parts, scores=scores, **kwargs)) == timeless(expected)
        documents = streamed(parts, scores=scores, **kwargs)
        assert timeless(documents[-1]) == timeless(expected)
        for early, late in pairwise(documents):
            assert_begins(early, late)
            assert early["meta_info"]["finish_reason"] is None


def test_everything_is_where_sglang_has_it() -> None:
    ids = [*ids_of("hi"), EOS]
    sequence = messages.with_scores(
        messages.sample([ids], reason="stop", matched=EOS, top=2), selected=SELECTED, prompt=PROMPT
    )
    document = whole([sequence], eos_ids=[EOS], shows_prompt=True)
    meta = document.pop("meta_info")
    assert document == {"text": "hi", "output_ids": ids, "prompt_token_ids": PROMPT_IDS}
    assert abs(meta.pop("response_sent_to_client_ts") - time.time()) < 60
    assert 0 <= meta.pop("e2e_latency") < 60

    def entry(token: int, value: float | None) -> list[Any]:
        return [value, token, FACTORY.piece(token).decode("utf-8", "replace")]

    def row(*pairs: tuple[int, float]) -> list[list[Any]]:
        return [entry(token, value) for token, value in pairs]

    assert list(meta) == [
        "id",
        "finish_reason",
        "prompt_tokens",
        "weight_version",
        "input_token_logprobs",
        "output_token_logprobs",
        "output_token_logprobs_length",
        "input_top_logprobs",
        "output_top_logprobs",
        "input_token_ids_logprobs",
        "output_token_ids_logprobs",
        "reasoning_tokens",
        "completion_tokens",
        "cached_tokens",
    ]
    assert meta == {
        "id": "me\u2028",
        "finish_reason": {"type": "stop", "matched": EOS},
        "prompt_tokens": 3,
        "weight_version": "v1",
        "input_token_logprobs": [entry(token, value) for token, value, _ in PROMPT],
        "output_token_logprobs": [entry(token, messages.logprob_of(token)) for token in ids],
        "output_token_logprobs_length": 3,
        "input_top_logprobs": [row(*top) or None for _, _, top in PROMPT],
        "output_top_logprobs": [
            row(*((each, messages.logprob_of(each)) for each in (token, token + 1)))
            for token in ids
        ],
        "input_token_ids_logprobs": None,
        "output_token_ids_logprobs": [
            row(*messages.selected_row(position, SELECTED)) for position in range(3)
        ],
        "reasoning_tokens": 0,
        "completion_tokens": 3,
        "cached_tokens": 3,
    }


def test_what_was_not_asked_for_is_not_there() -> None:
    document = whole([messages.sample([ids_of("hi")])], scores=False)
    assert list(document) == ["text", "output_ids", "meta_info"]
    assert list(timeless(document)["meta_info"]) == [
        "id",
        "finish_reason",
        "prompt_tokens",
        "weight_version",
        "reasoning_tokens",
        "completion_tokens",
        "cached_tokens",
    ]


@pytest.mark.parametrize(
    ("reason", "matched", "kwargs", "shown"),
    [
        ("length", None, {}, {"type": "length", "length": 2}),
        ("stop", EOS, {}, {"type": "stop", "matched": EOS}),
        ("stop", "i", {"stop": ["i"]}, {"type": "stop", "matched": "i"}),
        ("stop", None, {}, {"type": "stop", "matched": None}),
        # An engine that has not seen it.
        ("length", None, {"stop": ["i"]}, {"type": "stop", "matched": "i"}),
    ],
)
def test_the_end_has_sglangs_form(
    reason: str, matched: int | str | None, kwargs: dict[str, Any], shown: dict[str, Any]
) -> None:
    parts = [messages.sample([ids_of("hi")], reason=reason, matched=matched)]
    assert whole(parts, scores=False, **kwargs)["meta_info"]["finish_reason"] == shown


def test_an_aborted_sample_ends_with_all_its_text() -> None:
    one = output(scores=False, stop=["hit"])
    stream = NativeStream([one], several=False)
    (first,) = events_of(stream.feed(0, [messages.chunk(ids_of("a hi"), 4)]))
    # "hi" may be the beginning of a stop string.
    assert (first["text"], first["meta_info"]["finish_reason"]) == ("a ", None)
    one.sample.abort()
    (last,) = events_of(stream.feed(0, [messages.chunk(ids_of("!"), 5)]))
    assert last["text"] == "a hi!"
    assert last["meta_info"]["finish_reason"] == {
        "type": "abort",
        "message": "Aborted",
        "status_code": None,
        "err_type": None,
    }
    assert last["meta_info"]["completion_tokens"] == 5
    assert "e2e_latency" in last["meta_info"]


def test_an_end_that_came_with_the_abort_is_the_end() -> None:
    one = output(scores=False)
    one.sample.abort()
    body = NativeBody([one], several=False)
    body.feed(0, messages.sample([ids_of("hi")]))
    assert json.loads(body.body())["meta_info"]["finish_reason"]["type"] == "length"


def test_no_tokens_show_the_likeliest_next_ones() -> None:
    complete = scheduler.GenerateComplete(finish_reason="length", prompt_tokens=3)
    complete.output_logprobs.top_logprobs.add(token_ids=[5, 6], values=[-1.0, -2.0])
    complete.output_logprobs.token_ids_logprobs.add(token_ids=SELECTED, values=[-3.0, -4.0])
    message = scheduler.GenerateResponse(request_id="r", complete=complete).SerializeToString()
    meta = whole([[message]])["meta_info"]
    assert meta["finish_reason"] == {"type": "length", "length": 0}
    assert meta["output_token_logprobs"] == []
    assert [[entry[:2] for entry in row] for row in meta["output_top_logprobs"]] == [
        [[-1.0, 5], [-2.0, 6]]
    ]
    assert [[entry[:2] for entry in row] for row in meta["output_token_ids_logprobs"]] == [
        [[-3.0, 3], [-4.0, 4]]
    ]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_json_cannot_say_is_null(value: float) -> None:
    chunk = scheduler.GenerateStreamChunk(token_ids=[5], completion_tokens=1)
    chunk.output_logprobs.token_logprobs.append(value)
    chunk.output_logprobs.token_ids.append(5)
    chunk.output_logprobs.top_logprobs.add(token_ids=[6], values=[value])
    message = scheduler.GenerateResponse(request_id="r", chunk=chunk).SerializeToString()
    (event,) = streamed([[message]])
    assert event["meta_info"]["output_token_logprobs"][0][0] is None
    assert event["meta_info"]["output_top_logprobs"][0][0][0] is None


def test_speculation_shows_where_there_was_some() -> None:
    complete = scheduler.GenerateComplete(
        output_ids=[5],
        completion_tokens=1,
        finish_reason="length",
        spec_draft_tokens=8,
        spec_accepted_tokens=6,
    )
    message = scheduler.GenerateResponse(request_id="r", complete=complete).SerializeToString()
    meta = whole([[message]], scores=False)["meta_info"]
    assert {key: value for key, value in meta.items() if key.startswith("spec_")} == {
        "spec_accept_rate": 0.75,
        "spec_num_correct_drafts": 6,
        "spec_num_proposed_drafts": 8,
    }


def test_events_and_lists_say_which_of_several_they_are() -> None:
    outputs = [output(scores=False), output(scores=False)]
    stream = NativeStream(outputs, several=True)
    (second,) = events_of(stream.feed(1, [messages.chunk(ids_of("b"), 1)]))
    (first,) = events_of(stream.feed(0, [messages.chunk(ids_of("a"), 1)]))
    assert [(each["index"], each["text"]) for each in (first, second)] == [(0, "a"), (1, "b")]
    assert stream.end() == b"data: [DONE]\n\n"

    outputs = [output(scores=False), output(scores=False)]
    body = NativeBody(outputs, several=True)
    body.feed(1, messages.sample([ids_of("b")]))
    body.feed(0, messages.sample([ids_of("a")]))
    documents = json.loads(body.body())
    assert [each["text"] for each in documents] == ["a", "b"]
    assert "index" not in documents[0]


def test_the_time_of_the_first_event_is_told_once() -> None:
    sequence = [messages.chunk(ids_of("a"), 1), messages.complete(ids_of("b"), 2)]
    first, last = streamed([[each] for each in sequence], scores=False)
    assert "response_sent_to_client_ts" in first["meta_info"]
    assert "response_sent_to_client_ts" not in last["meta_info"]


def test_a_message_without_anything_new_is_no_event() -> None:
    stream = NativeStream([output(scores=False)], several=False)
    assert stream.feed(0, [messages.chunk([], 0)]) == b""
    assert stream.feed(0, []) == b""


def test_an_error_ends_the_stream() -> None:
    data = NativeStream([output()], several=False).fail(EngineError("gone"))
    error, done = data.split(b"\n\n", 1)
    assert json.loads(error[6:])["error"]["message"] == "gone"
    assert done == b"data: [DONE]\n\n"


def test_each_piece_is_turned_into_json_once() -> None:
    """An event repeats all before it, but only as bytes."""
    rendered: list[int] = []

    def piece(token: int) -> bytes:
        rendered.append(token)
        return b"x"

    stream = NativeStream([output(piece=piece)], several=False)
    for i in range(50):
        stream.feed(0, [messages.chunk([7], i + 1, top=1)])
    # The token and its one alternative.
    assert len(rendered) == 2 * 50


@pytest.mark.parametrize(
    "kind", ["plain", "input_logprobs_top2", "token_ids_logprob", "logprobs_top3"]
)
def test_a_real_engines_messages_come_out_the_same_either_way(corpus: Path, kind: str) -> None:
    """One prompt, asked with stream and without, and what the engine said of it."""
    captures = [
        read_capture(corpus / "captures", f"{way}_{kind}") for way in ("stream", "nonstream")
    ]
    if captures[0].samples != captures[1].samples:
        pytest.skip("the two captures are of different answers")
    documents = []
    for capture in captures:
        request = capture.request
        sample = Sample(
            FACTORY,
            keep_ids=True,
            logprobs=request.return_logprob,
            input_logprobs=request.return_logprob and request.logprob_start_len >= 0,
            selected_logprobs=bool(request.token_ids_logprob),
        )
        shown = NativeOutput(
            sample,
            NativeRequest(
                id="id",
                prompt_ids=request.tokenized.input_ids,
                weight_version="",
                began=time.monotonic(),
                top=bool(request.top_logprobs_num),
                selected=bool(request.token_ids_logprob),
                start=request.logprob_start_len if request.return_logprob else -1,
            ),
        )
        for message in capture.messages:
            shown.feed([message.SerializeToString()])
        documents.append(json.loads(shown.document()))
        meta, (ids,) = documents[-1]["meta_info"], capture.samples
        assert documents[-1]["output_ids"] == ids
        assert meta["prompt_tokens"] == len(request.tokenized.input_ids)
        if not request.return_logprob:
            continue
        assert [token for _, token, _ in meta["output_token_logprobs"]] == ids
        if request.top_logprobs_num:
            assert [len(row) for row in meta["output_top_logprobs"]] == [
                request.top_logprobs_num
            ] * len(ids)
        if request.token_ids_logprob:
            assert [
                [token for _, token, _ in row] for row in meta["output_token_ids_logprobs"]
            ] == [list(request.token_ids_logprob)] * len(ids)
        if request.logprob_start_len >= 0:
            scored = meta["input_token_logprobs"]
            assert [token for _, token, _ in scored] == list(request.tokenized.input_ids)
            assert [value is None for value, _, _ in scored] == [True] + [False] * (len(scored) - 1)
            rows = meta["input_top_logprobs"]
            assert [row and len(row) for row in rows] == [None] + [2] * (len(scored) - 1)
    streamed_one, whole_one = (timeless(document) for document in documents)
    for document in (streamed_one, whole_one):
        del document["meta_info"]["cached_tokens"]
    assert streamed_one["text"] == whole_one["text"]
    # Between two runs the last digits of a float differ.
    assert _rounded(streamed_one) == _rounded(whole_one)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return value
