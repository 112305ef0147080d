"""One sample from messages to text: the law that cutting does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sse import ChunkFramer
from sglrouter._proto import scheduler
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.sample import PromptLogprob, Sample, Speculation, TokenLogprob
from tests.fast import messages, reference
from tests.fast.messages import Style
from tests.fast.profile import soak
from tests.output import models

WORDS = ("ab", "ba", "abab", "xé", "日本", " end")
TOKENIZER = models.byte_level(WORDS)
FACTORY = DetokenizerFactory(TOKENIZER)
SPM = models.byte_fallback(strip=True)
SPM_FACTORY = DetokenizerFactory(SPM)
EOS = TOKENIZER.get_vocab()[models.EOS]


def ids_of(text: str) -> list[int]:
    """Text in single bytes."""
    return models.byte_ids(TOKENIZER, text)


class Result(NamedTuple):
    """All that a sample came to."""

    text: bytes
    logprobs: list[TokenLogprob]
    finish_reason: str | None
    matched_stop: int | str | None
    failure: str | None


def run(sample: Sample, parts: Sequence[Sequence[bytes]]) -> Result:
    """Feeds messages until the sample is over."""
    text, logprobs = b"", []
    for part in parts:
        fresh, entries = sample.feed(part)
        fresh.decode()  # whole characters
        text += fresh
        logprobs += entries
        if sample.finish_reason is not None or sample.failure is not None:
            break
    failure = sample.failure.message if sample.failure else None
    return Result(text, logprobs, sample.finish_reason, sample.matched_stop, failure)


@st.composite
def cut_up(draw: st.DrawFn, whole: Sequence[Any]) -> list[Sequence[Any]]:
    """A sequence in pieces, empty ones among them."""
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


VOCABULARY = TOKENIZER.get_vocab()
tokens = st.sampled_from(
    [
        *(VOCABULARY[letter] for letter in "abxÃ©æĹ¥"),
        *models.ids_of(TOKENIZER, "ab", "ba", "abab"),
        *[EOS] * 4,
        len(VOCABULARY) + 3,
    ]
)
stops = st.sampled_from(["ab", "ba", "aba", "x", "é", "b日", "bbbbbb"])
options = st.fixed_dictionaries(
    {
        "eos_ids": st.just([EOS]),
        "stop": st.lists(stops, max_size=3),
        "stop_token_ids": st.sampled_from([(), (VOCABULARY["x"],)]),
        "ignore_eos": st.booleans(),
        "keep_stop": st.booleans(),
        "skip_special": st.booleans(),
    }
)
ends = st.sampled_from([("length", None), ("stop", EOS), ("stop", "x"), ("", None)])


def expected(
    ids: Sequence[int], reason: str, matched: int | str | None, kwargs: dict[str, Any], top: int
) -> Result:
    """What the sample is, by definition."""
    stop_ids = () if kwargs["ignore_eos"] else {EOS, *kwargs["stop_token_ids"]}
    keep = kwargs["keep_stop"]
    pieces: list[bytes | None] = [FACTORY.piece(i) for i in range(len(VOCABULARY))]
    whole = reference.detokenize(
        reference.Vocabulary(pieces, frozenset([EOS])),
        ids,
        skip_special=kwargs["skip_special"],
        stop_ids=stop_ids,
        stopped=reason != "length" and not keep,
    )
    text, stop = reference.cut_at_stop(
        whole.data, [each.encode() for each in kwargs["stop"]], keep=keep
    )
    entries = [
        TokenLogprob(
            token,
            messages.logprob_of(token),
            [(each, messages.logprob_of(each)) for each in range(token, token + top)],
        )
        for token, start in zip(ids, whole.starts, strict=False)
        if stop is None or start < len(text)
    ]
    if stop is not None:
        return Result(text, entries, "stop", stop.decode(), None)
    return Result(text, entries, reason or "stop", matched, None)


@pytest.mark.soak
@soak
@given(
    data=st.data(),
    ids=st.lists(tokens, max_size=14),
    end=ends,
    kwargs=options,
    style=st.sampled_from(Style),
    top=st.integers(0, 2),
)
def test_cutting_changes_nothing(
    data: st.DataObject,
    ids: list[int],
    end: tuple[str, int | str | None],
    kwargs: dict[str, Any],
    style: Style,
    top: int,
) -> None:
    reason, matched = end
    result = expected(ids, reason, matched, kwargs, top)
    whole = messages.sample([ids], style, reason, matched=matched, top=top)
    assert run(Sample(FACTORY, logprobs=True, **kwargs), [whole]) == result

    deltas = data.draw(cut_up(ids))
    sequence = messages.sample(deltas, style, reason, matched=matched, top=top)
    for parts in ([sequence], [[each] for each in sequence], data.draw(cut_up(sequence))):
        assert run(Sample(FACTORY, logprobs=True, **kwargs), parts) == result
        without = run(Sample(FACTORY, **kwargs), parts)
        assert without == result._replace(logprobs=[])


@given(
    st.data(),
    st.lists(tokens, max_size=10),
    options,
    st.sampled_from(
        [
            messages.failure("too long", "400"),
            messages.complete([], 0, "abort"),
            b"\x12\x05\x0a",
        ]
    ),
)
def test_cutting_does_not_change_a_sample_that_fails(
    data: st.DataObject, ids: list[int], kwargs: dict[str, Any], last: bytes
) -> None:
    sequence = [messages.chunk([token], 0, top=0) for token in ids] + [last]
    result = run(Sample(FACTORY, logprobs=True, **kwargs), [sequence])
    assert (result.failure is None) == (result.finish_reason is not None)
    for parts in ([[each] for each in sequence], data.draw(cut_up(sequence))):
        assert run(Sample(FACTORY, logprobs=True, **kwargs), parts) == result


@given(st.lists(st.sampled_from(["\u2581", "\u2581hello", "é", "<0x20>", "<0xE2>", "<0x41>"])))
def test_cutting_does_not_change_logprobs_beside_bytes_that_grow_or_go(symbols: list[str]) -> None:
    """A dropped first space and U+FFFD move the text against the tokens' bytes."""
    ids = models.ids_of(SPM, *symbols, "w", "lo")
    sequence = messages.sample([[token] for token in ids], top=0)
    whole = run(Sample(SPM_FACTORY, stop=["wl", "A"], logprobs=True), [sequence])
    apart = run(Sample(SPM_FACTORY, stop=["wl", "A"], logprobs=True), [[each] for each in sequence])
    assert apart == whole
    stop = next((i for i, symbol in enumerate(symbols) if symbol == "<0x41>"), len(symbols))
    # A space that is dropped is no text, and one token of it may be left at the end.
    assert stop - 1 <= len(whole.logprobs) <= stop


