"""gpt-oss's messages, as they should be and as models write them, cut everywhere."""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.families.formats.program import Tools
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import (
    TEXTS,
    TOOLS,
    WORDS,
    check_truncated,
    json_values,
    parsed,
    reading_of,
)
from tests.families.reading import read, read_every_way
from tests.fast.profile import soak

HARMONY = TOOL_FORMATS["gpt-oss"]

BOOK = '<|channel|>commentary to=functions.book <|constrain|>json<|message|>{"pages": 2}<|call|>'
NEXT = "<|end|><|start|>assistant"


class Read(NamedTuple):
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = []  # noqa: RUF012


def reads(text: str, tools: Tools = TOOLS) -> Read:
    result = read_every_way(reading_of(HARMONY, tools), text)
    return Read(result.content, result.reasoning, parsed(result))


def test_it_reads_reasoning_as_well() -> None:
    assert HARMONY.every_answer
    assert "<|message|>" in HARMONY.markers


def test_channels() -> None:
    text = (
        f"<|channel|>analysis<|message|>One. {NEXT}<|channel|>analysis<|message|>Two.{NEXT}"
        f"<|channel|>commentary<|message|>I look. {NEXT}<|channel|>final<|message|>Here.<|return|>"
    )
    assert reads(text) == ("I look. Here.", "One. Two.", [])


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.book <|constrain|>json",
        "<|channel|>commentary to=functions.book<|constrain|>json",
        "<|channel|>commentary to=functions.book",
        "<|channel|>commentary to=functions.book json",
        "<|channel|>commentary to=functions.book two more words",
        "<|channel|>commentary to=book",
        "<|channel|>analysis to=functions.book code",
        "<|channel|>commentary <|constrain|>json to=functions.book",
        " to=functions.book<|channel|>commentary json",
        " to=functions.book<|channel|>commentary <|constrain|>json",
        "<|start|>assistant to=functions.book<|channel|>commentary",
        "<|start|>assistant<|channel|>commentary to=functions.library.book",
        "<|channel|>analysis<|message|><|end|><|start|>assistant to=functions.book",
    ],
)
@pytest.mark.parametrize("end", ["<|call|>", "<|end|>", "<|return|>", "", "\n<|call|>"])
def test_a_call_however_it_is_addressed(header: str, end: str) -> None:
    text = header + '<|message|>{"title": "a<|end|>b", "tags": ["x"]}' + end
    assert reads(text) == ("", "", [("book", {"title": "a<|end|>b", "tags": ["x"]})])


@pytest.mark.parametrize("recipient", ["functions.shop", "shop"])
def test_an_unknown_function_is_called_by_its_name(recipient: str) -> None:
    assert reads(f"<|channel|>commentary to={recipient}<|message|>{{}}<|call|>").calls == [
        ("shop", {})
    ]


def test_a_tool_of_the_provider_is_called_by_its_full_name() -> None:
    text = '<|channel|>analysis to=browser.search code<|message|>{"query": "x"}<|call|>'
    assert reads(text).calls == [("browser.search", {"query": "x"})]


@pytest.mark.parametrize("person", ["assistant", "user", "all"])
def test_who_is_no_function_is_not_called(person: str) -> None:
    text = f"<|channel|>commentary to={person}<|message|>{{}}<|end|>"
    assert reads(text) == ("{}", "", [])


def test_code_for_an_interpreter_is_no_call() -> None:
    text = f"<|channel|>analysis to=python code<|message|> print(1){NEXT}{BOOK}"
    assert reads(text) == ("", " print(1)", [("book", {"pages": 2})])
    text = "<|channel|>commentary to=python<|message|> print(1)<|call|>"
    assert reads(text) == (" print(1)", "", [])


@pytest.mark.parametrize(
    "text",
    [
        "<|channel|>commentary to=functions.now<|message|><|call|>",
        "<|channel|>commentary to=functions.now<|message|>{}<|call|>",
        "<|channel|>commentary to=functions.now <|constrain|>json<|call|>",
        "<|channel|>commentary to=functions.now<|message|>\n<|end|>",
    ],
)
def test_a_call_without_arguments(text: str) -> None:
    result = read_every_way(reading_of(HARMONY), text)
    assert [(call.name, call.arguments) for call in result.calls] == [("now", "{}")]


@pytest.mark.parametrize("between", ["", "<|start|>assistant", "commentary", "\n", "<|end|>"])
def test_several_calls(between: str) -> None:
    assert reads(BOOK + between + BOOK) == ("", "", [("book", {"pages": 2})] * 2)


@pytest.mark.parametrize("junk", [" ??", "\n", " code", "<|constrain|>x", "s"])
def test_junk_in_a_header_changes_nothing(junk: str) -> None:
    text = (
        f"<|channel|>analysis{junk}<|message|>hm{NEXT}<|channel|>final{junk}<|message|>ok<|return|>"
    )
    assert reads(text) == ("ok", "hm", [])


