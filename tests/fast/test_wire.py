"""GenerateReader against the protobuf messages it does without."""

from __future__ import annotations

import base64
import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglrouter._fast.wire import GenerateReader
from sglrouter._proto import scheduler
from tests.fast import messages, reference
from tests.fast.messages import Style, field
from tests.fast.profile import soak

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

uint32 = st.integers(0, 2**32 - 1)
small = st.integers(0, 300)
float32 = st.floats(width=32, allow_nan=False)
alternatives = st.builds(
    scheduler.TopLogProbs,
    token_ids=st.lists(small, max_size=3),
    values=st.lists(float32, max_size=3),
)
output_logprobs = st.builds(
    scheduler.OutputLogProbs,
    token_logprobs=st.lists(float32, max_size=4),
    token_ids=st.lists(uint32, max_size=4),
    top_logprobs=st.lists(alternatives, max_size=4),
    token_ids_logprobs=st.lists(alternatives, max_size=6),
)
input_logprobs = st.builds(
    scheduler.InputLogProbs,
    token_logprobs=st.lists(
        st.builds(scheduler.InputTokenLogProb, value=st.none() | float32), max_size=3
    ),
    token_ids=st.lists(small, max_size=3),
    top_logprobs=st.lists(alternatives, max_size=3),
)
chunks = st.builds(
    scheduler.GenerateStreamChunk,
    token_ids=st.lists(uint32, max_size=5),
    prompt_tokens=small,
    completion_tokens=small,
    cached_tokens=small,
    output_logprobs=st.none() | output_logprobs,
    hidden_states=st.lists(float32, max_size=2),
    input_logprobs=st.none() | input_logprobs,
    index=st.integers(0, 3),
    reasoning_tokens=small,
)


@st.composite
def completes(draw: st.DrawFn) -> scheduler.GenerateComplete:
    message = scheduler.GenerateComplete(
        output_ids=draw(st.lists(uint32, max_size=6)),
        finish_reason=draw(st.sampled_from(["", "stop", "length", "abort"])),
        prompt_tokens=draw(small),
        completion_tokens=draw(st.integers(0, 12)),
        cached_tokens=draw(small),
        output_logprobs=draw(st.none() | output_logprobs),
        all_hidden_states=draw(
            st.lists(st.builds(scheduler.HiddenStates, layer=small), max_size=2)
        ),
        input_logprobs=draw(st.none() | input_logprobs),
        index=draw(st.integers(0, 3)),
        reasoning_tokens=draw(small),
        spec_accepted_tokens=draw(small),
        spec_draft_tokens=draw(small),
    )
    matched = draw(st.none() | uint32 | st.text(max_size=5))
    if isinstance(matched, int):
        message.matched_token_id = matched
    elif matched is not None:
        message.matched_stop_str = matched
    return message


responses = st.one_of(
    st.builds(scheduler.GenerateResponse, request_id=st.text(max_size=5), chunk=chunks),
    st.builds(scheduler.GenerateResponse, request_id=st.text(max_size=5), complete=completes()),
).map(lambda response: response.SerializeToString())
failures = st.builds(messages.failure, st.text(max_size=10), st.sampled_from(["", "400", "503"]))


def everything() -> GenerateReader:
    """A reader of all there is."""
    return GenerateReader(True, keep_ids=True, want_input_logprobs=True, want_selected=True)


def check_agrees(read: GenerateReader, expected: reference.GenerateReader) -> None:
    """Compares everything but the ids and logprobs that can be taken."""
    assert read.output_ids == expected.ids
    for name in (
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "finish_reason",
        "matched_stop",
        "failure",
        "spec_accepted_tokens",
        "spec_draft_tokens",
        "next_top",
        "input_logprobs",
        "selected_logprobs",
    ):
        assert getattr(read, name) == getattr(expected, name), name


def read_all(sequence: Sequence[bytes]) -> tuple[list[int], list[reference.Logprob]]:
    reader = GenerateReader(want_logprobs=True)
    for message in sequence:
        reader.feed(message)
    return reader.take_ids(), reader.take_logprobs()


