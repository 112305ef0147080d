"""Which grammar an answer must follow."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.engines.wire.scheduler import CONSTRAINTS, Sampling, generate_request
from sglrouter.errors import BadRequest, EngineError, from_grpc_status
from sglrouter.families.registry import KNOWN
from sglrouter.request import grammar as grammars
from sglrouter.request.grammar import (
    MAX_EBNF,
    Grammar,
    blamed,
    choose_grammar,
    response_constraint,
)
from sglrouter.request.json_schemas import MAX_PATTERN
from sglrouter.request.tool_choice import choose_tools
from sglrouter.schema.chat import ChatRequest, decode_chat_request
from tests.families.tag_language import accepts

Json = dict[str, Any]


def request(**fields: Any) -> ChatRequest:
    return ChatRequest(messages=[], **fields)


def grammar(parser: str = "", **fields: Any) -> Grammar:
    asked = request(**fields)
    return choose_grammar(asked, choose_tools(asked), KNOWN.family(parser))


def tool(name: object = "f", parameters: object = None, **more: object) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def schema_format(schema: object, **more: object) -> Json:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **more}}


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


SCHEMA = {"type": "object", "z": 1, "properties": {"ü": {"type": "string"}}}
TAGGED = [name for name, family in KNOWN.writers.items() if family.tag is not None]
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        (
            {"response_format": {"type": "json_object"}},
            ("response_format", ("json_schema", '{"type": "object"}')),
        ),
        (
            {"response_format": schema_format(SCHEMA, strict=True)},
            (
                "response_format",
                ("json_schema", '{"type":"object","z":1,"properties":{"ü":{"type":"string"}}}'),
            ),
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
            ("response_format", ("json_schema", "{}")),
        ),
        (
            {"response_format": schema_format({"type": "dict", "x": {"type": "int"}})},
            ("response_format", ("json_schema", '{"type":"object","x":{"type":"int"}}')),
        ),
        (
            {"response_format": TAG},
            ("response_format", ("structural_tag", json.dumps(TAG, separators=(",", ":")))),
        ),
        ({"regex": "a+"}, ("regex", ("regex", "a+"))),
        ({"ebnf": "root ::= x"}, ("ebnf", ("ebnf_grammar", "root ::= x"))),
        (
            {"response_format": {"type": "text"}, "regex": "a+"},
            ("regex", ("regex", "a+")),
        ),
    ],
)
def test_each_kind_of_constraint(fields: Json, wanted: Any) -> None:
    assert response_constraint(request(**fields)) == wanted
    found = grammar(**fields)
    if wanted is None:
        assert found == Grammar()
        return
    assert (found.field, found.constraint) == wanted
    assert wanted[1][0] in CONSTRAINTS
    generate_request(
        request_id="i", text="", ids=[1], sampling=Sampling(constraint=wanted[1]), stream=True
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
def test_two_constraints_are_a_conflict(fields: Json) -> None:
    with pytest.raises(BadRequest, match="one grammar") as raised:
        response_constraint(request(**fields))
    assert raised.value.param == next(iter(fields))
    assert all(field in raised.value.message for field in fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"regex": "a"},
        {"ebnf": "b"},
        {"response_format": {"type": "json_object"}},
        {"response_format": schema_format({})},
        {"response_format": TAG},
    ],
)
@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "f"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"name": "f"}]},
    ],
)
@pytest.mark.parametrize("parser", ["", "qwen", "hunyuan"])
def test_a_forced_call_and_another_constraint_are_a_conflict(
    fields: Json, choice: object, parser: str
) -> None:
    with pytest.raises(BadRequest, match="cannot be combined") as raised:
        grammar(parser, tools=[tool()], tool_choice=choice, **fields)
    assert raised.value.param == "tool_choice"
    assert next(iter(fields)) in raised.value.message
    assert grammar(parser, tools=[tool()], tool_choice="none", **fields).constraint
    assert grammar(parser, tools=[tool()], **fields).constraint


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({}, "type"),
        ({"type": None}, "type"),
        ({"type": "xml"}, "type"),
        ({"type": ["text"]}, "type"),
        ({"type": "json_schema"}, "json_schema"),
        ({"type": "json_schema", "json_schema": None}, "json_schema"),
        ({"type": "json_schema", "json_schema": "x"}, "json_schema"),
        ({"type": "json_schema", "schema": {}}, "json_schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "json_schema.schema"),
        (schema_format(None), "json_schema.schema"),
        (schema_format("{}"), "json_schema.schema"),
        (schema_format([1]), "json_schema.schema"),
        (schema_format(True), "json_schema.schema"),
        (schema_format({}, strict="yes"), "json_schema.strict"),
        (schema_format({}, strict=0), "json_schema.strict"),
        (schema_format({"type": "nope"}), "json_schema.schema"),
        (schema_format({"type": "object", "$defs": None}), "json_schema.schema"),
        (schema_format({"$ref": "#"}), "json_schema.schema"),
        (schema_format({"$ref": "#/$defs/A", "$defs": {}}), "json_schema.schema"),
        (schema_format({"$ref": "https://example.com/a"}), "json_schema.schema"),
        (schema_format({"pattern": "a" * (MAX_PATTERN + 1)}), "json_schema.schema"),
    ],
)
def test_a_malformed_response_format_names_its_field(wanted: Json, param: str) -> None:
    with pytest.raises(BadRequest) as raised:
        response_constraint(request(response_format=wanted))
    assert raised.value.param == f"response_format.{param}"
    assert raised.value.param in raised.value.message


@pytest.mark.parametrize("strict", [None, True, False])
def test_strict_and_names_are_accepted(strict: object) -> None:
    fields = {"name": None, "description": "d", "strict": strict, "schema": SCHEMA, "x": 1}
    assert response_constraint(
        request(response_format={"type": "json_schema", "json_schema": fields, "y": 2})
    )


def test_a_recursive_schema_is_served() -> None:
    tree = {"properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}
    assert response_constraint(
        request(response_format=schema_format({"$ref": "#/$defs/T", "$defs": {"T": tree}}))
    )


@pytest.mark.parametrize(("field", "most"), [("regex", MAX_PATTERN), ("ebnf", MAX_EBNF)])
def test_grammars_are_bounded(field: str, most: int) -> None:
    assert response_constraint(request(**{field: "a" * most}))
    for text in ("a" * (most + 1), "a\0b"):
        with pytest.raises(BadRequest) as raised:
            response_constraint(request(**{field: text}))
        assert raised.value.param == field


def test_a_schema_too_deep_to_write_is_refused() -> None:
    """What can just be read from a shallow stack may be too deep for a later one."""
    with pytest.raises(BadRequest, match="too deep"):
        response_constraint(request(response_format=schema_format(nested(100_000))))
    deep_tag = {"type": "structural_tag", "format": {"type": "any_text"}, "x": nested(9999)}
    with pytest.raises(BadRequest, match="too deep"):
        response_constraint(request(response_format=deep_tag))


def test_a_schema_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(grammars, "check_is_schema", lambda *args: seen.append(args))
    for schema in ({"title": "only here"}, {"title": "x" * grammars._LONGEST_KEPT}):
        for _ in range(3):
            response_constraint(request(response_format=schema_format(schema)))
    assert len(seen) == 1 + 3


def test_a_forced_call_is_an_array_where_the_family_has_no_format_to_force() -> None:
    found = grammar(tools=[tool("f"), tool("g")], tool_choice="required")
    assert found.constraint is not None
    assert found.constraint[0] == "json_schema"
    assert found.field == "tools"
    assert len(json.loads(found.constraint[1])["items"]["anyOf"]) == 2
    named = grammar(tools=[tool("f"), tool("g")], tool_choice={"type": "function", "name": "g"})
    assert named.constraint is not None
    assert '"f"' not in named.constraint[1]


@pytest.mark.parametrize("parser", TAGGED)
def test_a_forced_call_is_in_the_familys_format(parser: str) -> None:
    found = grammar(parser, tools=[tool("f"), tool("g")], tool_choice="required")
    assert found.constraint is not None
    assert found.constraint[0] == "structural_tag"


def test_a_family_that_calls_by_training_needs_no_grammar() -> None:
    found = grammar("hunyuan", tools=[tool()], tool_choice="required")
    assert found == Grammar()


def test_parallel_tool_calls() -> None:
    call = '<tool_call>{"name":"f", "arguments":<json any>}</tool_call>'
    for parallel in (None, True, False):
        fields: Json = {
            "tools": [tool()],
            "parallel_tool_calls": parallel,
            "tool_choice": "required",
        }
        array = grammar(**fields).constraint
        assert array is not None
        assert json.loads(array[1]).get("maxItems") == (1 if parallel is False else None)
        tag = grammar("hermes", **fields).constraint
        assert tag is not None
        assert accepts(json.loads(tag[1]), call + call) is (parallel is not False)


def test_auto_is_constrained_by_strict_tools_only() -> None:
    assert grammar("hermes", tools=[tool("f")]) == Grammar()
    strict = [tool("f", {"title": "strict"}, strict=True), tool("g")]
    assert grammar(tools=strict).constraint is None
    assert grammar("hermes", tools=strict, tool_choice="none").constraint is None
    found = grammar("hermes", tools=strict)
    assert found.constraint is not None
    assert found.field == "tools"
    tag = json.loads(found.constraint[1])
    assert accepts(tag, 'Ah. <tool_call>{"name":"f", "arguments":<json strict>}</tool_call>')
    assert not accepts(tag, '<tool_call>{"name":"f", "arguments":<json any>}</tool_call>')
    only_g = {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "g"}]}
    assert grammar("hermes", tools=strict, tool_choice=only_g).constraint is None


def test_a_response_format_leaves_tools_callable() -> None:
    fields: Json = {
        "tools": [tool("f")],
        "response_format": schema_format({"title": "answer", "type": "object"}),
    }
    found = grammar("hermes", **fields)
    assert found.constraint is not None
    assert found.field == "response_format"
    tag = json.loads(found.constraint[1])
    assert accepts(tag, "<json answer>")
    assert accepts(tag, '<tool_call>{"name":"f", "arguments":<json any>}</tool_call>')
    assert not accepts(tag, "Hello")
    # Where the format of calls cannot be described, the answer is what was asked for.
    for parser in ("", "pythonic", "gpt-oss"):
        alone = grammar(parser, **fields).constraint
        assert alone == ("json_schema", '{"title":"answer","type":"object"}')
    text = grammar("hermes", tools=[tool("f")], response_format={"type": "text"})
    assert text == Grammar()
    assert grammar("hermes", tools=[tool("f")], regex="a").constraint == ("regex", "a")
    no_tools = grammar("hermes", **{**fields, "tool_choice": "none"}).constraint
    assert no_tools is not None
    assert no_tools[0] == "json_schema"


def test_malformed_tools_are_refused_by_their_place() -> None:
    loop = {"properties": {"a": {"$ref": "#/properties/a"}}}
    one = {"type": "function", "name": "g"}
    with pytest.raises(BadRequest, match="refers to itself") as raised:
        grammar(tools=[tool("f"), tool("g", loop)], tool_choice=one)
    assert raised.value.param == "tools[1].function.parameters"
    assert grammar(tools=[tool("f", loop), tool("g")], tool_choice=one).constraint


# What SGLang 0.5.23 says of grammars that do not compile, or stop making sense.
REFUSALS = [
    (
        "INVALID_ARGUMENT",
        "Failed to compile regex grammar: [08:42:38] regex_converter.cc:83: Regex parsing error",
    ),
    ("INVALID_ARGUMENT", "Failed to compile json grammar: Expecting property name"),
    ("INVALID_ARGUMENT", "Grammar preprocessing timed out: req.grammar_key=('json', '{}')"),
    (
        "FAILED_PRECONDITION",
        "the engine could not continue the request under its constraint: the scheduler aborted",
    ),
]


@pytest.mark.parametrize(("status", "detail"), REFUSALS)
def test_an_engines_refusal_of_a_grammar_names_the_field(status: str, detail: str) -> None:
    for fields, param in (
        ({"regex": "((("}, "regex"),
        ({"response_format": schema_format({"pattern": "((("})}, "response_format"),
        ({"tools": [tool()], "tool_choice": "required"}, "tools"),
    ):
        error = blamed(from_grpc_status(status, detail), grammar(**fields))
        assert isinstance(error, BadRequest)
        assert error.status == 400
        assert error.code == "invalid_grammar"
        assert error.param == param
        assert detail in error.message


def test_other_failures_name_no_field() -> None:
    asked = grammar(regex="a")
    for error in (
        from_grpc_status("INVALID_ARGUMENT", "Input length exceeds the maximum"),
        from_grpc_status("UNAVAILABLE", "Failed to compile"),
        EngineError("x"),
    ):
        assert blamed(error, asked) is error
        assert error.param is None
        assert error.code != "invalid_grammar"


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["$defs", "definitions", "a", "P", "type", "properties", "$ref",
                             "anyOf", "format", "structures", "triggers", "begin", "end"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)  # fmt: skip
_tool = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("function") | _json,
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["f", "g"]) | _json,
                "parameters": _json,
                "strict": st.booleans() | _json,
            },
        )
        | _json,
    },
)
_choices = st.sampled_from(
    ["auto", "required", {"function": {"name": "f"}},
     {"type": "allowed_tools", "mode": "required", "tools": [{"name": "f"}]}]
)  # fmt: skip
_formats = st.builds(
    lambda kind, inner: {"type": kind, **({"json_schema": {"schema": inner}}
                                          if kind == "json_schema" else {"format": inner})},
    st.sampled_from(["json_schema", "structural_tag"]),
    _json,
)  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    tools=st.lists(_tool, max_size=3),
    choice=_choices | _json,
    parallel=st.booleans(),
    response_format=_formats | _json,
    parser=st.sampled_from(["", *KNOWN.writers]),
)
def test_any_json_becomes_a_constraint_or_is_refused(
    tools: Any, choice: Any, parallel: bool, response_format: Any, parser: str
) -> None:
    body = {"messages": [], "tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel}
    if isinstance(response_format, dict):
        body["response_format"] = response_format
    with suppress(BadRequest):
        asked = decode_chat_request(json.dumps(body).encode())
        found = choose_grammar(asked, choose_tools(asked), KNOWN.family(parser))
        if found.constraint is not None and found.constraint[0] != "regex":
            json.loads(found.constraint[1])
