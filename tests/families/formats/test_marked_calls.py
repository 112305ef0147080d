"""Blocks of calls told from their text: by a marker, a fence or a bare bracket, cut everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.families.formats.marked_calls import Bare, marked
from tests.families.laws import check_truncated, reading_of, reads
from tests.families.reading import read, read_every_way

NOW = '{"name": "now", "arguments": {}}'
OTHER = '{"name": "other", "arguments": {}}'
CALL: tuple[str, dict[str, Any]] = ("now", {})

MARKED = marked((b"<c>",), (b"</c>",), noise=(b"<hush>",), ends=(b"<eos>",))
AT_START = marked((b"<c>",), (b"</c>",), bare=Bare.AT_START, ends=(b"<eos>",))
ANYWHERE = marked((b"<c>",), (b"</c>",), bare=Bare.ANYWHERE)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"a<c>{NOW}</c>b", "ab", [CALL]),
        (f"a<c>{NOW}</c><c>{NOW}</c>b", "ab", [CALL, CALL]),
        (f"<c>[{NOW}, {NOW}]</c>.", ".", [CALL, CALL]),
        # A marker says that calls follow, whatever they name.
        (f"<c>{OTHER}</c>", "", [("other", {})]),
        # Said twice, it is said once; so is its end.
        (f"<c> <c>\n{NOW}</c></c>.", ".", [CALL]),
        # Ends may be missing, and other ends follow.
        (f"<c>{NOW}", "", [CALL]),
        (f"<c>{NOW}<eos>", "", [CALL]),
        (f"<c>{NOW}</c> <eos>\n", "", [CALL]),
        (f"<c>{NOW} and</c> so", " and so", [CALL]),
        # What a block turns out not to be is content from its first byte on.
        ("<c>no call</c>", "<c>no call</c>", []),
        ('a <c>{"nam": 1}</c> b', 'a <c>{"nam": 1}</c> b', []),
        (f"<c>no <c>{NOW}</c>.", "<c>no .", [CALL]),
        # Outside of a block its end means nothing, and the end of the text shows.
        ("a</c>b<eos>", "a</c>b<eos>", []),
        # Noise does not show anywhere.
        (f"a<hush>b<c>{NOW}<hush></c>c<hush>", "abc", [CALL]),
        # Without a marker there are no calls.
        (NOW, NOW, []),
        (f"```json\n{NOW}\n```", f"```json\n{NOW}\n```", []),
        # No calls are no content, either.
        ("a<c>[]</c>b", "ab", []),
    ],
)
def test_calls_between_markers(text: str, content: str, calls: list[object]) -> None:
    assert reads(MARKED, text) == (content, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (NOW, "", [CALL]),
        (f" \n{NOW}<eos>", "", [CALL]),
        (f"{NOW} and {NOW}", f" and {NOW}", [CALL]),
        # No marker has begun what this one would end.
        (f"{NOW} and </c>", " and </c>", [CALL]),
        (f"So: {NOW}", f"So: {NOW}", []),
        (f"So: <c>{NOW}</c>", "So: ", [CALL]),
        # Nobody has said that it is a call: so it must be one of the tools.
        (OTHER, OTHER, []),
        ('{"answer": 42}', '{"answer": 42}', []),
        (f"{OTHER}<c>{NOW}</c>", OTHER, [CALL]),
    ],
)
def test_a_bare_call_at_the_start(text: str, content: str, calls: list[object]) -> None:
    assert reads(AT_START, text) == (content, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"So: {NOW}.", "So: .", [CALL]),
        (f"So: [{NOW}, {NOW}] it is", "So:  it is", [CALL, CALL]),
        (f"So: [ \n{NOW} ].", "So: .", [CALL]),
        (f"So:\n```json\n{NOW}\n```\nok", "So:\n\nok", [CALL]),
        (f"```\n[{NOW}]\n```", "", [CALL]),
        (f"{NOW} then {OTHER}", f" then {OTHER}", [CALL]),
        # Brackets abound: what no call follows is content, up to the next bracket.
        ("if (a[0] > {1, 2}) { f(); }", "if (a[0] > {1, 2}) { f(); }", []),
        ('{ "a": [1] } [[ {x}', '{ "a": [1] } [[ {x}', []),
        ("[ 1 ] { } {{ [{ ", "[ 1 ] { } {{ [{ ", []),
        (f"{{ {NOW}", "{ ", [CALL]),
        (f"[ [{NOW}]", "[ ", [CALL]),
        ("```json\n[1]\n```", "```json\n[1]\n```", []),
        # A fence that closes is not one that opens.
        (f"```json\n{NOW}\n```\n```json\n{NOW}\n```", "", [CALL, CALL]),
    ],
)
def test_a_bare_call_anywhere(text: str, content: str, calls: list[object]) -> None:
    assert reads(ANYWHERE, text) == (content, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"call[{NOW}, {NOW}].", ".", [CALL, CALL]),
        ("recall[0], call[x]", "recall[0], call[x]", []),
        (f"call[]; call[{NOW}", "; ", [CALL]),
    ],
)
def test_a_marker_may_end_with_the_block_s_bracket(
    text: str, content: str, calls: list[object]
) -> None:
    assert reads(marked((b"call[",)), text) == (content, calls)


@pytest.mark.parametrize("form", [MARKED, AT_START, ANYWHERE], ids=["never", "at start", "ever"])
def test_what_is_cut_off_stays_as_far_as_it_was(form: Any) -> None:
    call = '{"name": "book", "arguments": {"title": "a</c>b", "tags": ["<c>", "]"]}}'
    check_truncated(form, f"Looking.<c>{call}</c> Again: <c>[{NOW}, {call}]</c>\nDone.")


def test_a_marker_that_was_cut_off_behind_a_call_does_not_show() -> None:
    for end in ("<", "</", "</c", "<eo"):
        assert reads(MARKED, f"<c>{NOW}{end}") == ("", [CALL])
    # Where no call was, it is text.
    assert reads(MARKED, "a<") == ("a<", [])


def test_a_call_that_was_cut_off_is_neither_shown_nor_completed() -> None:
    result = read_every_way(reading_of(MARKED), '<c>{"name": "note", "arguments": {"text": "a')
    assert [(call.name, call.arguments) for call in result.calls] == [("note", '{"text": "a')]
    assert (result.content, result.completed) == ("", 0)
    result = read_every_way(reading_of(MARKED), '<c>{"name": "no')
    assert (result.content, result.calls) == ("", [])
    # Bare, it might have been the answer.
    assert reads(AT_START, '{"name": "no') == ('{"name": "no', [])


def test_ids_are_numbered_by_the_format_s_own_rule() -> None:
    form = marked((b"<c>",), (b"</c>",), call_id=lambda name, number: f"{name}:{number}")
    reading = reading_of(form)
    result = read(reading, [f"<c>{NOW}</c> no <c>{OTHER}</c>"])
    assert [call.id for call in result.calls] == ["now:0", "other:1"]


def test_markers_that_have_to_show_are_told() -> None:
    form = MARKED.showing(b"<quote>")
    assert {"<c>", "</c>", "<quote>"} <= reading_of(form).markers
    assert "<quote>" not in reading_of(MARKED).markers
    assert reads(form, f"<c>{NOW}</c>.") == (".", [CALL])