@pytest.mark.soak
@soak
@given(st.lists(responses | failures, max_size=6))
def test_agrees_with_protobuf_after_every_message(sequence: list[bytes]) -> None:
    reader = everything()
    expected = reference.GenerateReader()
    ids: list[int] = []
    logprobs: list[reference.Logprob] = []
    for message in sequence:
        reader.feed(message)
        expected.feed(message)
        ids += reader.take_ids()
        logprobs += reader.take_logprobs()
        assert ids == expected.ids
        assert logprobs == expected.logprobs
        check_agrees(reader, expected)
    assert read_all(sequence) == (ids, logprobs)


@given(st.lists(responses, max_size=3))
def test_what_is_not_wanted_is_not_decoded(sequence: list[bytes]) -> None:
    reader = GenerateReader()
    for message in sequence:
        reader.feed(message)
    assert not any([reader.take_logprobs(), reader.output_ids, reader.selected_logprobs])
    assert reader.input_logprobs is None
    assert reader.next_top is None
    assert reader.take_ids() == read_all(sequence)[0]


WANTS = ("want_logprobs", "keep_ids", "want_input_logprobs", "want_selected")


@pytest.mark.soak
@soak
@given(st.lists(responses, max_size=4), st.tuples(*[st.booleans()] * 4))
def test_what_is_wanted_does_not_depend_on_what_else_is(
    sequence: list[bytes], wanted: tuple[bool, ...]
) -> None:
    reader, full = GenerateReader(**dict(zip(WANTS, wanted, strict=True))), everything()
    for message in sequence:
        reader.feed(message)
        full.feed(message)
    logprobs, keep_ids, input_logprobs, selected = wanted
    assert reader.take_ids() == full.take_ids()
    assert reader.take_logprobs() == (full.take_logprobs() if logprobs else [])
    assert reader.next_top == (full.next_top if logprobs else None)
    assert reader.output_ids == (full.output_ids if keep_ids else [])
    assert reader.input_logprobs == (full.input_logprobs if input_logprobs else None)
    assert reader.selected_logprobs == (full.selected_logprobs if selected else [])


@pytest.mark.parametrize("all_rows", [True, False])
@pytest.mark.parametrize("prompt_again", [True, False])
@pytest.mark.parametrize("style", Style)
@given(deltas=st.lists(st.lists(small, min_size=1, max_size=4), min_size=1, max_size=5))
def test_every_row_and_prompt_score_comes_once_in_every_engine_style(
    style: Style, prompt_again: bool, all_rows: bool, deltas: list[list[int]]
) -> None:
    ids = [token for delta in deltas for token in delta]
    prompt = messages.prompt_scores([3, 1, 4], top=2)
    reader = everything()
    for message in messages.with_scores(
        messages.sample(deltas, style, top=0),
        selected=[7, 8],
        prompt=prompt,
        all_rows=all_rows,
        prompt_again=prompt_again,
    ):
        reader.feed(message)
        reader.take_ids()  # kept all the same
    assert reader.output_ids == ids
    assert reader.input_logprobs == prompt
    assert reader.selected_logprobs == [
        messages.selected_row(position, [7, 8]) for position in range(len(ids))
    ]


def test_rows_that_no_chunk_has_come_with_the_end() -> None:
    reader = everything()
    for delta in ([1], [2, 3]):
        reader.feed(messages.chunk(delta, delta[-1], top=0))
    assert reader.selected_logprobs == []
    (end,) = messages.with_scores([messages.complete([2, 3], 3, top=0)], selected=[7])
    reader.feed(end)
    assert reader.selected_logprobs == [messages.selected_row(each, [7]) for each in range(3)]


@pytest.mark.parametrize("stream", [True, False])
def test_a_prefill_has_one_row_for_the_token_that_would_come(stream: bool) -> None:
    scores = scheduler.OutputLogProbs(
        top_logprobs=[scheduler.TopLogProbs(token_ids=[5, 6], values=[-0.5, -1.5])],
        token_ids_logprobs=[scheduler.TopLogProbs(token_ids=[9], values=[-2.0])],
    )
    parts = [
        scheduler.GenerateResponse(chunk=scheduler.GenerateStreamChunk(output_logprobs=scores)),
        scheduler.GenerateResponse(
            complete=scheduler.GenerateComplete(finish_reason="length", output_logprobs=scores)
        ),
    ]
    reader = everything()
    for part in parts if stream else parts[1:]:
        reader.feed(part.SerializeToString())
    assert reader.next_top == [(5, -0.5), (6, -1.5)]
    assert reader.selected_logprobs == [[(9, -2.0)]]
    assert (reader.take_ids(), reader.take_logprobs()) == ([], [])


