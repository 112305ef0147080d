"""Sections of calls with the names in front; what is common to them is in test_json_calls."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import TOOLS, reads
from tests.families.reading import read, read_every_way

DEEPSEEK = TOOL_FORMATS["deepseekv31"]
KIMI_K2 = TOOL_FORMATS["kimi_k2"]

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END, SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
EOS = "<｜end▁of▁sentence｜>"
V31 = f"{CALL}note{SEPARATOR}{{}}{CALL_END}"
V3 = f"{CALL}function{SEPARATOR}note\n```json\n{{}}\n```{CALL_END}"
NOTE: tuple[str, dict[str, Any]] = ("note", {})
NOW: tuple[str, dict[str, Any]] = ("now", {})


@pytest.mark.parametrize("call", [V3, V31], ids=["v3", "v31"])
@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("A {BEGIN}{call}{END} B{EOS}", "A  B", [NOTE]),
        ("{BEGIN}\n{call}\n{call}\n{END}\n{EOS}", "", [NOTE, NOTE]),
        ("{BEGIN}{call} and {call}{END}", " and ", [NOTE, NOTE]),
        # Two sections; a call outside of any; markers that are missing or doubled.
        ("{BEGIN}{call}{END}{BEGIN}{call}{END}.", ".", [NOTE, NOTE]),
        ("{call}x", "x", [NOTE]),
        ("{BEGIN}{BEGIN}{call}{call}", "", [NOTE, NOTE]),
        ("{call}{CALL_END}{END}{END} x", " x", [NOTE]),
        ("{CALL}{call}{END}", "{CALL}", [NOTE]),
        ("x {CALL}y z{CALL_END} {call}", "x {CALL}y z", [NOTE]),
        ("{BEGIN}nothing{END}", "nothing", []),
        ("{BEGIN}{call}{END} <｜tool", " <｜tool", [NOTE]),
        ("{BEGIN}{call} <｜tool", "", [NOTE]),
        ("{SEPARATOR} ```json\n{{}}\n```", "{SEPARATOR} ```json\n{{}}\n```", []),
    ],
)
def test_sections(call: str, text: str, content: str, calls: list[object]) -> None:
    names = {**globals(), "call": call}
    wanted = content.format_map(names)
    assert reads(DEEPSEEK, text.format_map(names)) == (wanted, calls)


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        # No arguments, no separator, no fence, or half a fence.
        (f"{CALL}now{SEPARATOR}{CALL_END}", "", [NOW]),
        (f"{CALL}now{CALL_END}.", ".", [NOW]),
        (f"{CALL}nobody{CALL_END}.", f"{CALL}nobody.", []),
        (f"{CALL}function{SEPARATOR}now{CALL_END}.", ".", [NOW]),
        (f"{CALL}function{SEPARATOR}now\n{{}}{CALL_END}", "", [NOW]),
        (f"{CALL}function{SEPARATOR}now\n```\n{{}}{CALL_END}", "", [NOW]),
        (f"{CALL}now{SEPARATOR}```json\n{{}}\n```{CALL_END}", "", [NOW]),
        (f"{CALL}\nnow\n{SEPARATOR} {{\n}} {CALL_END}", "", [NOW]),
        # A function that is called function.
        (f"{CALL}function{SEPARATOR}{{}}{CALL_END}", "", [("function", {})]),
        # No name, or what cannot be one.
        (f"{CALL}{SEPARATOR}{{}}{CALL_END}.", f"{CALL}{SEPARATOR}{{}}.", []),
        (f"{CALL}a b{SEPARATOR}{{}}{CALL_END}.", f"{CALL}a b{SEPARATOR}{{}}.", []),
        (f"{CALL}{'n' * 2000}{SEPARATOR}{{}}.", f"{CALL}{'n' * 2000}{SEPARATOR}{{}}.", []),
        # Brackets forgotten, junk behind.
        (f'{CALL}note{SEPARATOR}{{"text": "a"{CALL_END}', "", [("note", {"text": "a"})]),
        (f"{CALL}note{SEPARATOR}{{}} junk{CALL_END}", " junk", [NOTE]),
        (f'{CALL}note{SEPARATOR}{{"text": "a"{CALL}now{SEPARATOR}{{}}', "", None),
    ],
)
def test_deepseek_calls_that_are_not_quite_right(
    text: str, content: str, calls: list[object] | None
) -> None:
    wanted = [("note", {"text": "a"}), NOW] if calls is None else calls
    assert reads(DEEPSEEK, text) == (content, wanted)


K_BEGIN, K_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
K_CALL, K_CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
K_SEPARATOR = "<|tool_call_argument_begin|>"
DOTTED = Tools([{"name": "mcp.find-it"}, {"name": "now"}])


def kimi(head: str, arguments: str = "{}") -> str:
    return f"{K_BEGIN}{K_CALL}{head}{K_SEPARATOR}{arguments}{K_CALL_END}{K_END}"


@pytest.mark.parametrize(
    ("head", "name", "tools"),
    [
        ("functions.find-it:0", "find-it", TOOLS),
        (" functions.now:12 ", "now", TOOLS),
        ("now:0", "now", TOOLS),
        ("functions.now", "now", TOOLS),
        ("a.b.c:1", "c", TOOLS),
        ("functions.mcp.find-it:0", "mcp.find-it", DOTTED),
        ("functions.default.now:0", "now", DOTTED),
        ("functions.who:x", "who:x", TOOLS),
        # Without a dot, a colon, a number; and what only looks like a number.
        ("functionsnow:0", "now", TOOLS),
        ("functions.now0", "now", TOOLS),
        ("functions.now:", "now", TOOLS),
        ("functions_now_3", "now", TOOLS),
        ("functions now:1", "now", TOOLS),
        ("now", "now", TOOLS),
        ("functions.get0", "get0", Tools([{"name": "get"}, {"name": "get0"}])),
        ("nowhere:0", "nowhere", TOOLS),
    ],
)
def test_kimi_names(head: str, name: str, tools: Tools) -> None:
    assert reads(KIMI_K2, kimi(head), tools) == ("", [(name, {})])


@pytest.mark.parametrize(
    "head",
    [
        "call00007",
        "7",
        ":0",
        "functions.:0",
        "call_3",
        "functions:1",
        "",
        "call_a1B2c3",
        "chatcmpl-tool-0af3",
        "toolu_01X:0",
        "9f86d081-884c-4d65-9a2f-eaa0c55ad015",
    ],
)
def test_a_kimi_call_that_has_only_a_counter(head: str) -> None:
    only = Tools([{"name": "now"}])
    assert reads(KIMI_K2, kimi(head, '{"x": 1}'), only) == ("", [("now", {"x": 1})])
    # With several tools, the arguments tell, or nothing does.
    assert reads(KIMI_K2, kimi(head, '{"pages": 1}')) == ("", [("book", {"pages": 1})])
    for arguments in ("{}", '{"x": 1}', "[1]", "{'pages': 1}"):
        shown = f"{K_CALL}{head}{K_SEPARATOR}{arguments}"
        assert reads(KIMI_K2, kimi(head, arguments)) == (shown, [])


def test_a_kimi_call_without_a_separator() -> None:
    text = f"{K_BEGIN}{K_CALL}functions.now:0{K_CALL_END}{K_CALL}junk{K_CALL_END}{K_END}."
    assert reads(KIMI_K2, text) == (f"{K_CALL}junk.", [NOW])
    text = f"{K_CALL}functions.now:0{K_CALL}functions.now:1{K_SEPARATOR}{{}}{K_END}<|im_end|>"
    assert reads(KIMI_K2, text) == (f"{K_CALL}functions.now:0", [NOW])


def test_kimi_ids_go_on_from_the_calls_before() -> None:
    reading = Reading(calls=KIMI_K2, tools=TOOLS, calls_before=3)
    calls = f"{kimi('functions.now:0')}{kimi('functions.note:0')}"
    result = read(reading, [calls])
    assert [call.id for call in result.calls] == ["functions.now:3", "functions.note:4"]


def test_a_kimi_call_whose_name_was_to_be_inferred_is_dropped_if_cut_off() -> None:
    text = f'{K_BEGIN}{K_CALL}7{K_SEPARATOR}{{"pages": 1'
    result = read_every_way(Reading(calls=KIMI_K2, tools=TOOLS), text)
    assert (result.content, result.calls) == ("", [])


def test_required_parameters_tell_functions_apart() -> None:
    def tool(name: str, *required: str) -> dict[str, object]:
        properties = {"city": {"type": "string"}, name: {"type": "string"}}
        parameters = {"properties": properties, "required": list(required)}
        return {"name": name, "parameters": parameters}

    tools = Tools([tool("get", "city"), tool("put", "city", "put")])
    assert reads(KIMI_K2, kimi("call_x", '{"city": "Rome"}'), tools) == (
        "",
        [("get", {"city": "Rome"})],
    )


@pytest.mark.parametrize(
    "text",
    [
        "<|tool_call_section_begin|>{call}<|tool_call_section_end|>",
        "<|tool_call_section_begin|>{call}<|tool_calls_section_end|>",
        "{begin}{call}}}{end}",
        "{begin}{call}\n```\n{end}",
        "{begin}{fenced}{end}",
        "{begin}{glued}{end}",
    ],
)
def test_kimi_calls_that_are_not_quite_right(text: str) -> None:
    head, arguments = "functions.note:0", '{"text": "a"}'
    text = text.format(
        begin=K_BEGIN,
        end=K_END,
        call=f"{K_CALL}{head}{K_SEPARATOR}{arguments}",
        fenced=f"{K_CALL}{head}{K_SEPARATOR}```json\n{arguments}\n```{K_CALL_END}",
        glued=f"{K_CALL}{head}{arguments}{K_CALL_END}",
    )
    assert reads(KIMI_K2, f"Hm.{text} Done.") == ("Hm. Done.", [("note", {"text": "a"})])


def test_arguments_that_are_no_json_leave_the_call_incomplete() -> None:
    for arguments, given, rest in (
        ('{"text": "a"b"}', '{"text": "a"', 'b"}'),
        ("text=a", "", "text=a"),
    ):
        text = f"{K_BEGIN}{K_CALL}functions.note:0{K_SEPARATOR}{arguments}{K_CALL_END}{K_END}"
        result = read_every_way(Reading(calls=KIMI_K2, tools=TOOLS), text)
        assert [call.arguments for call in result.calls] == [given]
        assert (result.content, result.completed) == (rest, 0)