@pytest.mark.parametrize("cut", range(10))
def test_a_stop_string_across_tokens_is_found(cut: int) -> None:
    ids = ids_of("so it end")
    sequence = messages.sample([ids[:cut], ids[cut:]], reason="stop", matched="it e")
    result = run(Sample(FACTORY, stop=["it e"]), [[each] for each in sequence])
    assert result[::2] == (b"so ", "stop", None)
    assert result.matched_stop == "it e"


def test_a_stop_string_inside_a_token_cuts_it() -> None:
    (token,) = models.ids_of(TOKENIZER, "abab")
    result = run(Sample(FACTORY, stop=["ba"]), [messages.sample([[token]], reason="stop")])
    assert (result.text, result.matched_stop) == (b"a", "ba")


@pytest.mark.parametrize(("keep", "text"), [(False, b"a"), (True, b"a<|end|>")])
def test_a_stop_token_stays_only_if_kept(keep: bool, text: bytes) -> None:
    sample = Sample(FACTORY, eos_ids=[EOS], keep_stop=keep, skip_special=False, logprobs=True)
    sequence = messages.sample([[*ids_of("a"), EOS]], reason="stop", matched=EOS, top=0)
    result = run(sample, [sequence])
    assert (result.text, result.finish_reason, result.matched_stop) == (text, "stop", EOS)
    assert [entry.token for entry in result.logprobs] == [*ids_of("a"), *([EOS] if keep else [])]


