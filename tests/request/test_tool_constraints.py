"""Constraints for calls of tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.families.registry import KNOWN
from sglrouter.request import tool_constraints
from sglrouter.request.tool_constraints import (
    Choice,
    Constraint,
    answer_or_call,
    check_tools,
    constraint_of,
    encode_tools,
)
from tests.families.tag_language import accepts

Json = dict[str, Any]


def tool(name: str = "f", parameters: object = None, **more: object) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def tool_constraint(
    parser: str, tools: Sequence[Json], choice: Choice, parallel: bool
) -> Constraint | None:
    """The constraint that all these tools ask for."""
    everything = tuple(range(len(tools)))
    return constraint_of(KNOWN.family(parser), encode_tools(tools), everything, choice, parallel)


def forced(*tools: Json, parser: str = "", parallel: bool = True) -> Any:
    """The JSON array that calls must be."""
    constraint = tool_constraint(parser, tools, "required", parallel)
    assert constraint is not None
    assert constraint[0] == "json_schema"
    return json.loads(constraint[1])


def tagged(parser: str, *tools: Json, choice: Choice = "auto", parallel: bool = True) -> Any:
    constraint = tool_constraint(parser, tools, choice, parallel)
    assert constraint is not None
    assert constraint[0] == "structural_tag"
    return json.loads(constraint[1])


def item(name: str, parameters: Json) -> Json:
    return {
        "properties": {"name": {"type": "string", "enum": [name]}, "parameters": parameters},
        "required": ["name", "parameters"],
    }


HERMES = KNOWN.family("hermes")
SCHEMA = {"type": "object", "z": 1, "properties": {"ü": {"type": "string"}}}
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


@pytest.mark.parametrize("parser", ["", "pythonic", "glm45", "step3", "minimax-m2"])
def test_families_without_tags_call_by_an_array(parser: str) -> None:
    assert forced(tool(), parser=parser)["minItems"] == 1
    assert tool_constraint(parser, [tool(strict=True)], "auto", True) is None


@pytest.mark.parametrize("parser", ["hunyuan", "spark25", "muse"])
def test_families_that_call_by_their_training_alone(parser: str) -> None:
    assert tool_constraint(parser, [tool()], "required", True) is None


def test_without_parallel_calls_there_is_one() -> None:
    assert forced(tool(), parallel=False)["maxItems"] == 1
    assert "maxItems" not in forced(tool(), parallel=True)
    call = '<tool_call>{"name":"f", "arguments":<json any>}</tool_call>'
    for parallel in (True, False):
        tag = tagged("hermes", tool(), choice="required", parallel=parallel)
        assert accepts(tag, call)
        assert accepts(tag, call + call) is parallel


@pytest.mark.parametrize("function", [{"name": "f"}, tool()["function"], tool("f", {})["function"]])
def test_a_tool_without_parameters_takes_an_object(function: Json) -> None:
    schema = forced({"type": "function", "function": function})
    assert schema["items"]["anyOf"] == [item("f", EMPTY)]


def test_a_tool_without_parameters_can_be_strict() -> None:
    tag = tagged("hermes", tool(strict=True))
    assert tag["structures"][0]["schema"] == EMPTY


def test_only_strict_tools_are_held_to_their_schema() -> None:
    strict = {"title": "strict", "type": "object"}
    tag = tagged("hermes", tool("f", strict, strict=True), tool("g", SCHEMA))
    assert accepts(tag, 'Well: <tool_call>{"name":"f", "arguments":<json strict>}</tool_call>')
    assert accepts(tag, '<tool_call>{"name":"g", "arguments":<json any>}</tool_call>')
    assert not accepts(tag, '<tool_call>{"name":"f", "arguments":<json any>}</tool_call>')
    assert not accepts(tag, "<tool_call>")
    assert accepts(tag, "Hello")


@pytest.mark.parametrize("strict", [None, False])
def test_tools_that_are_not_strict_leave_auto_alone(strict: object) -> None:
    for parser in ("", "qwen", "kimi_k2", "gpt-oss"):
        for parallel in (True, False):
            asked = tool_constraint(parser, [tool(strict=strict)], "auto", parallel)
            assert asked is None


@pytest.mark.parametrize("parser", ["inkling", "kimi_k3"])
def test_some_families_are_always_held_to_their_format(parser: str) -> None:
    assert "get" in json.dumps(tagged(parser, tool("get")))


def test_only_the_allowed_tools_count() -> None:
    encoded = encode_tools([tool("f", strict=True), tool("g"), tool("h", strict=True)])
    assert constraint_of(HERMES, encoded, (1,), "auto", True) is None
    constraint = constraint_of(HERMES, encoded, (1, 2), "auto", True)
    assert constraint is not None
    names = [structure["begin"] for structure in json.loads(constraint[1])["structures"]]
    assert names == [f'<tool_call>{{"name":"{name}", "arguments":' for name in "gh"]


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_references_keep_their_meaning_inside_the_array(key: str) -> None:
    first = {
        "properties": {
            "p": {"$ref": f"#/{key}/P"},
            "default": {"$ref": "#/properties/p"},
            "again": {"anyOf": [{}, {"$ref": "#"}]},
            "$ref": {"type": "string"},
        },
        "default": {"$ref": "#"},
        key: {"P": {"type": "string"}},
    }
    second = {"properties": {"p": {"$ref": f"#/{key}/P"}}, key: {"P": {"type": "integer"}}}
    before = json.dumps([first, second])
    schema = forced(tool("f", first), tool("g", second), tool("h", SCHEMA))
    assert schema["items"]["anyOf"] == [
        item("f", {"$ref": "#/$defs/tool0"}),
        item("g", {"$ref": "#/$defs/tool1"}),
        item("h", SCHEMA),
    ]
    assert schema["$defs"] == {
        "tool0": {
            "properties": {
                "p": {"$ref": f"#/$defs/tool0/{key}/P"},
                "default": {"$ref": "#/$defs/tool0/properties/p"},
                "again": {"anyOf": [{}, {"$ref": "#/$defs/tool0"}]},
                "$ref": {"type": "string"},
            },
            "default": {"$ref": "#"},
            key: {"P": {"type": "string"}},
        },
        "tool1": {
            "properties": {"p": {"$ref": f"#/$defs/tool1/{key}/P"}},
            key: {"P": {"type": "integer"}},
        },
    }
    assert json.dumps([first, second]) == before, "the prompt shows the client's own"


def test_types_that_do_not_exist_are_taken_for_what_they_mean() -> None:
    odd = {"type": "dict", "properties": {"a": {"type": "int32"}}}
    real = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert forced(tool("f", odd))["items"]["anyOf"] == [item("f", real)]
    assert tagged("hermes", tool("f", odd, strict=True))["structures"][0]["schema"] == real
    assert odd["type"] == "dict"
    check_tools(encode_tools([tool("f", odd)]))


@pytest.mark.parametrize(
    "parameters",
    ["{}", [], ["type"], 3, False, {"$defs": None}, {"$defs": [1]}, {"definitions": "x"},
     {"type": "nope"}],
)  # fmt: skip
def test_what_is_no_schema_is_refused_by_its_place(parameters: object) -> None:
    tools = [tool(), tool("g", parameters)]
    strict = [tool(), tool("g", parameters, strict=True)]
    checks: tuple[Callable[[], object], ...] = (
        lambda: check_tools(encode_tools(tools)),
        lambda: tool_constraint("", tools, "required", True),
        lambda: tool_constraint("hermes", strict, "auto", True),
    )
    for check in checks:
        with pytest.raises(BadRequest) as raised:
            check()
        assert raised.value.param == "tools[1].function.parameters"


def test_what_no_engine_can_enforce_is_refused_only_where_it_is_to_be_enforced() -> None:
    loop = {"properties": {"a": {"$ref": "#/properties/a"}}}
    remote = {"properties": {"a": {"$ref": "https://example.com/a"}}}
    for parameters in (loop, remote):
        tools = [tool(), tool("g", parameters)]
        check_tools(encode_tools(tools))
        assert tool_constraint("hermes", tools, "auto", True) is None
        assert tagged("hermes", *tools, choice="required")
        tools[1]["function"]["strict"] = True
        for parser, choice in (("", "required"), ("hermes", "required"), ("hermes", "auto")):
            with pytest.raises(BadRequest, match="cannot be used as a constraint") as raised:
                tool_constraint(parser, tools, choice, True)  # type: ignore[arg-type]
            assert raised.value.param == "tools[1].function.parameters"


def test_an_answer_or_a_call() -> None:
    encoded = encode_tools([tool("f"), tool("g")])
    found = answer_or_call(KNOWN.family("qwen"), encoded, (1,), '{"title":"answer"}', True)
    assert found is not None
    assert found[0] == "structural_tag"
    tag = json.loads(found[1])
    assert accepts(tag, "<json answer>")
    assert accepts(tag, '<tool_call>\n{"name":"g", "arguments":<json any>}\n</tool_call>')
    assert not accepts(tag, '<tool_call>\n{"name":"f", "arguments":<json any>}\n</tool_call>')
    encoded = encode_tools([tool("f", {"$ref": "https://example.com/a"}, strict=True)])
    for parser in ("", "pythonic", "gpt-oss"):
        assert answer_or_call(KNOWN.family(parser), encoded, (0,), "{}", True) is None


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_tools_too_deep_to_write_are_refused() -> None:
    with pytest.raises(BadRequest, match="too deep"):
        encode_tools([tool(parameters=nested(100_000))])


def test_the_same_tools_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(tool_constraints, "check_is_schema", lambda *args: seen.append(args))
    encoded = encode_tools([tool("only-here", {"type": "object"}, strict=True)])
    for _ in range(3):
        check_tools(encoded)
        constraint_of(HERMES, encoded, (0,), "auto", True)
    assert len(seen) == 2, "once by itself and once for the constraint"


def test_large_tools_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(tool_constraints, "check_is_schema", lambda *args: seen.append(args))
    encoded = encode_tools([tool("large", {"title": "x" * tool_constraints._LONGEST_KEPT})])
    for _ in range(3):
        check_tools(encoded)
        constraint_of(None, encoded, (0,), "required", True)
    assert len(seen) == 6
