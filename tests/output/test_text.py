"""Text completions: stream and response say the same, whatever the cutting, tokens and all."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.events import DONE
from sglrouter.output.head import Head
from sglrouter.output.prompt_text import PromptText
from sglrouter.output.sample import Sample
from sglrouter.output.text import TextChoice, TextCompletion, TextStream
from tests.fast import messages
from tests.fast.reference import read_event
from tests.output import models

TOKENIZER = models.byte_level(("hello", " world", "日本", "\u2028"))
FACTORY = DetokenizerFactory(TOKENIZER)
VOCABULARY = TOKENIZER.get_vocab()
EOS = VOCABULARY[models.EOS]
JAPAN = next(token for token in VOCABULARY.values() if FACTORY.piece(token) == "日本".encode())
HEAD = Head(id="cmpl-1", created=1_700_000_000, model='m "\u2028')
BASE = {
    "id": HEAD.id,
    "object": "text_completion",
    "created": HEAD.created,
    "model": HEAD.model,
}
LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")

PROMPT = [*models.byte_ids(TOKENIZER, "é"), VOCABULARY["hello"]]
PROMPT_TEXT = "éhello"
SHOWN = PromptText(PROMPT_TEXT.encode(), (0, 0, 1))


def choice(
    *, echo: bool = False, logprobs: bool = False, scored: bool = False, **options: Any
) -> TextChoice:
    sample = Sample(
        FACTORY,
        eos_ids=[EOS],
        logprobs=logprobs or scored,
        input_logprobs=echo and logprobs,
        **options,
    )
    return TextChoice(sample, SHOWN if echo or logprobs else None, echo=echo, logprobs=logprobs)


def sequence_of(
    deltas: Sequence[Sequence[int]],
    style: messages.Style = messages.Style.REPEATED,
    *,
    top: int | None = None,
    echo: bool = False,
) -> list[bytes]:
    sent = messages.sample(deltas, style, top=top)
    if echo and top is not None:
        sent = messages.with_scores(sent, prompt=messages.prompt_scores(PROMPT, top))
    return sent


def events_of(stream: bytes) -> list[dict[str, Any]]:
    assert stream.endswith(DONE)
    parts = stream.removesuffix(DONE).split(b"\n\n")
    assert parts.pop() == b""
    return [read_event(part + b"\n\n") for part in parts]


def joined(events: Sequence[dict[str, Any]], count: int, *, logprobs: bool) -> list[dict[str, Any]]:
    """The choices that a client puts together from a stream."""
    choices: list[dict[str, Any]] = [
        {
            "index": index,
            "text": "",
            "logprobs": {name: [] for name in LISTS} if logprobs else None,
            "finish_reason": None,
        }
        for index in range(count)
    ]
    for event in events:
        assert {key: event[key] for key in BASE} == BASE
        (chunk,) = event["choices"]
        found = choices[chunk["index"]]
        assert found["finish_reason"] is None  # nothing comes after it
        assert chunk["text"] or chunk["logprobs"] or chunk["finish_reason"]
        found["text"] += chunk["text"]
        if chunk["logprobs"] is not None:
            for name in LISTS:
                found["logprobs"][name] += chunk["logprobs"][name]
        found["finish_reason"] = chunk["finish_reason"]
        if chunk["finish_reason"] is not None:
            found["matched_stop"] = chunk["matched_stop"]
    return choices


def check(
    samples: Sequence[list[bytes]],
    order: Sequence[tuple[int, int]] = (),
    *,
    per_prompt: int = 1,
    **options: Any,
) -> dict[str, Any]:
    """Streams the samples' messages in this order of (choice, how many at once).

    Returns:
        The response that is not streamed, once it equals the joined stream.
    """
    count = len(samples)
    choices = [choice(**options) for _ in samples]
    stream = TextStream(HEAD, choices, FACTORY.piece, per_prompt=per_prompt, include_usage=True)
    waiting = [list(sample) for sample in samples]
    said = stream.begin()
    for index, size in [*order, *((index, 1_000) for index in range(count))]:
        taken, waiting[index] = waiting[index][:size], waiting[index][size:]
        if choices[index].sample.finish_reason is None:
            said += stream.feed(index, taken)
    *events, last = events_of(said + stream.end())

    whole = TextCompletion(
        HEAD, [choice(**options) for _ in samples], FACTORY.piece, per_prompt=per_prompt
    )
    for index, sample in enumerate(samples):
        whole.feed(index, sample)
    body: dict[str, Any] = json.loads(whole.body())
    assert {key: body[key] for key in BASE} == BASE
    assert joined(events, count, logprobs=options.get("logprobs", False)) == body["choices"]
    assert last == {**BASE, "choices": [], "usage": last["usage"]}
    assert all(event["usage"] is None for event in events)
    if not any(each.sample.engine_goes_on for each in choices):
        assert last["usage"] == body["usage"]
    return body


tokens = st.sampled_from(
    [
        *models.byte_ids(TOKENIZER, "aé\n\u2028"),
        *(VOCABULARY[each] for each in sorted(VOCABULARY) if len(each) > 1),
    ]
)
orders = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=12)


@given(
    st.lists(st.lists(st.lists(tokens, max_size=3), max_size=5), min_size=1, max_size=3),
    st.sampled_from(list(messages.Style)),
    orders,
    st.sampled_from([(), ("a",), ("aa", "hello")]),
    st.booleans(),
    st.booleans(),
)
def test_stream_and_response_agree(
    samples: list[list[list[int]]],
    style: messages.Style,
    order: list[tuple[int, int]],
    stop: tuple[str, ...],
    echo: bool,
    logprobs: bool,
) -> None:
    top = 2 if logprobs else None
    sequences = [sequence_of(deltas, style, top=top, echo=echo) for deltas in samples]
    turns = [(index % len(samples), size) for index, size in order]
    body = check(sequences, turns, stop=stop, echo=echo, logprobs=logprobs)
    for found in body["choices"]:
        assert found["text"].startswith(PROMPT_TEXT if echo else "")
        if logprobs:
            check_places(found, echo=echo)


def check_places(found: dict[str, Any], *, echo: bool) -> None:
    """Whether each token of whole characters is where its offset says."""
    text = found["text"] if echo else PROMPT_TEXT + found["text"]
    logprobs = found["logprobs"]
    assert len({len(logprobs[name]) for name in LISTS}) == 1
    offsets = logprobs["text_offset"]
    assert offsets == sorted(offsets)
    for token, offset in zip(logprobs["tokens"], offsets, strict=True):
        assert (0 if echo else len(PROMPT_TEXT)) <= offset <= len(text)
        if not token.startswith("bytes:") and token != models.EOS:
            # A stop string may have cut it.
            assert token.startswith(text[offset : offset + len(token)])
    whole = [token for token in logprobs["tokens"] if not token.startswith("bytes:")]
    assert all("\ufffd" not in token for token in whole)


LONG = "a é日本 hello\u2028 world😀."


@pytest.mark.parametrize("echo", [False, True])
def test_every_cut_says_the_same(echo: bool) -> None:
    ids = [*models.byte_ids(TOKENIZER, LONG), VOCABULARY["hello"], EOS, JAPAN]
    whole = check([sequence_of([ids], top=1, echo=echo)], echo=echo, logprobs=True)
    for cut in range(1, len(ids)):
        parts = sequence_of([ids[:cut], ids[cut:]], top=1, echo=echo)
        turns = [(0, 1)] * len(parts)
        assert check([parts], turns, echo=echo, logprobs=True) == whole
    single = sequence_of([[each] for each in ids], top=1, echo=echo)
    assert check([single], [(0, 1)] * len(single), echo=echo, logprobs=True) == whole
    (found,) = whole["choices"]
    check_places(found, echo=echo)
    # Every token but the end of the text has its place, bytes where their character is.
    before = 0 if echo else len(PROMPT_TEXT)
    text = (PROMPT_TEXT if echo else "") + LONG
    bytes_at = [before + at for at, each in enumerate(text) for _ in each.encode()]
    bytes_at = [at for at in bytes_at if at >= len(PROMPT_TEXT)]
    end = len(PROMPT_TEXT) + len(LONG)
    expected = [*bytes_at, end, end + 5, end + 5]
    assert found["logprobs"]["text_offset"][len(PROMPT) if echo else 0 :] == expected


def test_the_form_of_a_response() -> None:
    first, second = models.byte_ids(TOKENIZER, "é")
    sequence = [messages.complete([first, second, VOCABULARY["hello"]], 3, "stop", matched=9)]
    assert check([sequence]) == {
        **BASE,
        "choices": [
            {
                "index": 0,
                "text": "éhello",
                "logprobs": None,
                "finish_reason": "stop",
                "matched_stop": 9,
            }
        ],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 3},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
    }


def test_logprobs_show_tokens_their_places_and_the_likeliest() -> None:
    hello = VOCABULARY["hello"]
    first, second = models.byte_ids(TOKENIZER, "é")
    sequence = sequence_of([[first, second, hello]], top=2)
    (found,) = check([sequence], logprobs=True)["choices"]
    lp = messages.logprob_of
    written = {each: FACTORY.piece(each).decode("utf-8", "replace") for each in range(hello + 2)}
    assert found["logprobs"] == {
        "tokens": [r"bytes:\xc3", r"bytes:\xa9", "hello"],
        "token_logprobs": [lp(first), lp(second), lp(hello)],
        "top_logprobs": [
            {r"bytes:\xc3": lp(first), r"bytes:\xc4": lp(first + 1)},
            {r"bytes:\xa9": lp(second), r"bytes:\xaa": lp(second + 1)},
            {"hello": lp(hello), written[hello + 1]: lp(hello + 1)},
        ],
        "text_offset": [6, 6, 7],
    }


def test_a_token_that_is_not_among_the_likeliest_is_added_to_them() -> None:
    (found,) = check([sequence_of([[40]], top=0)], logprobs=True)["choices"]
    piece = FACTORY.piece(40).decode()
    assert found["logprobs"]["top_logprobs"] == [{piece: messages.logprob_of(40)}]


def test_a_token_without_text_has_its_logprob_all_the_same() -> None:
    hello = VOCABULARY["hello"]
    sequence = sequence_of([[hello], [EOS]], top=0)
    (found,) = check([sequence], [(0, 1)] * 3, logprobs=True)["choices"]
    assert found["text"] == "hello"
    assert found["logprobs"]["tokens"] == ["hello", models.EOS]
    assert found["logprobs"]["text_offset"] == [6, 11]


def test_an_echo_with_logprobs_begins_with_the_prompts_tokens() -> None:
    lp = messages.logprob_of
    (found,) = check([sequence_of([[40]], top=1, echo=True)], echo=True, logprobs=True)["choices"]
    piece = FACTORY.piece(40).decode()
    assert found["text"] == PROMPT_TEXT + piece
    logprobs = found["logprobs"]
    assert logprobs["tokens"] == [r"bytes:\xc3", r"bytes:\xa9", "hello", piece]
    assert logprobs["token_logprobs"] == [None, *(lp(each) for each in (*PROMPT[1:], 40))]
    assert logprobs["top_logprobs"][0] is None
    assert logprobs["top_logprobs"][2] == {"hello": lp(PROMPT[2])}
    assert logprobs["text_offset"] == [0, 0, 1, 6]


def test_a_prompt_alone_is_scored() -> None:
    sequence = sequence_of([[]], messages.Style.NOT_STREAMED, top=1, echo=True)
    (found,) = check([sequence], echo=True, logprobs=True)["choices"]
    assert found["text"] == PROMPT_TEXT
    assert found["finish_reason"] == "length"
    assert len(found["logprobs"]["tokens"]) == len(PROMPT)


@pytest.mark.parametrize("scores", [None, 2])
def test_an_engine_that_does_not_score_the_prompt_has_failed(scores: int | None) -> None:
    sequence = sequence_of([[40]], top=1)
    if scores is not None:
        prompt = messages.prompt_scores(PROMPT[:scores])
        sequence = messages.with_scores(sequence, prompt=prompt)
    reader = choice(echo=True, logprobs=True)
    reader.feed(sequence)
    assert reader.sample.failure is not None
    assert f"scored {scores or 0} of 3" in reader.sample.failure.message


def test_an_aborted_sample_still_echoes_its_prompt() -> None:
    reader = choice(echo=True, logprobs=True)
    reader.sample.abort()
    assert reader.feed([]) == (PROMPT_TEXT.encode(), [])
    assert reader.sample.failure is None
    assert reader.sample.finish_reason == "abort"


def test_a_logprob_that_json_cannot_say_is_the_least() -> None:
    scores = messages.logprobs([40, 41], top=1)
    scores.token_logprobs[:] = [-math.inf, math.nan]
    scores.top_logprobs[0].values[:] = [-math.inf]
    part = (
        messages.field(1, 40)
        + messages.field(1, 41)
        + messages.field(5, scores.SerializeToString())
    )
    sequence = [messages.field(2, part), messages.complete([41], 2)]
    (found,) = check([sequence], logprobs=True)["choices"]
    assert found["logprobs"]["token_logprobs"] == [-9999.0, -9999.0]
    assert found["logprobs"]["top_logprobs"][0] == {FACTORY.piece(40).decode(): -9999.0}


def test_each_prompt_counts_once_and_every_sample() -> None:
    sizes = [(7, 1), (7, 2), (20, 4), (20, 8)]
    sequences = [
        [messages.complete([40] * made, made, prompt_tokens=prompt)] for prompt, made in sizes
    ]
    assert check(sequences, per_prompt=2)["usage"] == {
        "prompt_tokens": 27,
        "completion_tokens": 15,
        "total_tokens": 42,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def test_the_best_samples_of_each_prompt_are_returned_best_first() -> None:
    # Their ids tell their log probabilities, so the mean is what counts and not the sum.
    first = [[44], [40, 40, 40], [42], []]
    second = [[40], [50], [45, 45], [46]]
    samples = [choice(scored=True) for _ in (*first, *second)]
    whole = TextCompletion(HEAD, samples, FACTORY.piece, per_prompt=4, best=2)
    for index, ids in enumerate([*first, *second]):
        whole.feed(index, messages.sample([ids], messages.Style.NOT_STREAMED, top=0))
    body = json.loads(whole.body())
    piece = {each: FACTORY.piece(each).decode() for each in range(40, 51)}
    assert [(found["index"], found["text"]) for found in body["choices"]] == [
        (0, piece[40] * 3),
        (1, piece[42]),
        (2, piece[40]),
        (3, piece[45] * 2),
    ]
    assert all(found["logprobs"] is None for found in body["choices"])
    assert body["usage"]["completion_tokens"] == 10
    assert body["usage"]["prompt_tokens"] == 14


def test_continuous_usage_is_that_of_the_choice() -> None:
    choices = [choice(echo=True) for _ in range(2)]
    stream = TextStream(HEAD, choices, FACTORY.piece, continuous_usage=True)
    stream.feed(1, [messages.chunk([40, 41], 2)])
    said = stream.feed(0, [messages.chunk([40], 1), messages.complete([40], 1)])
    content, end = events_of(said + DONE)
    for event in (content, end):
        assert event["usage"]["completion_tokens"] == 1
        assert event["usage"]["prompt_tokens"] == 7
    assert stream.end() == DONE


def test_an_echo_is_the_first_event_of_each_choice() -> None:
    choices = [choice(echo=True) for _ in range(3)]
    events = events_of(TextStream(HEAD, choices, FACTORY.piece).begin() + DONE)
    assert [event["choices"][0]["index"] for event in events] == [0, 1, 2]
    assert {event["choices"][0]["text"] for event in events} == {PROMPT_TEXT}
    assert TextStream(HEAD, [choice()], FACTORY.piece).begin() == b""


def test_no_event_is_made_of_nothing() -> None:
    stream = TextStream(HEAD, [choice()], FACTORY.piece)
    assert stream.feed(0, []) == b""
    assert stream.feed(0, [messages.chunk([], 0)]) == b""
    cut = models.byte_ids(TOKENIZER, "é")[:1]
    assert stream.feed(0, [messages.chunk(cut, 1)]) == b""


def test_an_error_ends_the_stream_after_the_text_before_it() -> None:
    reader = choice()
    stream = TextStream(HEAD, [reader], FACTORY.piece, include_usage=True)
    events = stream.feed(0, [messages.chunk([40], 1), messages.failure("lost\u2028", "503")])
    assert reader.sample.failure is not None
    content, error = events_of(events + stream.fail(reader.sample.failure))
    assert content["choices"][0]["text"] == FACTORY.piece(40).decode()
    assert error["error"]["code"] == "engine_unavailable"