@pytest.mark.parametrize(("keep", "text"), [(False, b"so "), (True, b"so it")])
def test_a_stop_string_stays_only_if_kept(keep: bool, text: bytes) -> None:
    sequence = messages.sample([ids_of("so it")], reason="stop", matched="it")
    assert run(Sample(FACTORY, stop=["it"], keep_stop=keep), [sequence]).text == text


def test_eos_as_the_last_token_of_a_sample_cut_by_length_is_text() -> None:
    sequence = messages.sample([[*ids_of("a"), EOS]], reason="length")
    sample = Sample(FACTORY, eos_ids=[EOS], skip_special=False)
    assert run(sample, [sequence])[:3] == (b"a<|end|>", [], "length")
    # It is special all the same.
    assert run(Sample(FACTORY, eos_ids=[EOS]), [sequence]).text == b"a"


def test_eos_that_is_ignored_is_a_token_like_others() -> None:
    sequence = messages.sample([[*ids_of("a"), EOS, *ids_of("b"), EOS]], reason="stop")
    sample = Sample(
        FACTORY,
        eos_ids=[EOS],
        stop_token_ids=ids_of("b"),
        ignore_eos=True,
        skip_special=False,
    )
    assert run(sample, [sequence]).text == b"a<|end|>b<|end|>"


def test_a_stop_string_counts_although_eos_is_ignored() -> None:
    sequence = messages.sample([ids_of("so it")], reason="length")
    result = run(Sample(FACTORY, stop=["it"], ignore_eos=True), [sequence])
    assert (result.text, result.finish_reason) == (b"so ", "stop")


def test_special_tokens_show_only_if_not_skipped() -> None:
    sequence = messages.sample([[EOS, *ids_of("a")]])
    assert run(Sample(FACTORY), [sequence]).text == b"a"
    assert run(Sample(FACTORY, skip_special=False), [sequence]).text == b"<|end|>a"


def test_a_stop_token_of_id_zero_is_reported() -> None:
    sequence = messages.sample([[5, 0]], reason="stop", matched=0)
    assert run(Sample(FACTORY, stop_token_ids=[0]), [sequence]).matched_stop == 0


def test_no_reason_is_a_stop() -> None:
    assert run(Sample(FACTORY), [messages.sample([ids_of("a")], reason="")]).finish_reason == "stop"


def test_an_incomplete_character_at_the_end_is_shown() -> None:
    sequence = messages.sample([ids_of("a€")[:-1]])
    assert run(Sample(FACTORY), [sequence]).text.decode() == "a\ufffd"


@pytest.mark.parametrize(
    ("last", "status", "words"),
    [
        (messages.failure("too long", "400"), 400, "too long"),
        (messages.failure("", ""), 502, "no reason given"),
        (messages.complete([], 1, "abort"), 502, "aborted"),
        (b"\xff", 502, "cannot be read"),
    ],
    ids=["refused", "failed", "aborted", "malformed"],
)
@pytest.mark.parametrize("together", [True, False])
def test_text_before_a_failure_is_delivered(
    last: bytes, status: int, words: str, together: bool
) -> None:
    sample = Sample(FACTORY)
    sequence = [messages.chunk(ids_of("text"), 4), last]
    result = run(sample, [sequence] if together else [[each] for each in sequence])
    assert result.text == b"text"
    assert result.finish_reason is None
    assert sample.failure is not None
    assert sample.failure.status == status
    assert words in sample.failure.message


def test_what_comes_after_a_stop_string_does_not_matter() -> None:
    failed = [messages.chunk(ids_of("so it"), 5), messages.failure("lost", "500")]
    for parts in ([failed], [[each] for each in failed]):
        result = run(Sample(FACTORY, stop=["it"]), parts)
        assert result == (b"so ", [], "stop", "it", None)


