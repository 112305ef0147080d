"""Answers that must be calls: an array by a grammar, or what the family writes by its own."""

from __future__ import annotations

import json

import pytest

from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.formats.program import Tools
from sglrouter.families.formats.structural_tags import Call
from sglrouter.families.reading import Reading
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.formats.test_structural_tags import LEADS, SAME, TAGS, WRITTEN
from tests.families.laws import reading_of, reads
from tests.families.reading import read, read_every_way
from tests.families.tag_language import accepts

# {"a": "x"} in each style.
STYLES = {
    "json": '{"a": "x"}',
    "qwen_xml": "<parameter=a>\nx\n</parameter>",
    "glm_xml": "<arg_key>a</arg_key><arg_value>x</arg_value>",
    "deepseek_xml": '<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>\n',
    "deepseek_v4_1_xml": '<｜DSML｜ parameter name="a" string="true">x</｜DSML｜ parameter>\n',
    "kimi_k3_xml": '<|open|>argument key="a" type="string"<|sep|>x<|close|>argument<|sep|>',
}
NAMES = ("get_x", "get")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("parser", TAGS)
def test_forced_calls_are_read(parser: str, count: int) -> None:
    name = SAME.get(parser, parser)
    calls, between, (begin, end) = WRITTEN[name]
    if name == "llama3":  # whose tag marks the first call, or each of them
        calls = [calls[0], calls[1].removeprefix("<|python_tag|>")]
    text = LEADS.get(name, "") + begin + between.join(calls[:count]) + end
    tag = TAGS[parser].of_calls(
        [Call("get_x", {"title": "strict"}), Call("get", {"type": "object"})],
        at_least_one=True,
        stop_after_first=count == 1,
    )
    assert accepts(tag, text)
    for style, arguments in STYLES.items():
        text = text.replace(f"<{style} strict>", arguments).replace(f"<{style} any>", arguments)
    reading = Reading(calls=forced(TOOL_FORMATS[parser]), tools=Tools(TOOLS))
    for parts in ([text], list(text)):
        result = read(reading, parts)
        assert [call.name for call in result.calls] == list(NAMES[:count])
        assert [json.loads(call.arguments) for call in result.calls] == [{"a": "x"}] * count
        assert result.content.strip() == ""
        assert result.completed == count


ARRAY = '[{"name": "now", "parameters": {}}, {"name": "note", "parameters": {"text": "a]"}}]'
CALLS = [("now", {}), ("note", {"text": "a]"})]
HERMES = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'
# A family of which calls begin with a bracket, too.
PYTHONIC = "[now(), note(text='a]')]"


@pytest.mark.parametrize("parser", [None, "hermes", "pythonic", "mistral"])
def test_an_array_is_read_whatever_the_family(parser: str | None) -> None:
    form = forced(TOOL_FORMATS[parser] if parser else None)
    for text in (ARRAY, f" \n{ARRAY}", ARRAY.replace("parameters", "arguments")):
        assert reads(form, text) == ("", CALLS)
    # Which grammar there was says nothing of what a function may be called.
    assert reads(form, '[{"name": "other", "parameters": {}}]') == ("", [("other", {})])


@pytest.mark.parametrize(
    ("parser", "text", "content", "calls"),
    [
        ("hermes", HERMES, "", [CALLS[0]]),
        ("hermes", f"So: {HERMES}.", "So: .", [CALLS[0]]),
        ("hermes", "[1, 2] is no call", "[1, 2] is no call", []),
        ("hermes", f"[So] {HERMES}", "[So] ", [CALLS[0]]),
        ("pythonic", PYTHONIC, "", CALLS),
        ("pythonic", "[1, 2]", "[1, 2]", []),
        ("mistral", f"[TOOL_CALLS] {ARRAY}", "", CALLS),
        ("mistral", "[TOOL_CALLS]now[ARGS]{}", "", [CALLS[0]]),
        # Without a family's own way, all but an array is content.
        (None, HERMES, HERMES, []),
        (None, "  Hello [x]. ", "  Hello [x]. ", []),
        (None, "[1, 2] and more", "[1, 2] and more", []),
        (None, "", "", []),
    ],
)
def test_an_engine_may_not_have_enforced_it(
    parser: str | None, text: str, content: str, calls: list[object]
) -> None:
    assert reads(forced(TOOL_FORMATS[parser] if parser else None), text) == (content, calls)


@pytest.mark.parametrize("parser", [None, "hermes"])
def test_what_follows_the_array_is_content(parser: str | None) -> None:
    form = forced(TOOL_FORMATS[parser] if parser else None)
    assert reads(form, f"{ARRAY} Done.") == (" Done.", CALLS)


def test_an_array_that_is_cut_off_is_delivered_as_far_as_it_came() -> None:
    reading = reading_of(forced(None))
    for end in range(1, len(ARRAY)):
        text = ARRAY[:end]
        result = read_every_way(reading, text, most=10)
        assert result.completed == text.count("}}")
        assert [call.name for call in result.calls] == ["now", "note"][: len(result.calls)]
        # Before the first name it may be anything; from there on nothing of it is text.
        assert result.content == ("" if result.calls else text)
        assert bool(result.calls) == (end > ARRAY.index('",'))


def test_plain_text_is_not_held_back() -> None:
    parser = reading_of(forced(None)).parser()
    assert parser is not None
    parser.feed(b"Hello")
    assert parser.take()[0] == b"Hello"
