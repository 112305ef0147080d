"""Kimi K3's elements, cut everywhere."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.families.reading import Reading
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import TOOLS, call_lists, check_truncated, parsed, reading_of, reads
from tests.families.reading import read, read_every_way
from tests.fast.profile import soak

KIMI_K3 = TOOL_FORMATS["kimi_k3"]


def element(tag: str, inner: str) -> str:
    return f"<|open|>{tag}<|sep|>{inner}<|close|>{tag.split()[0]}<|sep|>"


def argument(key: str, kind: str, value: str) -> str:
    return element(f'argument key="{key}" type="{kind}"', value)


def call(name: str, *arguments: str) -> str:
    return element(f'call tool="{name}" index="1"', "".join(arguments))


def answer(text: str, *calls: str) -> str:
    tools = element("tools", "".join(calls)) if calls else ""
    return element("response", text) + tools + "<|close|>message<|sep|>"


BOOK = call("book", argument("title", "string", "Emma"), argument("pages", "number", "474"))
EMMA = ("book", {"title": "Emma", "pages": 474})


def test_an_answer_with_calls() -> None:
    assert reads(KIMI_K3, answer("Looking.", BOOK, call("now"))) == (
        "Looking.",
        [EMMA, ("now", {})],
    )
    assert reads(KIMI_K3, answer(" Just\ntext. ")) == (" Just\ntext. ", [])
    assert reads(KIMI_K3, "Looking." + BOOK + "Done.") == ("Looking.Done.", [EMMA])


def test_ids_tell_the_function_and_the_number() -> None:
    reading = Reading(calls=KIMI_K3, tools=TOOLS, calls_before=3)
    assert [found.id for found in read(reading, [answer("", BOOK, call("now"))]).calls] == [
        "book:3",
        "now:4",
    ]


@pytest.mark.parametrize(
    ("key", "kind", "written", "value"),
    [
        ("title", "string", ' a "b" \\n\n<x> ', ' a "b" \\n\n<x> '),
        ("title", "number", "12", "12"),  # the schema has the last word
        ("other", "string", "12", "12"),
        ("other", "number", "12", 12),
        ("other", "boolean", "true", True),
        ("other", "null", "null", None),
        ("other", "object", '{"a": [1]}', {"a": [1]}),
        ("other", "array", "[1, x", "[1, x"),
        ("pages", "number", "many", "many"),
        ("lent", "boolean", "false", False),
        ("a&quot;b&amp;c", "number", "1", 1),
    ],
)
def test_values(key: str, kind: str, written: str, value: Any) -> None:
    text = answer("", call("book", argument(key, kind, written)))
    key = key.replace("&quot;", '"').replace("&amp;", "&")
    assert reads(KIMI_K3, text) == ("", [("book", {key: value})])


def test_all_arguments_at_once() -> None:
    text = answer(
        "", call("book", element('json type="object"', '{"title": "Emma", "pages": 474}'))
    )
    assert reads(KIMI_K3, text) == ("", [EMMA])


@pytest.mark.parametrize(
    "text",
    [
        '<|open|>call tool="book"<|sep|>'
        + argument("pages", "number", "2")
        + "<|close|>tools<|sep|>",
        '<|open|>call tool="book"<|sep|><|open|>argument key="pages"<|sep|>2<|close|>call<|sep|>',
        '<|open|>tools<|sep|> <|open|>call index="1" tool="book"<|sep|>\n'
        + argument("pages", "number", "2")
        + "\n<|close|>call<|sep|>\n",
    ],
)
def test_ends_that_were_forgotten(text: str) -> None:
    assert reads(KIMI_K3, text) == ("", [("book", {"pages": 2})])


@pytest.mark.parametrize(
    "text",
    [
        "a <|open|>b<|sep|> c",
        "a <|close|><|open|>b<|sep|> c",
        '<|open|>call index="1"<|sep|>' * 0 + "<|open|><|sep|>",
        "<|open|>" + "x" * 9000 + "<|sep|>",
        "<|sep|>",
    ],
)
def test_tags_that_it_does_not_have_are_content(text: str) -> None:
    assert reads(KIMI_K3, text) == (text, [])


def test_what_is_cut_off_stays_as_far_as_it_was() -> None:
    text = call("book", argument("title", "string", 'a"\\é'), argument("pages", "number", "12"))
    check_truncated(KIMI_K3, answer("Hm.", text, BOOK))


@pytest.mark.parametrize("cut", ["<|close|>", "<|close|>resp", "<|close|>response"])
def test_a_tag_that_was_cut_off_is_not_shown(cut: str) -> None:
    assert reads(KIMI_K3, "<|open|>response<|sep|>Hi." + cut) == ("Hi.", [])


def test_a_long_string_arrives_as_it_is_written() -> None:
    text = '<|open|>call tool="note"<|sep|><|open|>argument key="text" type="string"<|sep|>abc "d'
    assert read(reading_of(KIMI_K3), [text]).calls[0].arguments == '{"text": "abc \\"d'


@pytest.mark.soak
@soak
@given(calls=call_lists(), seed=st.integers())
def test_what_the_template_writes_is_read_back(calls: Any, seed: int) -> None:
    names = {"title": "t_itle", "pages": "p", "price": "q", "lent": "l", "tags": "s", "shelf": "e"}
    calls = [
        (name, {names.get(key, key) + "_": value for key, value in arguments.items()})
        for name, arguments in calls
    ]
    text = answer(
        "Hi.",
        *(
            call(
                name,
                *(
                    argument(key, "string", value)
                    if isinstance(value, str)
                    else argument(key, "any", json.dumps(value))
                    for key, value in arguments.items()
                ),
            )
            for name, arguments in calls
        ),
    )
    dice = random.Random(seed)
    ends = sorted(dice.sample(range(len(text) + 1), min(len(text), 6)))
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    result = read(reading_of(KIMI_K3), parts)
    assert (result.content, parsed(result)) == ("Hi.", calls)


@given(
    noise=st.lists(
        st.sampled_from(
            [
                "<|open|>",
                "<|close|>",
                "<|sep|>",
                "call",
                ' tool="now"',
                "argument",
                "json",
                "{",
                " x",
            ]
        )
    )
)
def test_markers_in_any_order_are_read_the_same_however_they_are_cut(noise: list[str]) -> None:
    read_every_way(reading_of(KIMI_K3), "".join(noise), most=60)