@pytest.mark.parametrize(
    ("text", "content", "reasoning"),
    [
        ("Just text, to=functions.x analysis.", "Just text, to=functions.x analysis.", ""),
        ("<|start|>assistant<|message|>Hi<|end|>", "Hi", ""),
        ("<|channel|>other<|message|>Hi<|end|>", "Hi", ""),
        ("<|channel|>analysis<|message|>hm<|channel|>final<|message|>Hi", "Hi", "hm"),
        ("<|channel|>analysis<|message|>hm<|start|>assistant<|channel|>final<|message|>", "", "hm"),
        ("<|channel|>analysis<|channel|>final<|message|>Hi<|return|>", "Hi", ""),
        (
            "<|channel|>final<|message|>a <|message|>b<|constrain|> <|x|> <|<|end|>",
            "a b <|x|> <|",
            "",
        ),
        ("<|channel|>final<|message|>Hi<|return|> there", "Hi there", ""),
        ("<|channel|>final<|message|>Hi<|return|>\n", "Hi", ""),
        ("<|channel|>final<|message|>value is 3 <|retu", "value is 3 <|retu", ""),
        ("<|channel|>analysis<|message|>hm <|en", "", "hm <|en"),
        ("<|channel|>final<|message|>Hi<|end|><|sta", "Hi", ""),
        ("<|channel|>final<|end|><|channel|>final<|message|>Hi", "Hi", ""),
        ("<|channel|>final<|message|>[1] {2} <b>commentary</b>", "[1] {2} <b>commentary</b>", ""),
    ],
)
def test_what_is_not_quite_right(text: str, content: str, reasoning: str) -> None:
    assert reads(text) == (content, reasoning, [])


def test_a_header_without_an_end_is_content() -> None:
    text = "<|channel|>" + "x" * 5000
    assert reads(text + NEXT + "<|channel|>final<|message|>ok") == (text + "ok", "", [])


def test_arguments_that_break_off_are_closed() -> None:
    text = f'<|channel|>commentary to=functions.book<|message|>{{"tags": [1, 2<|call|>{BOOK}'
    assert reads(text) == ("", "", [("book", {"tags": [1, 2]}), ("book", {"pages": 2})])


def test_what_follows_the_arguments_is_content() -> None:
    text = '<|channel|>commentary to=functions.book<|message|>{"pages": 2} yes<|call|>'
    assert reads(text) == (" yes", "", [("book", {"pages": 2})])


def test_a_cut_call_has_its_name() -> None:
    text = "<|channel|>commentary to=functions.book<|message|>"
    result = read_every_way(reading_of(HARMONY), text)
    assert [(call.name, call.arguments) for call in result.calls] == [("book", "")]
    assert result.completed == 0


def test_what_is_cut_off_stays_as_far_as_it_was() -> None:
    text = (
        f"<|channel|>analysis<|message|>hm{NEXT} to=functions.book<|channel|>commentary<|message|>"
    )
    text += r'{"title": "a\"\u00e9", "shelf": {"k": [true, -1]}}<|call|>' + BOOK
    check_truncated(HARMONY, text + "<|start|>assistant<|channel|>final<|message|>Done.")


def test_a_long_string_arrives_as_it_is_written() -> None:
    text = '<|channel|>commentary to=functions.note<|message|>{"text": "abc'
    assert read(reading_of(HARMONY), [text]).calls[0].arguments == '{"text": "abc'


@pytest.mark.soak
@soak
@given(
    messages=st.lists(
        st.tuples(st.sampled_from(["analysis", "commentary", "final"]), TEXTS)
        | st.tuples(
            st.sampled_from(["book", "note"]),
            st.dictionaries(WORDS, json_values(TEXTS), max_size=3),
        ),
        max_size=4,
    ),
    seed=st.integers(),
)
def test_messages_are_read_back(messages: list[tuple[str, Any]], seed: int) -> None:
    text = ""
    content, reasoning, calls = "", "", []
    for to, body in messages:
        text += "<|start|>assistant" if text else ""
        if isinstance(body, str):
            body = body.replace("<|", "<")
            text += f"<|channel|>{to}<|message|>{body}<|end|>"
            if to == "analysis":
                reasoning += body
            else:
                content += body
        else:
            text += f"<|channel|>commentary to=functions.{to} <|constrain|>json<|message|>"
            text += json.dumps(body) + "<|call|>"
            calls.append((to, body))
    dice = random.Random(seed)
    ends = sorted(dice.sample(range(len(text) + 1), min(len(text), 6)))
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    result = read(reading_of(HARMONY), parts)
    assert parsed(result) == calls
    assert result.reasoning == reasoning
    # White space alone between calls is nobody's.
    assert "".join(result.content.split()) == "".join(content.split())


@given(noise=st.lists(st.sampled_from([*HARMONY.markers, " to=book", "{", "analysis", " x"])))
def test_markers_in_any_order_are_read_the_same_however_they_are_cut(noise: list[str]) -> None:
    read_every_way(reading_of(HARMONY), "".join(noise), most=60)
