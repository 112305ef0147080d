"""functions and function_call, read as tools and tool_choice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.schema.chat import ChatRequest, decode_chat_request

F = {"name": "f", "parameters": {"type": "object"}, "x": None}
G = {"name": "g"}


def decode(**fields: Any) -> ChatRequest:
    messages = [{"role": "user", "content": "hi"}]
    return decode_chat_request(json.dumps({"messages": messages, **fields}).encode())


def test_functions_are_tools() -> None:
    request = decode(functions=[F, G], model="m")
    assert json.dumps(request.tools) == json.dumps(
        [{"type": "function", "function": F}, {"type": "function", "function": G}]
    )
    assert request.functions is None
    assert request.tool_choice is None
    assert request.model == "m"


@pytest.mark.parametrize(
    ("call", "choice"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ({"name": "g"}, {"type": "function", "function": {"name": "g"}}),
    ],
)
def test_function_call_is_the_choice(call: Any, choice: Any) -> None:
    request = decode(functions=[F, G], function_call=call)
    assert request.tool_choice == choice
    assert request.function_call is None


def test_the_new_fields_count_where_both_are_there() -> None:
    tools = [{"type": "function", "function": G}]
    request = decode(tools=tools, tool_choice="auto", functions=[F], function_call="none")
    assert request.tools == tools
    assert request.tool_choice == "auto"


@pytest.mark.parametrize("call", ["required", "", {}, {"name": 3}])
def test_another_choice_is_refused(call: Any) -> None:
    with pytest.raises(BadRequest) as raised:
        decode(functions=[F], function_call=call)
    assert raised.value.param == "function_call"


@pytest.mark.parametrize("function", [{}, {"name": ""}, {"name": 3}])
def test_a_function_without_a_name_is_refused_by_its_place(function: Any) -> None:
    with pytest.raises(BadRequest) as raised:
        decode(functions=[F, function])
    assert raised.value.param == "functions[1].name"