@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_odd_values_of_the_prompt_and_of_selected_ids_come_through(value: float) -> None:
    reader = everything()
    row = scheduler.TopLogProbs(token_ids=[9], values=[value])
    reader.feed(
        scheduler.GenerateResponse(
            chunk=scheduler.GenerateStreamChunk(
                token_ids=[1],
                output_logprobs=scheduler.OutputLogProbs(token_ids_logprobs=[row]),
                input_logprobs=scheduler.InputLogProbs(
                    token_ids=[2, 3],
                    token_logprobs=[
                        scheduler.InputTokenLogProb(),
                        scheduler.InputTokenLogProb(value=value),
                    ],
                ),
            )
        ).SerializeToString()
    )
    assert reader.input_logprobs is not None
    assert reader.input_logprobs[0] == (2, None, [])
    found = [reader.input_logprobs[1][1], reader.selected_logprobs[0][0][1]]
    assert [str(each) for each in found] == [str(value)] * 2


@pytest.mark.parametrize("top", [None, 0, 3])
@pytest.mark.parametrize("style", Style)
@given(deltas=st.lists(st.lists(small, min_size=1, max_size=4), max_size=5))
def test_every_id_and_logprob_comes_once_in_every_engine_style(
    style: Style, top: int | None, deltas: list[list[int]]
) -> None:
    ids = [token for delta in deltas for token in delta]
    read, logprobs = read_all(messages.sample(deltas, style, top=top))
    assert read == ids
    assert [token for token, _, _ in logprobs] == ([] if top is None else ids)
    for token, logprob, alternatives in logprobs:
        assert logprob == messages.logprob_of(token)
        assert [each for each, _ in alternatives] == list(range(token, token + (top or 0)))
        assert all(value == messages.logprob_of(each) for each, value in alternatives)


@pytest.mark.parametrize(
    ("sequence", "ids"),
    [
        ([messages.complete([1, 2], 0, top=0)], [1, 2]),
        ([messages.chunk([1, 2], 0, top=0), messages.complete([2], 0, top=0)], [1, 2]),
        ([messages.chunk([1], 1, top=0), messages.complete([2, 3], 3, top=0)], [1, 2, 3]),
        ([messages.chunk([1], 1, top=0), messages.complete([1, 2, 3], 3, top=0)], [1, 2, 3]),
        ([messages.chunk([1], 1, top=0), messages.complete([3], 9, top=0)], [1, 3]),
        ([messages.chunk([1, 2, 3], 3, top=0), messages.complete([3], 1, top=0)], [1, 2, 3]),
        ([messages.chunk([], 0, top=0), messages.complete([], 0, top=0)], []),
        ([messages.complete([], 5, top=0)], []),
    ],
    ids=[
        "no count, nothing before",
        "no count, ids before",
        "the tail is missing",
        "only the tail of the whole",
        "a count of more than was sent",
        "a count of less than was sent",
        "no output",
        "a count without ids",
    ],
)
def test_complete_adds_what_its_count_says_is_missing(
    sequence: list[bytes], ids: list[int]
) -> None:
    read, logprobs = read_all(sequence)
    assert read == ids
    assert [token for token, _, _ in logprobs] == ids


def test_ids_taken_or_not_count_as_received() -> None:
    reader = GenerateReader()
    reader.feed(messages.chunk([1, 2], 2))
    assert reader.take_ids() == [1, 2]
    reader.feed(messages.complete([2], 2))
    assert reader.take_ids() == []


@given(st.lists(uint32, max_size=6), st.integers(0, 6))
def test_packed_and_unpacked_ids_are_the_same(ids: list[int], cut: int) -> None:
    packed = field(1, b"".join(map(messages.varint, ids[:cut])))
    unpacked = b"".join(field(1, token) for token in ids[cut:])
    assert read_all([field(2, packed + unpacked)])[0] == ids
    assert read_all([field(3, packed + unpacked + field(4, len(ids)))])[0] == ids


