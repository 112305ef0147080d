"""Families that write arguments as JSON: what all have in common, cut everywhere."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.families.registry import TOOL_FORMATS as FORMATS
from tests.families.json_families import BARE, FAMILIES, MARKED, Family
from tests.families.laws import (
    call_lists,
    check_truncated,
    parsed,
    reading_of,
    reads,
)
from tests.families.reading import read, read_every_way
from tests.fast.profile import soak

families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
marked_families = pytest.mark.parametrize("family", MARKED.values(), ids=MARKED)
bare_families = pytest.mark.parametrize("family", BARE.values(), ids=BARE)

EMMA = ("book", {"title": "Emma", "pages": 474, "tags": ["a]", "b}"], "shelf": {"x": None}})
NOW: tuple[str, dict[str, Any]] = ("now", {})


@families
def test_a_call(family: Family) -> None:
    assert reads(family.form, family.block([EMMA])) == ("", [EMMA])


@families
def test_several_calls_in_a_block(family: Family) -> None:
    block = family.block([NOW, EMMA, NOW, NOW])
    assert reads(family.form, block) == ("", [NOW, EMMA, NOW, NOW])


@families
def test_text_before_between_and_after(family: Family) -> None:
    block = family.block([EMMA])
    if not family.in_text:
        content, calls = reads(family.form, f"{block}\n\nThat is [1] of {{two}}.\n")
        assert (content, calls) == ("\n\nThat is [1] of {two}.\n", [EMMA])
        return
    text = f"Looking <up> it.\n\n{block}\n\nAnother [1].{family.block([NOW, EMMA])} Done.\n"
    content, calls = reads(family.form, text)
    assert content == "Looking <up> it.\n\n\n\nAnother [1]. Done.\n"
    assert calls == [EMMA, NOW, EMMA]


@families
def test_white_space_around_calls_is_not_content(family: Family) -> None:
    text = f"\n {family.block([EMMA])}\n\n{family.block([NOW])} \n"
    if family.in_text:
        assert reads(family.form, text) == ("", [EMMA, NOW])


@families
def test_strings_hold_anything(family: Family) -> None:
    awkward = 'say "hi", it\'s\n\t\\ back \\u0041 } ] ) { [ , : ``` 日本 😀 \x01 '
    awkward += "".join(family.form.markers) + family.block([NOW])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("note", {"text": awkward}),
        ("note", {awkward: ["", "'", '"', "\\"]}),
        NOW,
    ]
    assert reads(family.form, family.block(calls)) == ("", calls)


@families
def test_a_string_goes_out_as_it_arrives(family: Family) -> None:
    block = family.block([("note", {"text": "the end of all our exploring"})])
    start, _, _ = block.partition("of all our")
    parser = reading_of(family.form).parser()
    assert parser is not None
    parser.feed(start.encode())
    _, _, deltas = parser.take()
    assert b"".join(arguments for *_, arguments in deltas) == b'{"text": "the end '
    parser.feed(b"of")
    assert parser.take() == (b"", b"", [(0, None, None, b"of")])


@families
def test_cut_off_anywhere(family: Family) -> None:
    before = "So.\n" if family.in_text else ""
    calls = [("note", {"text": 'a "b" \\ ä', "n": [-1.5, True, None, {}]}), NOW, EMMA]
    check_truncated(family.form, f"{before}{family.block(calls)}")


@marked_families
def test_cut_off_before_the_name_or_in_the_last_marker(family: Family) -> None:
    block = family.block([NOW])
    whole = read(reading_of(family.form), [block]).calls
    for end in range(len(family.opener), len(block)):
        result = read(reading_of(family.form), [block[:end]])
        if block[:end].find(family.opener) >= 0:
            assert result.content == "", block[:end]
        assert [call.name for call in result.calls] in ([], [call.name for call in whole])


@bare_families
def test_without_a_marker_what_is_cut_off_before_the_name_is_content(family: Family) -> None:
    block = family.block([EMMA])
    for end in range(1, block.index("book")):
        result = read(reading_of(family.form), [block[:end]])
        assert (result.content, result.calls) == (block[:end], [])


@families
def test_a_beginning_of_a_marker_at_the_end_is_content(family: Family) -> None:
    for end in range(1, len(family.opener)):
        text = f"Sure. {family.opener[:end]}"
        assert reads(family.form, text) == (text, [])


@families
def test_plain_text(family: Family) -> None:
    text = (
        " \n<b>a</b> [1, 2] {x} [] { } [ {} ] (`f(x)`) functools.cache ```py\nx = {1}\n``` </s> \n"
    )
    assert reads(family.form, text) == (text, [])


@marked_families
def test_a_function_that_is_not_there_is_called_all_the_same(family: Family) -> None:
    calls = [("no-such.tool_1", {"a": 1}), NOW]
    name = "tool_1" if family.opener.startswith("<|tool_calls_section") else "no-such.tool_1"
    content, called = reads(family.form, family.block(calls))
    assert (content, called) == ("", [(name, {"a": 1}), NOW])


@bare_families
def test_without_a_marker_only_the_requests_tools_are_called(family: Family) -> None:
    for answer in (
        family.block([("nobody", {"a": [{"b": 1}]})]),
        family.value({"name": "book", "age": 3}),
        family.value({"title": "book", "arguments": {}}),
        family.value([{"name": "bookcase"}, [], {"x": [{"y": "}"}]}]),
        family.value({"name": {"arguments": {}}}),
        family.value({"arguments": {"a": 'say "x"'}, "text": "book"}),
        family.value({"arguments": '{"a": "\\u00e9"}', "text": "book"}),
        family.value({"arguments": "{'a' <", "text": "book"}),
        '{\'name\'}: {"name"} [{"name": 1}]',
    ):
        assert reads(family.form, answer) == (answer, [])


@bare_families
def test_an_answer_in_json_is_not_held_back(family: Family) -> None:
    parser = reading_of(family.form).parser()
    assert parser is not None
    answer = family.value({"title": "book", "pages": "many"}).encode()
    parser.feed(answer[:-9])
    content, _, _ = parser.take()
    assert content == answer[:-9]


@families
def test_calls_made_up_and_cut_at_random(family: Family) -> None:
    @soak
    @given(call_lists(), st.randoms(use_true_random=False))
    def check(calls: list[tuple[str, dict[str, object]]], dice: random.Random) -> None:
        text = family.block(calls)
        ends = sorted(dice.randint(0, len(text)) for _ in range(dice.randint(0, 8)))
        parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
        result = read(reading_of(family.form), parts)
        assert result.content == ""
        assert parsed(result) == calls

    check()


@marked_families
@pytest.mark.parametrize("stray", ["}", "]", "}}\n", "\n```", '"'])
def test_what_is_left_over_behind_a_call_does_not_show(family: Family, stray: str) -> None:
    block = family.block([EMMA])
    end = max(block.rfind("}"), block.rfind("]") if block.endswith("]") else -1) + 1
    assert reads(family.form, block[:end] + stray + block[end:]) == ("", [EMMA])


@families
def test_commas_between_members_may_be_missing(family: Family) -> None:
    block = family.block([("book", {"title": "Emma", "pages": 474})])
    for quote in "\"'":
        block = block.replace(f"Emma{quote}, {quote}pages", f"Emma{quote} {quote}pages")
    if family.value is not repr:
        assert reads(family.form, block) == ("", [("book", {"title": "Emma", "pages": 474})])


@marked_families
def test_a_value_that_breaks_off_leaves_its_call_incomplete(family: Family) -> None:
    block = family.block([("note", {"text": "QUOTE"})]).replace("QUOTE", 'a" b "c')
    result = read_every_way(reading_of(family.form), block.replace("'a\" b \"c'", "'a' b 'c'"))
    assert [call.name for call in result.calls] == ["note"]
    assert result.completed == 0


# Hermes stands for all that have a marker at either end.

HERMES = FAMILIES["hermes"].form
CALL = '{"name": "now", "arguments": {}}'


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        # Openers doubled, closers forgotten or doubled.
        (f"<tool_call><tool_call>\n{CALL}</tool_call>", "", [NOW]),
        (f"<tool_call>{CALL}<tool_call>{CALL}", "", [NOW, NOW]),
        (f"<tool_call>{CALL}</tool_call></tool_call> ok", " ok", [NOW]),
        (f"<tool_call> well <tool_call>{CALL}</tool_call>", "<tool_call> well ", [NOW]),
        # Junk behind a call, and the closer behind that.
        (f"<tool_call>{CALL}}} x</tool_call> y", "} x y", [NOW]),
        (f"<tool_call>{CALL}, and\n</tool_call>", ", and\n", [NOW]),
        # Several calls in one block.
        (f"<tool_call>{CALL}{CALL}, {CALL}</tool_call>", "", [NOW] * 3),
        (f"<tool_call>[{CALL} {CALL},]</tool_call>", "", [NOW] * 2),
        ("<tool_call>[]</tool_call> none", " none", []),
        # Cut off in the second of two markers.
        ("<tool_call><tool_ca", "", []),
        # Brackets forgotten.
        ('<tool_call>{"name": "now"\n</tool_call>', "", [NOW]),
        ('<tool_call>{"name": "now", "arguments": {}\n</tool_call>', "", [NOW]),
        ('<tool_call>[{"name": "now", "arguments": {}]</tool_call>', "", [NOW]),
        (f'<tool_call>[{{"name": "now", "arguments": {{}}, {CALL}]</tool_call>', "", [NOW] * 2),
        ('<tool_call>{"name": "note", "arguments": {"text": "a"</tool_call>', "", "a"),
        ('<tool_call>{"name": "note", "arguments": {"text": </tool_call>', "", None),
        # What is no call is content, markers included.
        ("<tool_call>{bad}</tool_call>", "<tool_call>{bad}</tool_call>", []),
        ('<tool_call>\n {"name": ""}', '<tool_call>\n {"name": ""}', []),
        (
            '<tool_call> {"name": 1, "arguments": {}}',
            '<tool_call> {"name": 1, "arguments": {}}',
            [],
        ),
        ('<tool_call>{"nam": "now"}</tool_call>', '<tool_call>{"nam": "now"}</tool_call>', []),
        (f'<tool_call>[{CALL}, {{"nam": 1}}]</tool_call>.', ', {"nam": 1}].', [NOW]),
        ("a </tool_call> b", "a </tool_call> b", []),
        # Arguments that are missing, null, early, or in a string.
        ('<tool_call>{"name": "now"}</tool_call>', "", [NOW]),
        ('<tool_call>{"name": "now", "arguments": null}</tool_call>', "", [NOW]),
        ('<tool_call>{"name": "now", "arguments": }</tool_call>', "", [NOW]),
        ('<tool_call>{"name": "now", "arguments": ""}</tool_call>', "", [NOW]),
        ('<tool_call>{"arguments": {"text": "a"}, "name": "note"}</tool_call>', "", "a"),
        ('<tool_call>{"arguments": "{\\"text\\": \\"a\\"}", "name": "note"}</tool_call>', "", "a"),
        (
            '<tool_call>{"name": "note", "arguments": "{\\"text\\": \\"a\\"}\\n"}</tool_call>',
            "",
            "a",
        ),
        ('<tool_call>{"name": "note", "arguments": " {\'text\': \'a\',}"}</tool_call>', "", "a"),
        ('<tool_call>{"name": "note", "arguments": "a\\qb"}</tool_call>', "", ...),
        # As OpenAI writes calls.
        (
            f'<tool_call>{{"type": "function", "function": {CALL}, "id": "x"}}</tool_call>',
            "",
            [NOW],
        ),
    ],
)
def test_calls_that_are_not_quite_right(text: str, content: str, calls: object) -> None:
    wanted = calls if isinstance(calls, list) else [("note", {"text": calls})]
    if calls is ...:
        wanted = [("note", "a\\qb")]
    assert reads(HERMES, text) == (content, wanted)


def test_arguments_that_are_no_object_are_passed_on() -> None:
    text = '<tool_call>{"name": "note", "arguments": "just text"}</tool_call>'
    assert reads(HERMES, text) == ("", [("note", "just text")])


def test_a_value_that_was_cut_off_is_not_completed() -> None:
    for text, arguments in (
        ('{"pages": 47', '{"pages": 47'),
        ('{"lent": tru', '{"lent": tru'),
        ('{"lent": Tru', '{"lent": '),
        ('{"lent": truly', '{"lent": '),
        ('{"title": "a\\u00', '{"title": "a'),
        ('{"title": "a", "pa', '{"title": "a", "pa'),
        ('{"tags": ["a", ', '{"tags": ["a"'),
    ):
        result = read_every_way(
            reading_of(HERMES), f'<tool_call>{{"name": "book", "arguments": {text}'
        )
        assert [call.arguments for call in result.calls] == [arguments]
        assert (result.content, result.completed) == ("", 0)


# What only some families have.


def test_trinity_shows_no_think_tags() -> None:
    text = f"<think>I see.<tool_call>{CALL}</tool_call></think>Done."
    assert reads(FORMATS["trinity"], text) == ("I see.Done.", [NOW])


def test_llama_reads_bare_calls_only_at_the_start() -> None:
    form = FORMATS["llama3"]
    text = 'As in {"name": "now", "parameters": {}}.'
    assert reads(form, text) == (text, [])
    assert reads(form, f"\n{CALL}; {CALL}<|eom_id|>") == ("", [NOW, NOW])
    assert reads(form, f'{CALL}\nand {{"name": "now"}}') == ('\nand {"name": "now"}', [NOW])
    text = '<|python_tag|>brave_search.call(query="x")'
    assert reads(form, text) == (text, [])


def test_json_in_a_code_fence() -> None:
    for name in ("json", "xlam"):
        form = FORMATS[name]
        assert reads(form, f"Hi\n```json\n{CALL}\n```\nok") == ("Hi\n\nok", [NOW])
        assert reads(form, f"```\n[{CALL}]\n```") == ("", [NOW])
        text = '```json\n{"title": [{"a": 1}]}\n```\n'
        assert reads(form, text) == (text, [])


def test_mistral() -> None:
    form = FORMATS["mistral"]
    text = "[TOOL_CALLS]now[ARGS][TOOL_CALLS]note[CALL_ID]a1[ARGS] {}</s>"
    assert reads(form, text) == ("", [NOW, ("note", {})])
    assert reads(form, "[TOOL_CALLS][TOOL_CALLS]now[ARGS]{} ok") == (" ok", [NOW])
    assert reads(form, '[TOOL_CALLS]note[ARGS]{"text": "[ARGS][TOOL_CALLS]"}')[1] == [
        ("note", {"text": "[ARGS][TOOL_CALLS]"})
    ]
    for text in (
        "[TOOL_CALLS] two words[ARGS]{}",
        "[TOOL_CALLS][ARGS]{}",
        f"[TOOL_CALLS]{'x' * 300}[ARGS]{{}}",
        f"[TOOL_CALLS]now[CALL_ID]{'x' * 300}[ARGS]{{}}",
        "<s>bold</s>",
    ):
        assert reads(form, text) == (text, [])
    text = "[TOOL_CALLS]junk[TOOL_CALLS]now[ARGS]{}"
    assert reads(form, text) == ("[TOOL_CALLS]junk", [NOW])


def test_mistral_ids_are_nine_letters_and_digits() -> None:
    result = read(reading_of(FORMATS["mistral"]), ["[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]now{}"])
    assert len({call.id for call in result.calls}) == 2
    for call in result.calls:
        assert len(call.id) == 9
        assert call.id.isascii()
        assert call.id.isalnum()


def test_internlm_without_a_space() -> None:
    text = f"<|action_start|><|plugin|>{CALL}<|action_end|>"
    assert reads(FORMATS["internlm"], text) == ("", [NOW])


def test_cohere_shows_no_control_tokens() -> None:
    for kind in ("TEXT", "RESPONSE"):
        text = f"<|START_{kind}|>Hi.<|END_{kind}|><|START_ACTION|>[]<|END_ACTION|>"
        assert reads(FORMATS["cohere_command4"], text) == ("Hi.", [])


def test_granite_by_either_marker() -> None:
    assert reads(FORMATS["granite3"], f"<tool_call>[{CALL}]") == ("", [NOW])


def test_phi_leaves_functools_alone() -> None:
    text = "functools[0], from functools import *"
    assert reads(FORMATS["phi4_mini"], text) == (text, [])


def test_apertus_has_several_calls_in_an_object() -> None:
    text = '<|tools_prefix|>[{"now": {}, "note": {"text": "a"}}, {"now": null}]<|tools_suffix|>.'
    assert reads(FORMATS["apertus2509"], text) == (".", [NOW, ("note", {"text": "a"}), NOW])
    text = "<|tools_prefix|>[{now}]"
    assert reads(FORMATS["apertus2509"], text) == (text, [])


def test_gigachat_ends_a_call_as_it_likes() -> None:
    for end in ("</s>", "<|message_sep|>", ""):
        assert reads(FORMATS["gigachat3"], f"<|function_call|>{CALL}{end}\n") == ("", [NOW])


def test_sarashina_reads_python() -> None:
    text = "<|tool_calls|>[{'name': 'note', 'arguments': {'text': 'it\\'s', 'n': (True, None)}}]"
    assert reads(FORMATS["sarashina"], text)[1] == [("note", {"text": "it's", "n": [True, None]})]


def test_xlam_takes_thoughts_off() -> None:
    result = read_every_way(reading_of(FORMATS["xlam"]), f"<think>Hm {CALL}</think>\n[{CALL}]")
    assert (result.reasoning, result.content) == (f"Hm {CALL}", "")
    assert parsed(result) == [NOW]
    assert reads(FORMATS["xlam"], f" [TOOL_CALLS][{CALL}]") == ("", [NOW])
