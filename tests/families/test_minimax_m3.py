"""MiniMax-M3: arguments as a tree of tags."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.minimax_m3 import NAMESPACE
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import check_truncated, reading_of, reads
from tests.families.reading import read_every_way

MINIMAX_M3 = TOOL_FORMATS["minimax-m3"]

TOOLS = Tools(
    [
        {
            "function": {
                "name": "plan",
                "parameters": {
                    "properties": {
                        "city": {"type": "string"},
                        "days": {"type": "integer"},
                        "note": {"type": ["string", "null"]},
                        "stops": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "at": {"type": "string"},
                                    "hours": {"type": "number"},
                                },
                            },
                        },
                        "names": {"type": "object", "additionalProperties": {"type": "string"}},
                        "item_like": {"type": "object", "properties": {"item": {"type": "string"}}},
                        "rows": {"type": "array", "items": {"type": "array"}},
                    }
                },
            }
        }
    ]
)


def tree(text: str) -> str:
    """Puts the namespace before every tag of a text without other angle brackets."""
    return text.replace("<", NAMESPACE.decode() + "<")


def block(parameters: str) -> str:
    return tree(f'<tool_call><invoke name="plan">{parameters}</invoke></tool_call>')


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ("", {}),
        ("<city>5</city><days>5</days>", {"city": "5", "days": 5}),
        ("\n<city> a\n</city>\n<days>\n5\n</days>\n", {"city": " a\n", "days": 5}),
        ("<note>null</note>", {"note": None}),
        ("<note>none</note>", {"note": "none"}),
        ("<city></city><days></days><note></note>", {"city": "", "days": "", "note": ""}),
        ("<new>12</new>", {"new": 12}),
        (
            "<stops><item><at>7</at><hours>1.5</hours></item><item><at>x</at></item></stops>",
            {"stops": [{"at": "7", "hours": 1.5}, {"at": "x"}]},
        ),
        ("<stops></stops><names></names>", {"stops": [], "names": {}}),
        ("<stops>[1]</stops>", {"stops": [1]}),
        ("<names><a>1</a><b>2</b></names>", {"names": {"a": "1", "b": "2"}}),
        ("<item_like><item>1</item></item_like>", {"item_like": {"item": "1"}}),
        ("<rows><item><item>1</item></item><item></item></rows>", {"rows": [[1], []]}),
        ("<new><item>1</item><item>a</item></new>", {"new": [1, "a"]}),
        ("<new><a><b>1</b></a></new>", {"new": {"a": {"b": 1}}}),
    ],
)
def test_arguments(parameters: str, arguments: dict[str, Any]) -> None:
    text = block(parameters)
    assert reads(MINIMAX_M3, f"{text} ok {text}", TOOLS) == (" ok ", [("plan", arguments)] * 2)
    check_truncated(MINIMAX_M3, f"So {text} ok", TOOLS)


def test_space_between_the_namespace_and_a_tag() -> None:
    text = block("<city>x</city>").replace("[<", "[ \n<")
    assert reads(MINIMAX_M3, text, TOOLS) == ("", [("plan", {"city": "x"})])


def test_tags_without_the_namespace_are_text() -> None:
    text = '<tool_call><invoke name="plan"></invoke></tool_call>'
    assert reads(MINIMAX_M3, text, TOOLS) == (text, [])
    inner = block("<city>?</city>").replace("?", text)
    assert reads(MINIMAX_M3, inner, TOOLS) == ("", [("plan", {"city": text})])


@pytest.mark.parametrize(
    "text",
    [
        NAMESPACE.decode() + " is a token",
        tree("<tool_call> what"),
        tree("<tool_call></tool_call>"),
        tree("<tool_call><invoke></invoke>"),
        tree('<tool_call><invoke other="plan"></invoke>'),
        tree("<tool_call>") + "<b>" * 2000,
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    call = block("<days>1</days>")
    assert reads(MINIMAX_M3, f"{text} {call} ok", TOOLS) == (
        f"{text}  ok",
        [("plan", {"days": 1})],
    )


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ("<days>1</days> what? ", {"days": 1}),
        ("<stops><item><at>x</at></item> what? ", {"stops": [{"at": "x"}]}),
        ("<days>1</days><> what? ", {"days": 1}),
    ],
)
def test_a_call_that_breaks_off(parameters: str, arguments: dict[str, Any]) -> None:
    good = block("<days>2</days>")
    content, calls = reads(MINIMAX_M3, f"{block(parameters)} And {good} ok", TOOLS)
    assert calls == [("plan", arguments), ("plan", {"days": 2})]
    assert "what?" in content
    assert content.endswith(" ok")
    assert "</invoke>" not in content


@pytest.mark.long
def test_a_tree_too_deep() -> None:
    text = block("<a>" * 5000)
    result = read_every_way(reading_of(MINIMAX_M3, TOOLS), text, most=1000)
    assert len(result.calls) == 1
    assert result.calls[0].arguments.count("{") < 100


def test_an_end_of_a_string_that_text_follows() -> None:
    """It is part of the string, and the call's end stands in for it."""
    content, calls = reads(MINIMAX_M3, block("<stops><item><at>x</at> what? "), TOOLS)
    assert (content, calls) == (
        "",
        [("plan", {"stops": [{"at": f"x{NAMESPACE.decode()}</at> what? "}]})],
    )


@pytest.mark.parametrize(
    "value",
    [
        f"a{NAMESPACE.decode()}</city>b",
        f"{NAMESPACE.decode()} is a token",
        f"use {NAMESPACE.decode()}<days> here",
        f"{NAMESPACE.decode()}</invoke> x",
        block("<city>a</city><days>1</days>"),
        f"see {block('<city>a</city>')} and {block('<city>b</city>')} ok",
    ],
)
@pytest.mark.parametrize("after", ["", " ok"])
def test_tags_in_a_string(value: str, after: str) -> None:
    text = block("<city>?</city><days>5</days>").replace("?", value) + after
    assert reads(MINIMAX_M3, text, TOOLS) == (after, [("plan", {"city": value, "days": 5})])


def test_no_name_comes_twice() -> None:
    text = block("<city>a</city><city>b</city><x><a>1</a><a><b>2</b><b>3</b></a><c>4</c></x>")
    arguments = {"city": "a", "x": {"a": 1, "c": 4}}
    reading = reading_of(MINIMAX_M3, TOOLS)
    assert reads(MINIMAX_M3, text, TOOLS) == ("", [("plan", arguments)])
    assert read_every_way(reading, text).calls[0].arguments.count('"city"') == 1
