"""What a grammar makes a model write, the family's parser reads."""

from __future__ import annotations

import json

import pytest

from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.formats.program import Tools
from sglrouter.families.formats.structural_tags import Call
from sglrouter.families.reading import Reading
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.reading import read
from tests.families.tag_language import accepts
from tests.families.test_structural_tags import LEADS, SAME, TAGS, WRITTEN

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
