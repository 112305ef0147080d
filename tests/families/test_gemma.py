"""Gemma 4's literals, cut everywhere."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import WORDS, call_lists, check_truncated, parsed, reading_of, reads
from tests.families.reading import read, read_every_way
from tests.fast.profile import soak

GEMMA4 = TOOL_FORMATS["gemma4"]

Q = '<|"|>'


def block(call: str) -> str:
    return f"<|tool_call>{call}<tool_call|>"


BOOK = block(f"call:book{{title:{Q}Emma{Q},pages:474}}")
EMMA = ("book", {"title": "Emma", "pages": 474})


def test_its_markers_are_seen() -> None:
    assert set(GEMMA4.markers) == {"<|tool_call>", "<tool_call|>", Q}


def test_calls_with_text_around() -> None:
    text = f"Looking.\n{BOOK}\n{block('call:now{}')} Done. {BOOK}."
    assert reads(GEMMA4, text) == ("Looking.\n Done. .", [EMMA, ("now", {}), EMMA])


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (f"{Q}a {{ b }} : c, \"d\"\n\\n 'e' <x>{Q}", "a { b } : c, \"d\"\n\\n 'e' <x>"),
        (f"{Q}{Q}", ""),
        (f'{Q}日本 😀 <|" <|{Q}', '日本 😀 <|" <|'),
        (f"{Q}<tool_call|>{Q}", "<tool_call|>"),
        ("-1.5", -1.5),
        ("true", True),
        ("false", False),
        ("null", None),
        ("New York", "New York"),
        (" New York ", "New York"),
        ("10:30", "10:30"),
        ('"quoted, too"', "quoted, too"),
        (f"[{Q}a]{Q}, 2, [ ], {{}}]", ["a]", 2, [], {}]),
        (f"{{k:{Q}v{Q}, {Q}two words{Q}:[1],x y:2}}", {"k": "v", "two words": [1], "x y": 2}),
    ],
)
def test_values(written: str, value: Any) -> None:
    text = block(f"call:book{{shelf:{written},title:{written}}}")
    assert reads(GEMMA4, text) == ("", [("book", {"shelf": value, "title": value})])


@pytest.mark.parametrize(
    "call", [" call:now{}", "call: now {}\n", "call:now", "\ncall:now{ }", "call:now{"]
)
def test_a_call_without_arguments(call: str) -> None:
    text = block(call)
    content, calls = reads(GEMMA4, text)
    assert (content.strip(), calls) == ("", [("now", {})])


def test_a_doubled_opener_is_one() -> None:
    assert reads(GEMMA4, "<|tool_call>\n" + BOOK) == ("", [EMMA])


def test_a_call_of_an_unknown_function() -> None:
    assert reads(GEMMA4, block("call:shop.buy-2{a:1}")) == ("", [("shop.buy-2", {"a": 1})])


@pytest.mark.parametrize("inner", ["2 + 2", "call:", "call:{}", "call:now}", "now{}", ""])
def test_a_block_without_a_call_is_content(inner: str) -> None:
    text = f"a {block(inner)} b"
    assert reads(GEMMA4, text) == (text, [])


@pytest.mark.parametrize(
    ("call", "arguments", "rest"),
    [
        ("call:book{tags:[1,2}", {"tags": [1, 2]}, ""),
        ("call:book{tags:[1<tool_call|>", {"tags": [1]}, ""),
        ("call:book{pages:1}}", {"pages": 1}, ""),
        ("call:book{pages:1}} and", {"pages": 1}, "} and"),
    ],
)
def test_arguments_that_break_off_are_closed(call: str, arguments: Any, rest: str) -> None:
    assert reads(GEMMA4, block(call)) == (rest, [("book", arguments)])


def test_arguments_that_are_something_else_leave_the_call_incomplete() -> None:
    text = block(f"call:book{{title:{Q}a{Q}b, c}}")
    result = read_every_way(reading_of(GEMMA4), text)
    assert [call.arguments for call in result.calls] == ['{"title": "a"']
    assert (result.content, result.completed) == ("b, c}", 0)


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        (f"{{command:{Q}look{Q}angle:90}}", {"command": "look", "angle": 90}),
        (f"{{command:{Q}look{Q} {Q}an angle{Q}:90}}", {"command": "look", "an angle": 90}),
        (f"{{angle:90 on:true command:{Q}look{Q}}}", {"angle": 90, "on": True, "command": "look"}),
        (f"{{tags:[{Q}a{Q}{Q}b{Q}]at:{{x:1}}y:2}}", {"tags": ["a", "b"], "at": {"x": 1}, "y": 2}),
        (f"{{command:{Q}look{Q}{Q},angle:90}}", {"command": "look", "angle": 90}),
        (f"{{command:{Q}look{Q}{Q} }}", {"command": "look"}),
        ("{at:10 to 11:30}", {"at": "10 to 11:30"}),
    ],
)
def test_commas_forgotten_and_markers_too_many(written: str, arguments: Any) -> None:
    assert reads(GEMMA4, block(f"call:go{written}")) == ("", [("go", arguments)])


@pytest.mark.parametrize("again", ["2", f"{Q}x{Q}", "{a:1}", "[1]", "true", ""])
def test_a_key_comes_once(again: str) -> None:
    text = block(f"call:go{{a:1,b:{{a:1}},a:{again},c:2}}")
    (call,) = read_every_way(reading_of(GEMMA4), text).calls
    assert call.arguments == '{"a": 1, "b": {"a": 1}, "c": 2}'
    text = block(f"call:go{{a:1,a:{again}}}")
    assert read(reading_of(GEMMA4), [text]).calls[0].arguments == '{"a": 1}'


def test_a_block_that_is_not_closed() -> None:
    assert reads(GEMMA4, BOOK.removesuffix("<tool_call|>")) == ("", [EMMA])
    assert reads(GEMMA4, BOOK.removesuffix("<tool_call|>") + BOOK) == ("", [EMMA, EMMA])


def test_what_is_cut_off_stays_as_far_as_it_was() -> None:
    text = block(f'call:book{{title:{Q}a"\\é{Q},pages:12,lent:10:30,shelf:{{k:[true,-1,x y]}}}}')
    check_truncated(GEMMA4, f"Hm. {text}{BOOK} Done.")


def test_a_long_string_arrives_as_it_is_written() -> None:
    text = f'<|tool_call>call:note{{text:{Q}abc "def'
    assert read(reading_of(GEMMA4), [text]).calls[0].arguments == '{"text": "abc \\"def'


def literal(value: Any) -> str:
    if isinstance(value, str):
        return f"{Q}{value}{Q}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(literal, value)) + "]"
    return "null" if value is None else str(value).lower()


@pytest.mark.soak
@soak
@given(calls=call_lists(WORDS), seed=st.integers())
def test_what_the_template_writes_is_read_back(calls: Any, seed: int) -> None:
    text = "".join(block(f"call:{name}{literal(arguments)}") for name, arguments in calls)
    # A string that holds the marker cannot be written.
    assume('<|"' not in repr(calls))
    dice = random.Random(seed)
    ends = sorted(dice.sample(range(len(text) + 1), min(len(text), 6)))
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    result = read(reading_of(GEMMA4), parts)
    assert (result.content, parsed(result)) == ("", calls)


@given(noise=st.text(st.sampled_from('[]{},:<|">\\a1 \n'), max_size=30))
def test_noise_is_read_the_same_however_it_is_cut(noise: str) -> None:
    read_every_way(reading_of(GEMMA4), block(f"call:book{{title:{noise}"))
    read_every_way(reading_of(GEMMA4), block(noise))