@given(st.lists(st.tuples(small, float32), max_size=4))
def test_packed_and_unpacked_logprobs_are_the_same(entries: list[tuple[int, float]]) -> None:
    unpacked = b"".join(field(2, token) + field(1, float(value)) for token, value in entries)
    packed = scheduler.OutputLogProbs(
        token_ids=[token for token, _ in entries], token_logprobs=[value for _, value in entries]
    ).SerializeToString()
    ids = b"".join(field(1, token) for token, _ in entries)
    expected: list[reference.Logprob] = [(token, value, []) for token, value in entries]
    assert read_all([field(2, ids + field(5, unpacked))])[1] == expected
    assert read_all([field(2, ids + field(5, packed))])[1] == expected


unknown = st.lists(
    st.sampled_from(
        [
            field(200, 2**64 - 1),
            field(201, b"\xff\x00unknown"),
            field(202, 1.5),
            messages.varint(203 << 3 | 1) + b"12345678",
        ]
    ),
    max_size=3,
).map(b"".join)


@given(unknown, unknown, unknown, unknown)
def test_unknown_fields_are_skipped_at_every_level(a: bytes, b: bytes, c: bytes, d: bytes) -> None:
    alternative = d + field(2, 8)
    logprobs = c + field(2, 7) + field(3, alternative + field(1, -2.0) + d) + field(1, -1.0) + c
    body = b + field(1, 7) + field(5, logprobs) + b
    assert read_all([a + field(2, body) + a]) == ([7], [(7, -1.0, [(8, -2.0)])])


def test_a_field_of_another_wire_type_is_skipped() -> None:
    wrong = field(2, b"xx") + field(3, 1.0) + field(5, 9) + field(1, 1.0)
    reader = GenerateReader(want_logprobs=True)
    reader.feed(field(2, wrong) + field(3, field(2, 5) + field(8, b"x")) + field(1, 5))
    assert (reader.take_ids(), reader.take_logprobs(), reader.prompt_tokens) == ([], [], 0)
    assert (reader.finish_reason, reader.matched_stop) == ("", None)


@pytest.mark.parametrize("matched", [None, 0, 5, 2**32 - 1, "", "stop\u2028é"])
def test_matched_stop_is_told_from_its_absence(matched: int | str | None) -> None:
    reader = GenerateReader()
    reader.feed(messages.complete([1], 1, "stop", matched=matched))
    assert reader.matched_stop == matched
    assert type(reader.matched_stop) is type(matched)


@pytest.mark.parametrize("status", ["", "400"])
def test_a_failure_inside_the_response_is_reported(status: str) -> None:
    reader = GenerateReader()
    reader.feed(messages.chunk([1], 1))
    assert reader.failure is None
    reader.feed(messages.failure("too long: é", status))
    assert reader.failure == ("too long: é", status)
    assert reader.take_ids() == [1]


@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_logprobs_need_not_be_finite(value: float) -> None:
    logprobs = scheduler.OutputLogProbs(token_ids=[1], token_logprobs=[value])
    part = field(1, 1) + field(5, logprobs.SerializeToString())
    _, [(_, read, _)] = read_all([field(2, part)])
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_totals_stay_where_a_message_leaves_them_out() -> None:
    reader = GenerateReader()
    reader.feed(messages.chunk([1], 1, prompt_tokens=9))
    reader.feed(field(2, field(1, 5)))
    assert (reader.prompt_tokens, reader.completion_tokens) == (9, 1)


@pytest.mark.parametrize(
    "message",
    [
        b"\x80",
        b"\x12\x05\x0a",
        b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x12\xff\xff\xff\xff\x0f",
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\x0b",
        b"\x0e\x00",
        b"\x02\x00",
        b"\xff\xff\xff\xff\x7f\x00",
        field(2, b"\x0a\x05\x01"),
        field(2, b"\x0a\x01\x80"),
        field(2, b"\x2a\x02\x0a\x08"),
        field(3, b"\x12\x7f"),
        field(2, b"\x3a\x02\x0a\x08"),
        field(3, b"\x52\x04\x1a\x02\x0a\x08"),
        field(2, b"\x2a\x04\x22\x02\x0a\x08"),
        field(4, b"\x0a\x7f"),
    ],
)
def test_malformed_messages_raise(message: bytes) -> None:
    with pytest.raises(ValueError, match="malformed engine message"):
        everything().feed(message)


