"""The families that write keys and values in pairs, in what each has of its own."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import check_truncated, reading_of, reads
from tests.families.reading import read_every_way

GLM = TOOL_FORMATS["glm45"]
HUNYUAN = TOOL_FORMATS["hunyuan"]
HORIZON = TOOL_FORMATS["k2_horizon"]
TOOLS = Tools(
    [
        {
            "function": {
                "name": "seek",
                "parameters": {
                    "properties": {
                        "term": {"type": "string"},
                        "most": {"type": "integer"},
                        "who": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                        "tags": {"type": "array"},
                        "v": {"type": ["string", "integer"]},
                    }
                },
            }
        },
        {"function": {"name": "ls", "parameters": {"properties": None}}},
        {"function": {"name": "bare"}},
    ]
)


def pair(key: str, value: str) -> str:
    return f"<arg_key>{key}</arg_key><arg_value>{value}</arg_value>"


@pytest.mark.parametrize(
    ("body", "name", "arguments"),
    [
        ("ls", "ls", {}),
        ("\n ls \n", "ls", {}),
        # A line's end may be written as two characters.
        (f"ls\\n{pair('dir', '/srv')}", "ls", {"dir": "/srv"}),
        (f"ls\\n\n{pair('dir', '/srv')}", "ls", {"dir": "/srv"}),
        # Tags there twice, or not at all.
        ("ls<arg_key>dir</arg_key></arg_key><arg_value>/srv</arg_value>", "ls", {"dir": "/srv"}),
        ("ls<arg_key>dir</arg_key>/srv</arg_value>", "ls", {"dir": "/srv"}),
        ("ls<arg_key>dir<arg_value>/srv</arg_value>", "ls", {"dir": "/srv"}),
        (f"ls{pair('dir', '/srv')}</arg_value>", "ls", {"dir": "/srv"}),
        (f"ls{pair('dir', '/srv')}</arg_key>{pair('a', '1')}", "ls", {"dir": "/srv", "a": 1}),
        ("ls<arg_key>x</arg_key>" + pair("dir", "/srv"), "ls", {"dir": "/srv"}),
        ("ls<arg_key>x" + pair("dir", "/srv"), "ls", {"dir": "/srv"}),
        ("ls<arg_key>dir</arg_key>", "ls", {}),
        ("ls<arg_key>dir", "ls", {}),
        # Types.
        (pair("a", "42") + pair("b", "7up") + pair("c", '{"z": 0}'), "ls",
         {"a": 42, "b": "7up", "c": {"z": 0}}),
        (pair("who", "Ada") + pair("tags", "[\"p\"]"), "seek", {"who": "Ada", "tags": ["p"]}),
        (pair("who", "null") + pair("term", "null"), "seek", {"who": None, "term": "null"}),
        (pair("v", "1e3"), "seek", {"v": "1e3"}),
        (pair("v", "1"), "seek", {"v": 1}),
        (pair("v", "1e3"), "bare", {"v": 1000.0}),
        (pair("term", "  a\n"), "seek", {"term": "  a\n"}),
    ],
)  # fmt: skip
def test_calls(body: str, name: str, arguments: dict[str, Any]) -> None:
    if not body.lstrip().startswith(name):
        body = f"{name}\n{body}"
    text = f"<tool_call>{body}</tool_call>"
    assert reads(GLM, f"Ok. {text}{text} So.", TOOLS) == ("Ok.  So.", [(name, arguments)] * 2)


def test_the_name_goes_out_before_the_arguments() -> None:
    reading = reading_of(GLM, TOOLS)
    for text, arguments in (
        ("<tool_call>seek\n<arg_key>", ""),
        ("<tool_call>seek\n<arg_key>who</arg_key>\n<arg_value>nu", ""),
        ("<tool_call>seek\n<arg_key>who</arg_key>\n<arg_value>nut", '{"who": "nut'),
        ("<tool_call>seek\n<arg_key>most</arg_key>\n<arg_value>12", ""),
        ("<tool_call>seek\n<arg_key>term</arg_key>\n<arg_value>blue </arg_", '{"term": "blue '),
    ):
        result = read_every_way(reading, text)
        assert [(call.name, call.arguments) for call in result.calls] == [("seek", arguments)]
        assert (result.completed, result.content) == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call> marks a call.",
        "<tool_call></tool_call>",
        "<tool_call>Let me see\nwhat there is</tool_call>",
        "<tool_call>seek and find",
        "<tool_call>seek <b>",
        "<tool_call>" + "x" * 5000,
        "<tool_call>" + " " * 3000 + "x",
        "<tool_call>{no: call}</tool_call>",
        "<arg_key>a</arg_key> alone; a <tool_call without its end",
        "<tool_call>seek\\no",
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert reads(GLM, text if text[-1] != "d" else f"{text}\nx", TOOLS)[1] == []
    assert reads(GLM, f"{text} ok", TOOLS) == (f"{text} ok", [])


def test_a_key_without_end() -> None:
    text = f"<tool_call>ls{pair('a', '1')}<arg_key>" + "x" * 3000
    content, calls = reads(GLM, f"{text}<tool_call>ls</tool_call>", TOOLS)
    assert calls == [("ls", {"a": 1}), ("ls", {})]
    assert content == "<arg_key>" + "x" * 3000


def test_a_call_that_the_next_one_ends() -> None:
    text = f"<tool_call>ls{pair('a', '1')}<tool_call>ls</tool_call> ok"
    assert reads(GLM, text, TOOLS) == (" ok", [("ls", {"a": 1}), ("ls", {})])


def test_an_object_for_a_call() -> None:
    text = '<tool_call>{"name": "ls", "arguments": {"a": 1}}</tool_call>'
    assert reads(GLM, f"{text}{text} ok", TOOLS) == (" ok", [("ls", {"a": 1})] * 2)
    assert reads(GLM, f"{text} </arg_value>", TOOLS) == (" </arg_value>", [("ls", {"a": 1})])


def test_hunyuan_without_separator_or_suffix() -> None:
    call = f"<tool_call>ls{pair('a', '1')}</tool_call>"
    assert reads(HUNYUAN, f"<tool_calls>{call}</tool_calls>", TOOLS) == ("", [("ls", {"a": 1})])
    mixed = call.replace("<arg_key>", "<arg_key:opensource>")
    assert reads(HUNYUAN, f"{mixed} ok", TOOLS) == (" ok", [("ls", {"a": 1})])
    assert reads(HUNYUAN, "<tool_sep> alone", TOOLS) == ("<tool_sep> alone", [])


@pytest.mark.parametrize(
    ("typed", "value"),
    [("string", "12"), ("integer", 12), ("number", 12), ("any", "12")],
)
def test_a_type_beside_the_value(typed: str, value: object) -> None:
    def call(key: str) -> str:
        return (
            f"<ifm|tool_call>seek<ifm|arg_key>{key}</ifm|arg_key>\n"
            f"<ifm|arg_type>{typed}</ifm|arg_type>\n<ifm|arg_value>12</ifm|arg_value>"
            "</ifm|tool_call>"
        )

    text = f"<ifm|tool_calls>\n{call('new')}\n{call('most')}\n</ifm|tool_calls>"
    # What the schema declares counts more.
    assert reads(HORIZON, text, TOOLS) == ("", [("seek", {"new": value}), ("seek", {"most": 12})])
    check_truncated(HORIZON, f"So {text} ok", TOOLS)


def test_objects_of_horizon() -> None:
    one = '<ifm|tool_call>{"name": "ls", "arguments": {"a": 1}}</ifm|tool_call>'
    two = '<ifm|tool_call>[{"name": "ls"}, {"name": "bare", "parameters": {}}]</ifm|tool_call>'
    assert reads(HORIZON, f"<ifm|tool_calls>{one}{two}</ifm|tool_calls>", TOOLS) == (
        "",
        [("ls", {"a": 1}), ("ls", {}), ("bare", {})],
    )