def test_an_engine_that_goes_on_past_a_stop_string_is_told_from_one_that_ends() -> None:
    sample = Sample(FACTORY, stop=["it"])
    assert sample.feed([messages.chunk(ids_of("so it"), 5)]).text == b"so "
    assert sample.feed([]).text == b""
    assert (sample.stopped, sample.finish_reason) == (True, None)
    assert sample.feed([messages.chunk(ids_of("!"), 6)]).text == b""
    assert (sample.finish_reason, sample.engine_goes_on) == ("stop", True)

    sample = Sample(FACTORY, stop=["it"])
    sample.feed(messages.sample([ids_of("so it")], reason="stop", matched="it"))
    assert not sample.engine_goes_on


def test_usage_is_the_engines_count() -> None:
    sample = Sample(FACTORY)
    sample.feed([messages.chunk([5], 1, prompt_tokens=9)])
    assert sample.usage == (9, 1, 3, 0)
    sample.feed([messages.complete([5, 6], 2, prompt_tokens=9)])
    assert sample.usage == (9, 2, 3, 0)


def test_logprobs_wait_for_their_text() -> None:
    sample = Sample(FACTORY, stop=["it"], logprobs=True)
    so, it = ids_of("s"), ids_of("i")
    assert [entry.token for entry in sample.feed([messages.chunk(so, 1, top=0)]).logprobs] == so
    assert sample.feed([messages.chunk(it, 2, top=0)]) == (b"", [])
    text, logprobs = sample.feed([messages.chunk(ids_of("s"), 3, top=0)])
    assert (text, [entry.token for entry in logprobs]) == (b"is", [*it, *ids_of("s")])


class Kept(NamedTuple):
    """All that a sample gathers by position."""

    output_ids: list[int]
    output_logprobs: list[TokenLogprob]
    selected_logprobs: list[list[tuple[int, float]]]
    input_logprobs: list[PromptLogprob] | None


SELECTED = [3, 4]
PROMPT = messages.prompt_scores([7, 8, 9], top=1)


def keep(parts: Sequence[Sequence[bytes]], **kwargs: Any) -> Kept:
    """Feeds a sample that gathers everything; joins its deltas to check them against `run`."""
    sample = Sample(
        FACTORY,
        logprobs=True,
        keep_ids=True,
        input_logprobs=True,
        selected_logprobs=True,
        **kwargs,
    )
    assert run(sample, parts) == run(Sample(FACTORY, logprobs=True, **kwargs), parts)
    again = Sample(FACTORY, keep_ids=True, **kwargs)
    shown: list[int] = []
    for part in parts:
        again.feed(part)
        assert again.output_ids[: len(shown)] == shown, "what was shown was taken back"
        shown = list(again.output_ids)
        if again.finish_reason is not None:
            break
    assert shown == sample.output_ids
    return Kept(
        sample.output_ids, sample.output_logprobs, sample.selected_logprobs, sample.input_logprobs
    )


@pytest.mark.soak
@soak
@given(
    data=st.data(),
    ids=st.lists(tokens, min_size=1, max_size=14),
    end=ends,
    kwargs=options,
    style=st.sampled_from(Style),
)
def test_cutting_does_not_change_what_is_gathered(
    data: st.DataObject,
    ids: list[int],
    end: tuple[str, int | str | None],
    kwargs: dict[str, Any],
    style: Style,
) -> None:
    reason, matched = end

    def sequence(deltas: Sequence[Sequence[int]]) -> list[bytes]:
        return messages.with_scores(
            messages.sample(deltas, style, reason, matched=matched, top=1),
            selected=SELECTED,
            prompt=PROMPT,
        )

    whole = sequence([ids])
    kept = keep([whole], **kwargs)
    assert kept.output_ids == ids[: len(kept.output_ids)]
    assert [entry.token for entry in kept.output_logprobs] == kept.output_ids
    assert kept.selected_logprobs == [
        messages.selected_row(position, SELECTED) for position in range(len(kept.output_ids))
    ]
    assert kept.input_logprobs == PROMPT
    result = run(Sample(FACTORY, logprobs=True, **kwargs), [whole])
    if not isinstance(result.matched_stop, str) or result.matched_stop not in kwargs["stop"]:
        assert kept.output_ids == ids

    deltas = data.draw(cut_up(ids))
    for parts in ([[each] for each in sequence(deltas)], data.draw(cut_up(sequence(deltas)))):
        assert keep(parts, **kwargs) == kept


