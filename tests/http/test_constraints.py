"""Which grammar and which tools a request asks for."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.backend.scheduler import CONSTRAINTS, Sampling, generate_request
from sglrouter.errors import BadRequest
from sglrouter.http.constraints import (
    Constraint,
    choose_tools,
    forced_call_constraint,
    response_constraint,
)
from sglrouter.schema.chat import ChatRequest, decode_chat_request

Json = dict[str, Any]


def request(**fields: Any) -> ChatRequest:
    return ChatRequest(messages=[], **fields)


def tool(name: object = "f", parameters: object = None, **more: object) -> Json:
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters, **more},
    }


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


SCHEMA = {"type": "object", "z": 1, "properties": {"ü": {"type": "string"}}}
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        (
            {"response_format": {"type": "json_object"}},
            ("json_schema", '{"type": "object"}'),
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
                }
            },
            ("json_schema", '{"type":"object","z":1,"properties":{"ü":{"type":"string"}}}'),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            ("json_schema", "{}"),
        ),
        ({"response_format": TAG}, ("structural_tag", json.dumps(TAG, separators=(",", ":")))),
        ({"regex": "a+"}, ("regex", "a+")),
        ({"ebnf": "root ::= x"}, ("ebnf_grammar", "root ::= x")),
        ({"response_format": {"type": "text"}, "regex": "a+"}, ("regex", "a+")),
    ],
)
def test_each_kind_of_constraint(fields: Json, wanted: Constraint | None) -> None:
    constraint = response_constraint(request(**fields))
    assert constraint == wanted
    if constraint is not None:
        assert constraint[0] in CONSTRAINTS
        generate_request(
            request_id="i", text="", ids=[1], sampling=Sampling(constraint=wanted), stream=True
        )


@pytest.mark.parametrize(
    "fields",
    [
        {"regex": "a", "ebnf": "b"},
        {"response_format": {"type": "json_object"}, "regex": "a"},
        {"response_format": TAG, "ebnf": "b"},
        {"response_format": TAG, "ebnf": "b", "regex": "a"},
    ],
)
def test_two_constraints_are_refused(fields: Json) -> None:
    with pytest.raises(BadRequest, match="Only one") as raised:
        response_constraint(request(**fields))
    assert raised.value.param == "response_format"


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({}, "type"),
        ({"type": None}, "type"),
        ({"type": "xml"}, "type"),
        ({"type": ["text"]}, "type"),
        ({"type": "json_schema"}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": None}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": "x"}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": "{}"}}, "json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": [1]}}, "json_schema.schema"),
        ({"type": "json_schema", "schema": {}}, "json_schema.schema"),
    ],
)
def test_a_malformed_response_format_names_its_field(wanted: Json, param: str) -> None:
    with pytest.raises(BadRequest) as raised:
        response_constraint(request(response_format=wanted))
    assert raised.value.param == f"response_format.{param}"
    assert raised.value.param in raised.value.message


def test_a_schema_too_deep_to_write_is_refused() -> None:
    """What can just be read from a shallow stack may be too deep for a later one."""
    wanted = {"type": "json_schema", "json_schema": {"schema": nested(100_000)}}
    with pytest.raises(BadRequest, match="too deep"):
        response_constraint(request(response_format=wanted))
    with pytest.raises(BadRequest, match="too deep"):
        response_constraint(request(response_format={"type": "structural_tag", "x": nested(9999)}))
    with pytest.raises(BadRequest, match="too deep"):
        forced_call_constraint([tool(parameters=nested(100_000))], parallel=True)


TOOLS = [tool("f", x=1), tool("g"), tool("f", x=2)]


@pytest.mark.parametrize(
    ("tools", "choice", "shown", "forced"),
    [
        (None, None, None, False),
        ([], None, None, False),
        (None, "auto", None, False),
        ([], "auto", None, False),
        (None, "none", None, False),
        ([], "none", None, False),
        (TOOLS, None, TOOLS, False),
        (TOOLS, "auto", TOOLS, False),
        (TOOLS, "none", None, False),
        (TOOLS, "required", TOOLS, True),
        (TOOLS, {"type": "function", "function": {"name": "g"}}, [TOOLS[1]], True),
        (TOOLS, {"function": {"name": "g"}}, [TOOLS[1]], True),
        (TOOLS, {"type": "function", "function": {"name": "f"}}, [TOOLS[0]], True),
    ],
)
def test_tool_choice(tools: Any, choice: Any, shown: Any, forced: bool) -> None:
    chosen = choose_tools(request(tools=tools, tool_choice=choice))
    assert chosen.shown == shown
    assert chosen.forced is forced


def test_tools_are_shown_as_the_client_wrote_them() -> None:
    tools = [{"function": {"x": None, "name": "f", "description": "d"}, "cache": 1}]
    shown = choose_tools(request(tools=tools)).shown
    assert shown is not None
    assert shown[0] is tools[0]


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "f"}}, "f", {}]
)
@pytest.mark.parametrize("tools", [None, []])
def test_a_forced_call_needs_tools(tools: Any, choice: Any) -> None:
    with pytest.raises(BadRequest, match="needs tools") as raised:
        choose_tools(request(tools=tools, tool_choice=choice))
    assert raised.value.param == "tool_choice"


@pytest.mark.parametrize(
    "choice",
    [
        "f",
        "",
        "REQUIRED",
        {},
        {"type": "function"},
        {"type": "function", "function": {}},
        {"type": "function", "function": "f"},
        {"type": "function", "function": {"name": None}},
        {"type": "function", "function": {"name": "nope"}},
        {"type": "function", "name": "f"},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    ],
)
def test_a_choice_that_fits_no_tool_is_refused(choice: Any) -> None:
    with pytest.raises(BadRequest) as raised:
        choose_tools(request(tools=TOOLS, tool_choice=choice))
    assert raised.value.param == "tool_choice"


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


def forced(*tools: Json, parallel: bool = True) -> Any:
    kind, text = forced_call_constraint(tools, parallel=parallel)
    assert kind == "json_schema"
    return json.loads(text)


def item(name: str, parameters: Json) -> Json:
    return {
        "properties": {"name": {"type": "string", "enum": [name]}, "parameters": parameters},
        "required": ["name", "parameters"],
    }


EMPTY = {"type": "object", "properties": {}}


def test_a_forced_call_is_an_array_of_calls_with_each_tools_own_schema() -> None:
    assert forced(tool("f", SCHEMA), tool("g", {"type": "object"})) == {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "anyOf": [item("f", SCHEMA), item("g", {"type": "object"})],
        },
    }


def test_without_parallel_calls_there_is_one() -> None:
    assert forced(tool(), parallel=False)["maxItems"] == 1
    assert "maxItems" not in forced(tool(), parallel=True)


@pytest.mark.parametrize("function", [{"name": "f"}, tool()["function"], tool("f", {})["function"]])
def test_a_tool_without_parameters_takes_an_object(function: Json) -> None:
    schema = forced({"type": "function", "function": function})
    assert schema["items"]["anyOf"] == [item("f", EMPTY)]


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_definitions_move_to_the_root_that_references_start_from(key: str) -> None:
    reference = {"properties": {"p": {"$ref": f"#/{key}/P"}}}
    first = {**reference, key: {"P": {"type": "string"}}}
    second = {**reference, key: {"P": {"type": "string"}, "Q": {"type": "integer"}}}
    schema = forced(tool("f", first), tool("g", second))
    assert schema[key] == {"P": {"type": "string"}, "Q": {"type": "integer"}}
    assert schema["items"]["anyOf"] == [item("f", reference), item("g", reference)]
    # The client's objects, which the prompt shows, are as they were.
    assert key in first
    assert "Q" not in first[key]


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_tools_that_define_a_name_differently_are_refused(key: str) -> None:
    tools = [tool("f", {key: {"P": {"type": "string"}}}), tool("g", {key: {"P": {}}})]
    with pytest.raises(BadRequest, match="define P in") as raised:
        forced(*tools)
    assert raised.value.param == "tools"


def test_definitions_too_deep_to_compare_are_refused() -> None:
    tools = [tool(name, {"$defs": {"P": nested(9999)}}) for name in "fg"]
    with pytest.raises(BadRequest):
        forced(*tools)


@pytest.mark.parametrize(
    ("parameters", "param"),
    [
        ("{}", ""),
        ([], ""),
        (["type"], ""),
        (3, ""),
        (False, ""),
        ({"$defs": None}, ".$defs"),
        ({"$defs": [1]}, ".$defs"),
        ({"definitions": "x"}, ".definitions"),
    ],
)
def test_malformed_parameters_are_refused_by_their_place(parameters: object, param: str) -> None:
    with pytest.raises(BadRequest) as raised:
        forced(tool(), tool("g", parameters))
    assert raised.value.param == f"tools[1].function.parameters{param}"


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["$defs", "definitions", "a", "P"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_tool = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("function") | _json,
        "function": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["f", "g"]) | _json, "parameters": _json}
        )
        | _json,
    },
)


@settings(deadline=None, derandomize=True)
@given(
    tools=st.lists(_tool, max_size=3),
    choice=st.sampled_from(["auto", "required", {"function": {"name": "f"}}]) | _json,
    parallel=st.booleans(),
    response_format=_json,
)
def test_any_json_becomes_a_constraint_or_is_refused(
    tools: Any, choice: Any, parallel: bool, response_format: Any
) -> None:
    body = {"messages": [], "tools": tools, "tool_choice": choice}
    if isinstance(response_format, dict):
        body["response_format"] = response_format
    with suppress(BadRequest):
        asked = decode_chat_request(json.dumps(body).encode())
        response_constraint(asked)
        chosen = choose_tools(asked)
        if chosen.forced:
            assert chosen.shown
            json.loads(forced_call_constraint(chosen.shown, parallel=parallel)[1])
