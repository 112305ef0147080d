"""Which tools a request offers, and whether one must be called."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.request.tool_choice import choose_tools
from sglrouter.schema.chat import ChatRequest

Json = dict[str, Any]


def request(**fields: Any) -> ChatRequest:
    return ChatRequest(messages=[], **fields)


def tool(name: object = "f", parameters: object = None, **more: object) -> Json:
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters, **more},
    }


TOOLS = [tool("f", x=1), tool("g"), tool("f", x=2)]


def allowed(mode: object, *names: str) -> Json:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize(
    ("tools", "choice", "shown", "forced"),
    [
        (None, None, None, False),
        ([], None, None, False),
        (None, "auto", None, False),
        ([], "auto", None, False),
        (None, "none", None, False),
        ([], "none", None, False),
        (TOOLS, None, [0, 1, 2], False),
        (TOOLS, "auto", [0, 1, 2], False),
        (TOOLS, "none", None, False),
        (TOOLS, "required", [0, 1, 2], True),
        (TOOLS, {"type": "function", "function": {"name": "g"}}, [1], True),
        (TOOLS, {"function": {"name": "g"}}, [1], True),
        (TOOLS, {"type": "function", "name": "g"}, [1], True),
        (TOOLS, {"type": "function", "function": {"name": "f"}}, [0], True),
        (TOOLS, allowed("auto", "g", "f"), [0, 1], False),
        (TOOLS, allowed("required", "g"), [1], True),
        (TOOLS, allowed("auto", "g", "g"), [1], False),
        (
            TOOLS,
            {"type": "allowed_tools", "mode": "required", "tools": [{"name": "g"}]},
            [1],
            True,
        ),
        (
            TOOLS,
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "name": "g"}]},
            },
            [1],
            False,
        ),
    ],
)
def test_tool_choice(tools: Any, choice: Any, shown: Any, forced: bool) -> None:
    chosen = choose_tools(request(tools=tools, tool_choice=choice))
    assert chosen.shown == (None if shown is None else [tools[i] for i in shown])
    assert chosen.allowed == tuple(shown or ())
    assert chosen.forced is forced


def test_tools_are_shown_as_the_client_wrote_them() -> None:
    tools = [{"function": {"x": None, "name": "f", "description": "d"}, "cache": 1}]
    shown = choose_tools(request(tools=tools)).shown
    assert shown is not None
    assert shown[0] is tools[0]


@pytest.mark.parametrize(
    "choice",
    ["required", {"type": "function", "function": {"name": "f"}}, "f", {}, allowed("auto", "f")],
)
@pytest.mark.parametrize("tools", [None, []])
def test_a_choice_among_tools_needs_tools(tools: Any, choice: Any) -> None:
    with pytest.raises(BadRequest, match="needs tools") as raised:
        choose_tools(request(tools=tools, tool_choice=choice))
    assert raised.value.param == "tool_choice"


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("f", ""),
        ("", ""),
        ("REQUIRED", ""),
        ("any", ""),
        ({"type": "auto"}, ""),
        ({"type": None}, ""),
        ({"type": "custom", "custom": {"name": "f"}}, ""),
        ({}, ".name"),
        ({"type": "function"}, ".name"),
        ({"type": "function", "name": 3}, ".name"),
        ({"type": "function", "name": "nope"}, ".name"),
        ({"type": "function", "function": {}}, ".function.name"),
        ({"type": "function", "function": "f"}, ".function"),
        ({"type": "function", "function": None}, ".function"),
        ({"type": "function", "function": {"name": None}}, ".function.name"),
        ({"type": "function", "function": {"name": "nope"}}, ".function.name"),
        ({"type": "allowed_tools"}, ".mode"),
        ({"type": "allowed_tools", "allowed_tools": None}, ".allowed_tools"),
        ({"type": "allowed_tools", "allowed_tools": []}, ".allowed_tools"),
        (allowed("none", "f"), ".allowed_tools.mode"),
        (allowed(None, "f"), ".allowed_tools.mode"),
        (allowed("auto"), ".allowed_tools.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": "f"}, ".tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": ["f"]}, ".tools[0]"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, ".tools[0]"),
        (allowed("auto", "f", "nope"), ".allowed_tools.tools[1].function.name"),
    ],
)
def test_a_choice_that_fits_no_tool_is_refused_by_its_place(choice: Any, param: str) -> None:
    with pytest.raises(BadRequest) as raised:
        choose_tools(request(tools=TOOLS, tool_choice=choice))
    assert raised.value.param == f"tool_choice{param}"
    assert raised.value.param in raised.value.message
    assert "nope" not in repr(choice) or "'nope'" in raised.value.message


@pytest.mark.parametrize("choice", [None, "auto", "none", "required"])
@pytest.mark.parametrize(
    ("broken", "param"),
    [
        ({}, ""),
        ({"type": "function"}, ""),
        ({"type": "function", "function": None}, ""),
        ({"type": "function", "function": "f"}, ""),
        ({"type": "web_search", "function": {"name": "f"}}, ""),
        ({"type": ["function"], "function": {"name": "f"}}, ""),
        ({"type": "function", "function": {}}, ".function.name"),
        (tool(""), ".function.name"),
        (tool(None), ".function.name"),
        (tool(3), ".function.name"),
        (tool(strict="yes"), ".function.strict"),
        (tool(strict=1), ".function.strict"),
        (tool(parameters="{}"), ".function.parameters"),
        (tool(parameters=[1]), ".function.parameters"),
        (tool(parameters={"type": "nope"}), ".function.parameters"),
        (tool(parameters={"type": "object", "$defs": None}), ".function.parameters"),
    ],
)
def test_a_malformed_tool_is_refused_by_its_place(choice: Any, broken: Json, param: str) -> None:
    with pytest.raises(BadRequest) as raised:
        choose_tools(request(tools=[tool(), broken], tool_choice=choice))
    assert raised.value.param == f"tools[1]{param}"
    assert raised.value.param in raised.value.message


@pytest.mark.parametrize("kind", [{}, {"type": None}])
def test_a_tool_without_a_type_is_a_function(kind: Json) -> None:
    tools = [{"function": {"name": "f"}, **kind}]
    assert choose_tools(request(tools=tools)).shown == tools


@pytest.mark.parametrize("strict", [None, True, False])
def test_strict_is_a_boolean_or_left_out(strict: object) -> None:
    assert choose_tools(request(tools=[tool(strict=strict)])).shown
