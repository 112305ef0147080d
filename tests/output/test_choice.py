"""One choice of a completion: the same pieces, however its messages are cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sse import ChunkFramer
from sglrouter.families.formats.program import Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import REASONING_FORMATS, TOOL_FORMATS
from sglrouter.output.choice import Choice
from sglrouter.output.sample import Sample
from tests.fast import messages
from tests.output import models
from tests.output.test_sink import EOS, FACTORY, TOKENIZER

CALLS = Reading(calls=TOOL_FORMATS["qwen25"], tools=Tools([{"function": {"name": "f"}}]))
THINKING = Reading(reasoning=REASONING_FORMATS["qwen3"], calls=TOOL_FORMATS["qwen25"])
CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


class Read(NamedTuple):
    """What a choice has come to."""

    content: str
    reasoning: str
    calls: list[tuple[str, Any]]
    reason: str | None
    matched: int | str | None


def choice_of(reading: Reading | None, stop: Sequence[str] = (), **options: Any) -> Choice:
    sample = Sample(FACTORY, eos_ids=[EOS], stop=stop)
    return Choice(sample, None if reading is None else reading.parser(), **options)


def read(choice: Choice, deltas: Sequence[Sequence[int]], reason: str) -> Read:
    content, reasoning = b"", b""
    calls: list[tuple[str, bytes]] = []
    matched = EOS if reason == "stop" else None
    for message in messages.sample(deltas, reason=reason, matched=matched):
        # Engines may go on; whoever shows the choice does not.
        if choice.finish_reason is not None:
            break
        piece = choice.feed([message])
        content += piece.content
        reasoning += piece.reasoning
        for number, _, name, arguments in piece.calls:
            if name is not None:
                calls.append((name, b""))
            calls[number] = calls[number][0], calls[number][1] + arguments
    return Read(
        content.decode(),
        reasoning.decode(),
        [(name, json.loads(arguments)) for name, arguments in calls],
        choice.finish_reason,
        choice.matched_stop,
    )


def comes_to(
    reading: Reading | None,
    text: str,
    reason: str = "stop",
    stop: Sequence[str] = (),
    **options: Any,
) -> Read:
    """What a text is, which has a token for each byte, cut in two everywhere and in many."""
    ids = models.byte_ids(TOKENIZER, text) + ([EOS] if reason == "stop" else [])
    whole = read(choice_of(reading, stop, **options), [ids], reason)
    deltas: list[list[list[int]]] = [[ids[:at], ids[at:]] for at in range(1, len(ids))]
    deltas += [[[each] for each in ids], [ids[at : at + 3] for at in range(0, len(ids), 3)]]
    for cut in deltas:
        assert read(choice_of(reading, stop, **options), cut, reason) == whole, cut
    return whole


def test_without_a_parser_all_is_content() -> None:
    text = f"<think>é {CALL}"
    assert comes_to(None, text) == Read(text, "", [], "stop", EOS)


def test_a_call_that_was_delivered_is_why_an_answer_has_ended() -> None:
    text = f"So.\n{CALL}"
    assert comes_to(CALLS, text) == Read("So.\n", "", [("f", {"a": 1})], "tool_calls", None)
    # By its length it ends as it did: what follows is missing.
    assert comes_to(CALLS, text, "length").reason == "length"


def test_a_call_that_was_cut_is_not_why() -> None:
    choice = choice_of(CALLS)
    ids = models.byte_ids(TOKENIZER, CALL[:30])
    for message in messages.sample([[*ids, EOS]], reason="stop", matched=EOS):
        choice.feed([message])
    assert (choice.finish_reason, choice.matched_stop) == ("stop", EOS)


@pytest.mark.parametrize(
    "rest", ["", "\n", f"\n{CALL}", f"\n{CALL}\n{CALL}", "\nAnd so on.", f" So {CALL}"]
)
def test_the_first_call_may_be_the_end(rest: str) -> None:
    for reading, thoughts in ((CALLS, ""), (THINKING, "<think>Hm.</think>")):
        got = comes_to(reading, f"{thoughts}So.\n{CALL}{rest}", first_call_only=True)
        assert (got.calls, got.reason) == ([("f", {"a": 1})], "tool_calls")
        # What follows it is not shown, in whatever message it comes.
        assert got.content == "So.\n"
    # The engine is not waited for.
    choice = choice_of(CALLS, first_call_only=True)
    choice.feed([messages.chunk(models.byte_ids(TOKENIZER, CALL), len(CALL))])
    assert choice.finish_reason == "tool_calls"
    # Several are delivered where they are wanted.
    several = comes_to(CALLS, f"So.\n{CALL}{rest}")
    assert len(several.calls) == 1 + rest.count("<tool_call>")


def test_a_stop_string_ends_a_choice_before_its_call() -> None:
    got = comes_to(CALLS, f"So, stop. {CALL}", stop=["stop"])
    assert got == Read("So, ", "", [], "stop", "stop")


THOUGHTS = "<think>Hm, é.</think>\n\nYes."


def test_reasoning_comes_as_it_arrives_or_all_at_once() -> None:
    for text, reason in (
        (THOUGHTS, "stop"),
        (THOUGHTS[:12], "length"),
        (f"<think>Hm{CALL}", "stop"),
    ):
        flowing = comes_to(THINKING, text, reason)
        assert comes_to(THINKING, text, reason, stream_reasoning=False) == flowing
    choice = choice_of(THINKING, stream_reasoning=False)
    ids = models.byte_ids(TOKENIZER, THOUGHTS)
    pieces = [choice.feed([messages.chunk([each], at + 1)]) for at, each in enumerate(ids)]
    # In one piece, and before the content.
    (at,) = [at for at, piece in enumerate(pieces) if piece.reasoning]
    assert pieces[at].reasoning.decode() == "Hm, é."
    assert not any(piece.content for piece in pieces[:at])
    assert b"".join(piece.content for piece in pieces[at:]).decode() == "\n\nYes."


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("text", "reason", "content", "reasoning"),
    [
        # Nothing but thoughts: they become the answer, too, without the space around.
        ("<think>\nHm.\n</think>", "stop", "Hm.", "\nHm.\n"),
        ("<think>\nHm.", "length", "Hm.", "\nHm."),
        ("<think>Hm.</think>\n ", "stop", "Hm.\n ", "Hm."),
        # Any answer is enough.
        ("<think>Hm.</think>Yes.", "stop", "Yes.", "Hm."),
        ("Yes.", "stop", "Yes.", ""),
        ("", "stop", "", ""),
    ],
)
def test_an_answer_may_be_asked_never_to_be_empty(
    text: str, reason: str, content: str, reasoning: str, streamed: bool
) -> None:
    got = comes_to(THINKING, text, reason, never_empty=True, stream_reasoning=streamed)
    assert (got.content, got.reasoning) == (content, reasoning)


def test_a_call_is_answer_enough() -> None:
    got = comes_to(THINKING, f"<think>Hm.</think>{CALL}", never_empty=True)
    assert (got.content, got.reasoning, len(got.calls)) == ("", "Hm.", 1)


def test_what_an_engine_s_failure_leaves_is_delivered() -> None:
    choice = choice_of(THINKING)
    ids = models.byte_ids(TOKENIZER, "<think>Hm</thi")
    piece = choice.feed([messages.chunk(ids, len(ids)), messages.failure("lost", "503")])
    # What might have become a marker is none now.
    assert piece.reasoning == b"Hm</thi"
    assert choice.sample.failure is not None


OPTIONS: list[dict[str, bool]] = [
    {"first_call_only": True},
    {"never_empty": True},
    {"stream_reasoning": False},
    {"never_empty": True, "stream_reasoning": False},
]


@pytest.mark.parametrize("options", [{}, *OPTIONS], ids=str)
def test_what_has_to_be_looked_at_has_no_short_way(options: dict[str, Any]) -> None:
    framer = ChunkFramer("chatcmpl-1", 1, "m", 0)
    sink = choice_of(THINKING, **options).sink(framer, BodyWriter(-1, True), lambda: None)
    assert (sink is None) is bool(options)


def test_tokens_are_looked_at_one_by_one_until_the_thoughts_are_over() -> None:
    for reading, looks in ((None, False), (CALLS, False), (THINKING, True)):
        assert choice_of(reading).sample.by_token is looks
    choice = choice_of(THINKING)
    ids = models.byte_ids(TOKENIZER, "<think>Hm.</think>Yes.")
    end = len(models.byte_ids(TOKENIZER, "<think>Hm.</think>"))
    for at, each in enumerate(ids):
        choice.feed([messages.chunk([each], at + 1)])
        assert choice.sample.by_token is (at + 1 < end)
    assert choice.sample.usage.reasoning_tokens == end
