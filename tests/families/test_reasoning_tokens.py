"""Reasoning tokens are counted alike, however the answer comes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.families.reading import Reading
from sglrouter.families.registry import REASONING_FORMATS, TOOL_FORMATS
from sglrouter.output.chat import ChatCompletion, ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.sample import Sample
from tests.fast import messages
from tests.output import models
from tests.output.test_sink import EOS, FACTORY, HEAD, TOKENIZER, Direct

THINK = REASONING_FORMATS["qwen3"]
INSIDE = Reading(reasoning=THINK, inside=True)
OUTSIDE = Reading(reasoning=THINK)
WORD = TOKENIZER.get_vocab_size()  # no such token: it has no text


def ids_of(text: str) -> list[int]:
    """A token for each byte."""
    return models.byte_ids(TOKENIZER, text)


def sample(factory: DetokenizerFactory = FACTORY, stop: Sequence[str] = ()) -> Sample:
    return Sample(factory, eos_ids=[EOS], stop=stop)


def whole(reading: Reading, ids: Sequence[int], reason: str, stop: Sequence[str] = ()) -> int:
    choice = Choice(sample(stop=stop), reading.parser())
    completion = ChatCompletion(HEAD, [choice], FACTORY.piece)
    completion.feed(0, messages.sample([ids], messages.Style.NOT_STREAMED, reason))
    usage = json.loads(completion.body())["usage"]
    count = usage["completion_tokens_details"]["reasoning_tokens"]
    assert isinstance(count, int)
    return count


def streamed(
    reading: Reading,
    deltas: Sequence[Sequence[int]],
    reason: str,
    batches: Sequence[int] = (),
    stop: Sequence[str] = (),
) -> int:
    """Through feed() alone, or with as many messages at a time through the short way."""
    sent = messages.sample(deltas, reason=reason)
    if not batches:
        choice = Choice(sample(stop=stop), reading.parser())
        stream = ChatStream(HEAD, [choice], FACTORY.piece)
        for message in sent:
            if choice.finish_reason is None:
                stream.feed(0, [message])
        return choice.sample.usage.reasoning_tokens
    direct = Direct(sample(stop=stop), reading.parser())
    with direct.ours, direct.theirs:
        at = 0
        while sent and direct.sample.finish_reason is None:
            count = batches[at % len(batches)]
            at += 1
            batch, sent = sent[:count], sent[count:]
            if not direct.sink.feed(batch):
                direct.stream.feed(0, batch)
            direct.received()
        return direct.sample.usage.reasoning_tokens


def counts(
    reading: Reading, ids: Sequence[int], reason: str = "stop", stop: Sequence[str] = ()
) -> set[int]:
    """The counts of an answer that comes in different ways."""
    single = [[each] for each in ids]
    pairs = [list(ids[at : at + 2]) for at in range(0, len(ids), 2)]
    found = {whole(reading, ids, reason, stop)}
    for deltas in (single, pairs, [list(ids)], [list(ids[:5]), list(ids[5:])]):
        for batches in ((), (1,), (3,), (1000,)):
            found.add(streamed(reading, deltas, reason, batches, stop))
    return found


@pytest.mark.parametrize(
    ("reading", "before", "after"),
    [
        (INSIDE, "Hm é.</think>", "\n\nYes."),
        (INSIDE, "</think>", "Yes."),
        (OUTSIDE, "<think>Hm 😀.</think>", "Yes </think>"),
        (OUTSIDE, " \n<think></think>", ""),
        (OUTSIDE, "", "Yes <think> no."),
        (INSIDE, "Hm.<tool_call>", '{"name": "f", "arguments": {}}</tool_call>'),
        (
            Reading(calls=TOOL_FORMATS["gpt-oss"]),
            "<|channel|>analysis<|message|>Hm.<|end|>",
            "<|start|>assistant<|channel|>final<|message|>Yes.",
        ),
        (
            Reading(reasoning=REASONING_FORMATS["kimi_k3"], inside=True),
            "Hm.<|close|>think<|sep|>",
            "<|open|>response<|sep|>Yes.",
        ),
        (
            Reading(reasoning=REASONING_FORMATS["kimi_k3"], inside=True),
            "",
            "Yes.<|close|>response<|sep|><|close|>message<|sep|>",
        ),
        (Reading(reasoning=THINK, inside=True, as_json=True), "[1] is it.</think>", "[1]"),
        (Reading(reasoning=THINK, inside=True, as_json=True), "", '{"a": "</think>"}'),
    ],
)
def test_up_to_the_token_that_ends_it(reading: Reading, before: str, after: str) -> None:
    assert counts(reading, [*ids_of(before + after), EOS]) == {len(ids_of(before))}


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_without_an_end_all_tokens_are(reason: str) -> None:
    ids = [*ids_of("Hm é"), EOS] if reason == "stop" else ids_of("Hm é")
    assert counts(INSIDE, ids, reason) == {len(ids)}
    ids = [*ids_of("<think>Hm"), *([EOS] if reason == "stop" else [])]
    assert counts(OUTSIDE, ids, reason) == {len(ids)}


def test_a_token_that_goes_beyond_the_end_counts() -> None:
    tokenizer = models.byte_level(("k>Yes",))
    (last,) = models.ids_of(tokenizer, "k>Yes")
    ids = [*models.byte_ids(tokenizer, "Hm.</thin"), last, *models.byte_ids(tokenizer, "!")]
    factory = DetokenizerFactory(tokenizer)
    for deltas in ([ids], [[each] for each in ids]):
        choice = Choice(Sample(factory), INSIDE.parser())
        for message in messages.sample(deltas, reason="length"):
            choice.feed([message])
        assert choice.sample.usage.reasoning_tokens == len(ids) - 1


def test_a_library_that_decodes_counts_alike() -> None:
    tokenizer = models.wordpiece()
    ids = [token for token in range(12) if token != 10]
    found = set()
    for deltas in ([ids], [[each] for each in ids]):
        choice = Choice(Sample(DetokenizerFactory(tokenizer)), INSIDE.parser())
        for message in messages.sample(deltas, reason="length"):
            choice.feed([message])
        found.add(choice.sample.usage.reasoning_tokens)
    assert found == {len(ids)}


@given(
    st.lists(
        st.sampled_from(
            ["<think>", "</think>", "</thi", "a", "é", "😀", "\n", "<tool_call>", "stop"]
        )
        | st.sampled_from([[EOS], [WORD], [200], [130, 131]]),
        max_size=8,
    ),
    st.booleans(),
    st.sampled_from(["stop", "length"]),
    st.booleans(),
)
def test_any_answer_counts_alike(
    parts: list[str | list[int]], inside: bool, reason: str, with_calls: bool
) -> None:
    ids = [token for part in parts for token in (ids_of(part) if isinstance(part, str) else part)]
    ids = ids or [40]
    reading = Reading(
        reasoning=THINK, inside=inside, calls=TOOL_FORMATS["qwen25"] if with_calls else None
    )
    assert len(counts(reading, ids, reason)) == 1