@pytest.mark.parametrize("keep_stop", [True, False])
def test_ids_end_with_the_token_that_holds_the_end_of_the_stop_string(keep_stop: bool) -> None:
    (pair,) = models.ids_of(TOKENIZER, "abab")
    ids = [*ids_of("x"), pair, *ids_of("yz")]
    sequence = messages.with_scores(
        [messages.chunk([token], i + 1, top=0) for i, token in enumerate(ids)], selected=SELECTED
    )
    kept = keep([sequence], stop=["ba"], keep_stop=keep_stop)
    assert kept.output_ids == ids[:2]
    assert [entry.token for entry in kept.output_logprobs] == ids[:2]
    assert len(kept.selected_logprobs) == 2


def test_the_id_that_stopped_a_sample_is_kept_with_its_score() -> None:
    ids = [*ids_of("a"), EOS]
    kept = keep([messages.sample([ids], reason="stop", matched=EOS, top=0)], eos_ids=[EOS])
    assert kept.output_ids == [entry.token for entry in kept.output_logprobs] == ids


def test_looking_at_what_is_gathered_copies_nothing() -> None:
    sample = Sample(
        FACTORY,
        stop=["x"],
        logprobs=True,
        keep_ids=True,
        input_logprobs=True,
        selected_logprobs=True,
    )
    sequence = messages.with_scores(
        [messages.chunk(ids_of("a"), 1, top=0)], selected=SELECTED, prompt=PROMPT
    )
    sample.feed(sequence)
    for name in ("output_ids", "output_logprobs", "selected_logprobs", "input_logprobs"):
        assert getattr(sample, name) is getattr(sample, name)


def test_nothing_is_gathered_unless_asked_for() -> None:
    sample = Sample(FACTORY, logprobs=True)
    sequence = messages.sample([ids_of("ab")], top=0)
    run(sample, [messages.with_scores(sequence, selected=SELECTED, prompt=PROMPT)])
    assert not any([sample.output_ids, sample.output_logprobs, sample.selected_logprobs])
    assert sample.input_logprobs is None


@pytest.mark.parametrize(
    ("kwargs", "short"),
    [
        ({}, True),
        ({"logprobs": True}, False),
        ({"keep_ids": True}, False),
        ({"input_logprobs": True}, False),
        ({"selected_logprobs": True}, False),
    ],
)
def test_what_is_gathered_does_not_go_the_short_way(kwargs: dict[str, Any], short: bool) -> None:
    sample = Sample(FACTORY, **kwargs)
    framer = ChunkFramer("id", 0, "model", 0)
    sink = sample.sink(None, framer, BodyWriter(-1, False), lambda: None)
    assert (sink is not None) == short


def test_a_prefill_ends_with_no_text_and_the_likeliest_next() -> None:
    top = scheduler.OutputLogProbs(
        top_logprobs=[scheduler.TopLogProbs(token_ids=[5], values=[-0.5])]
    )
    complete = scheduler.GenerateComplete(finish_reason="length", output_logprobs=top)
    message = scheduler.GenerateResponse(complete=complete).SerializeToString()
    sample = Sample(FACTORY, logprobs=True, keep_ids=True)
    assert sample.feed([message]) == (b"", [])
    assert (sample.finish_reason, sample.output_ids) == ("length", [])
    assert sample.next_top == [(5, -0.5)]


def test_speculation_is_what_the_engine_says() -> None:
    complete = scheduler.GenerateComplete(
        output_ids=[5], completion_tokens=1, spec_accepted_tokens=3, spec_draft_tokens=8
    )
    sample = Sample(FACTORY)
    assert sample.speculation == Speculation(0, 0)
    sample.feed([scheduler.GenerateResponse(complete=complete).SerializeToString()])
    assert sample.speculation == Speculation(draft_tokens=8, accepted_tokens=3)