def feed_hostile(message: bytes) -> None:
    reader = everything()
    with suppress(ValueError):
        reader.feed(message)
    # Whatever was read came out of the message.
    assert len(reader.output_ids) <= len(message)
    assert len(reader.input_logprobs or []) <= len(message)
    assert len(reader.selected_logprobs) <= len(message)
    assert len(reader.take_ids()) <= len(message)
    assert len(reader.take_logprobs()) <= len(message)


@given(responses | failures)
def test_every_truncation_parses_or_raises(message: bytes) -> None:
    for size in range(len(message)):
        feed_hostile(message[:size])


@pytest.mark.soak
@soak
@given(st.binary(max_size=200))
@example(b"\x12" + b"\x80" * 9 + b"\x01")
def test_random_bytes_parse_or_raise(message: bytes) -> None:
    feed_hostile(message)
    feed_hostile(field(2, message))
    feed_hostile(field(3, message))
    feed_hostile(field(2, field(5, message)))
    feed_hostile(field(2, field(5, field(3, message))))
    feed_hostile(field(2, field(5, field(4, message))))
    feed_hostile(field(2, field(7, message)))
    feed_hostile(field(3, field(10, field(1, message))))


@pytest.mark.soak
@soak
@given(responses, st.data())
def test_damaged_messages_parse_or_raise(message: bytes, data: st.DataObject) -> None:
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            at = data.draw(st.integers(0, len(damaged) - 1))
            damaged[at] = data.draw(st.integers(0, 255))
    feed_hostile(bytes(damaged))


def test_only_bytes_are_read() -> None:
    with pytest.raises(TypeError):
        GenerateReader().feed(None)  # type: ignore[arg-type]


def samples_of(capture: Path) -> list[list[bytes]]:
    """A capture's Generate responses, those of each index apart."""
    samples: dict[int, list[bytes]] = {}
    for line in capture.read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "request" and row["rpc"] != "Generate":
            return []
        if row["kind"] == "msg":
            message = base64.b64decode(row["b64"])
            response = scheduler.GenerateResponse.FromString(message)
            part = response.complete if response.HasField("complete") else response.chunk
            samples.setdefault(part.index, []).append(message)
    return list(samples.values())


# Where the messages of several samples cannot be told apart: those of one call that is not
# streamed, and two calls with one request id.
CROSSED = ("nonstream_n2", "nonstream_n4_serial", "dup_id_second")


@pytest.mark.corpus
def test_agrees_with_protobuf_on_what_a_real_engine_sent(corpus: Path) -> None:
    tokens = prompts = rows = prefills = 0
    for capture in sorted((corpus / "captures").glob("*.jsonl")):
        if capture.stem in ("grpc_health_v1", "keepalive_11s"):
            continue  # no calls of the scheduler
        for sample in samples_of(capture):
            reader = everything()
            expected = reference.GenerateReader()
            for message in sample:
                reader.feed(message)
                expected.feed(message)
                check_agrees(reader, expected)
            ids, logprobs = reader.take_ids(), reader.take_logprobs()
            assert ids == expected.ids, capture.stem
            assert logprobs == expected.logprobs, capture.stem
            if logprobs:
                assert [token for token, _, _ in logprobs] == ids, capture.stem
            if reader.finish_reason is not None and capture.stem not in CROSSED:
                assert len(ids) == reader.completion_tokens, capture.stem
            if reader.selected_logprobs:
                assert len(reader.selected_logprobs) == len(ids), capture.stem
            if reader.input_logprobs is not None:
                assert len(reader.input_logprobs) == reader.prompt_tokens, capture.stem
                assert [value is None for _, value, _ in reader.input_logprobs].count(True) == 1
            tokens += len(ids)
            prompts += reader.input_logprobs is not None
            rows += len(reader.selected_logprobs)
            prefills += reader.next_top is not None
    assert tokens > 1000
    assert min(prompts, rows, prefills) > 0
