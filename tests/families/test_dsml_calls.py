"""DeepSeek's and GigaChat's markup, in what it has of its own."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import check_truncated, reading_of, reads
from tests.families.reading import read

V32 = TOOL_FORMATS["deepseekv32"]
V4 = TOOL_FORMATS["deepseekv4"]
V41 = TOOL_FORMATS["deepseekv41"]
GIGACHAT = TOOL_FORMATS["gigachat35"]
TOOLS = Tools(
    [
        {
            "function": {
                "name": "park",
                "parameters": {
                    "properties": {"lot": {"type": "string"}, "hours": {"type": "integer"}}
                },
            }
        }
    ]
)


def block(inner: str, name: str = "function_calls") -> str:
    return f"<｜DSML｜{name}>\n{inner}\n</｜DSML｜{name}>"


def invoke(body: str) -> str:
    return f'<｜DSML｜invoke name="park">{body}</｜DSML｜invoke>'


def parameter(key: str, value: str, kind: str = "") -> str:
    string = f' string="{kind}"' if kind else ""
    return f'<｜DSML｜parameter name="{key}"{string}>{value}</｜DSML｜parameter>'


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        # What the model says of the type counts, but a declared string is one.
        (parameter("lot", "7", "true"), {"lot": "7"}),
        (parameter("lot", "7", "false"), {"lot": "7"}),
        (parameter("lot", '"7"', "false"), {"lot": "7"}),
        (parameter("lot", "null", "false"), {"lot": None}),
        (parameter("lot", "null", "true"), {"lot": "null"}),
        (parameter("lot", " 7\n", "true"), {"lot": " 7\n"}),
        (parameter("hours", "3", "true"), {"hours": "3"}),
        (parameter("hours", "3", "false"), {"hours": 3}),
        (parameter("hours", "3"), {"hours": 3}),
        (parameter("other", '{"a": [1]}', "false"), {"other": {"a": [1]}}),
        (parameter("other", "B7", "false"), {"other": "B7"}),
        (parameter("other", "[1]", "true"), {"other": "[1]"}),
        # One object.
        ('\n{"lot": "B7", "x": {"y": []}}\n', {"lot": "B7", "x": {"y": []}}),
        ("{}", {}),
        ("", {}),
    ],
)
def test_arguments(body: str, arguments: dict[str, Any]) -> None:
    for form, name in ((V32, "function_calls"), (V4, "tool_calls")):
        assert reads(form, block(invoke(body), name), TOOLS) == ("", [("park", arguments)])


def test_the_order_of_attributes() -> None:
    text = block(invoke("<｜DSML｜parameter string='false' name='hours'>3</｜DSML｜parameter>"))
    assert reads(V32, text, TOOLS) == ("", [("park", {"hours": 3})])


def test_a_tag_that_closes_itself() -> None:
    call = '<｜DSML｜invoke name="park"/>'
    other = '<｜DSML｜invoke name="park" />'
    assert reads(V4, block(call + other, "tool_calls"), TOOLS) == ("", [("park", {})] * 2)
    body = '<｜DSML｜parameter name="lot" string="true"/>' + parameter("hours", "3")
    assert reads(V4, block(invoke(body)), TOOLS) == ("", [("park", {"lot": "", "hours": 3})])


def test_the_end_of_the_sentence_does_not_show() -> None:
    call = block(invoke(""))
    end = "<｜end▁of▁sentence｜>"
    assert reads(V32, f"{call}{end}", TOOLS) == ("", [("park", {})])
    assert reads(V32, f"Hello.{end}", TOOLS) == ("Hello.", [])


def test_marks_around_gigachat() -> None:
    text = block(invoke(parameter("hours", "3", "false")), "tool_calls").replace("DSML", "GCML")
    assert reads(GIGACHAT, f"Ok.{text}<|message_sep|>\n</s>", TOOLS) == (
        "Ok.",
        [("park", {"hours": 3})],
    )


def test_one_generation_is_not_another() -> None:
    text = block(invoke(parameter("hours", "3")), "calls")
    assert reads(V41, text, TOOLS) == (text, [])
    spaced = text.replace("｜DSML｜", "｜DSML｜ ")
    assert reads(V41, spaced, TOOLS) == ("", [("park", {"hours": 3})])


def test_the_opener_may_be_missing_for_a_known_function() -> None:
    call = invoke(parameter("hours", "3"))
    assert reads(V32, f"{call}</｜DSML｜function_calls>", TOOLS) == ("", [("park", {"hours": 3})])
    other = call.replace("park", "fly")
    assert reads(V32, other, TOOLS) == (other, [])


def test_a_whole_call_before_half_of_one() -> None:
    call = invoke(parameter("lot", "B7", "true"))
    text = block(call + call).split("B7")
    result = read(reading_of(V32, TOOLS), [text[0] + "B7" + text[1] + "B"])
    assert [call.arguments for call in result.calls] == ['{"lot": "B7"}', '{"lot": "B']
    assert (result.completed, result.content) == (1, "")


def test_an_object_cut_off_anywhere() -> None:
    body = '{"lot": "a\\nb", "x": {"y": [1, null, true]}}'
    check_truncated(V32, f"So. {block(invoke(body) + invoke(body))} ok", TOOLS)


@pytest.mark.parametrize(
    ("body", "arguments", "content"),
    [
        ('{"lot": "B7"} and more', {"lot": "B7"}, "and more"),
        ('{"lot": [1, 2', {"lot": [1, 2]}, ""),
        (
            '{"lot": "B7"}' + parameter("hours", "3"),
            {"lot": "B7"},
            '<｜DSML｜parameter name="hours">3',
        ),
        ('{"lot" "B7"}', {"lot": None}, '"B7"}'),
    ],
)
def test_an_object_that_is_none(body: str, arguments: dict[str, Any], content: str) -> None:
    text, calls = reads(V32, block(invoke(body) + invoke("")), TOOLS)
    assert calls == [("park", arguments), ("park", {})]
    assert text.strip() == content
