"""Which grammar an answer must follow: response_format, regex, ebnf, tool_choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sglrouter.errors import BadRequest
from sglrouter.schema.chat import ChatRequest

Constraint = tuple[str, str]

# Where JSON Schema keeps what references name, now and before its 2019 draft.
_DEFINITIONS = ("$defs", "definitions")


def response_constraint(request: ChatRequest) -> Constraint | None:
    """The constraint on the answer's text, as (kind, grammar).

    Raises:
        BadRequest: There are several, or one is malformed.
    """
    found: list[Constraint] = []
    if request.response_format is not None:
        constraint = _response_format(request.response_format)
        if constraint is not None:
            found.append(constraint)
    if request.regex is not None:
        found.append(("regex", request.regex))
    if request.ebnf is not None:
        found.append(("ebnf_grammar", request.ebnf))
    if len(found) > 1:
        raise BadRequest(
            "Only one of response_format, regex and ebnf can be used", param="response_format"
        )
    return found[0] if found else None


def _response_format(wanted: dict[str, Any]) -> Constraint | None:
    kind = wanted.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return "json_schema", '{"type": "object"}'
    if kind == "json_schema":
        holder = wanted.get("json_schema")
        schema = holder.get("schema") if isinstance(holder, dict) else None
        if not isinstance(schema, dict):
            where = "response_format.json_schema.schema"
            raise BadRequest(f"{where} must be an object", param=where)
        return "json_schema", _encode(schema, "response_format")
    if kind == "structural_tag":
        return "structural_tag", _encode(wanted, "response_format")
    raise BadRequest(
        "response_format.type must be text, json_object, json_schema or structural_tag",
        param="response_format.type",
    )


class Tools(msgspec.Struct, frozen=True):
    """The tools of a request.

    Attributes:
        shown: What the prompt shows, as the client wrote it; None for none.
        forced: Whether the answer must be a call.
    """

    shown: list[dict[str, Any]] | None = None
    forced: bool = False


def choose_tools(request: ChatRequest) -> Tools:
    """Applies tool_choice to the tools.

    Raises:
        BadRequest: A tool is malformed, or the choice does not fit the tools.
    """
    tools = request.tools or []
    for i, tool in enumerate(tools):
        function = tool.get("function")
        if tool.get("type") not in (None, "function") or not isinstance(function, dict):
            raise BadRequest(f"tools[{i}] must be a function", param=f"tools[{i}]")
        if not isinstance(function.get("name"), str) or not function["name"]:
            where = f"tools[{i}].function.name"
            raise BadRequest(f"{where} must be a non-empty string", param=where)
    choice = request.tool_choice
    if choice == "none":
        return Tools()
    if choice in (None, "auto"):
        return Tools(shown=tools or None)
    if not tools:
        raise BadRequest("tool_choice needs tools", param="tool_choice")
    if choice == "required":
        return Tools(shown=tools, forced=True)
    return Tools(shown=[_named_tool(tools, choice)], forced=True)


def _named_tool(tools: Sequence[dict[str, Any]], choice: object) -> dict[str, Any]:
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise BadRequest(
            "tool_choice must be none, auto, required or name a function", param="tool_choice"
        )
    for tool in tools:
        if tool["function"]["name"] == name:
            return tool
    raise BadRequest(f"tool_choice names {name!r}, which is not in tools", param="tool_choice")


def forced_call_constraint(tools: Sequence[dict[str, Any]], *, parallel: bool) -> Constraint:
    """A schema for a JSON array of calls to these tools, one at least.

    The form is SGLang's: [{"name": ..., "parameters": {...}}, ...].
    """
    definitions: dict[str, dict[str, Any]] = {}
    items = []
    for i, tool in enumerate(tools):
        function = tool["function"]
        parameters = _parameters(function, f"tools[{i}].function.parameters")
        # References are written against the root of the schema.
        for key in _DEFINITIONS:
            if key in parameters:
                _merge(definitions.setdefault(key, {}), parameters.pop(key), key)
        items.append(
            {
                "properties": {
                    "name": {"type": "string", "enum": [function["name"]]},
                    "parameters": parameters,
                },
                "required": ["name", "parameters"],
            }
        )
    schema: dict[str, Any] = {
        "type": "array",
        "minItems": 1,
        "items": {"type": "object", "anyOf": items},
        **definitions,
    }
    if not parallel:
        schema["maxItems"] = 1
    return "json_schema", _encode(schema, "tools")


def _parameters(function: dict[str, Any], where: str) -> dict[str, Any]:
    """A copy of a tool's schema, with definitions that are objects."""
    parameters = function.get("parameters")
    if parameters is None or parameters == {}:
        return {"type": "object", "properties": {}}
    if not isinstance(parameters, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    for key in _DEFINITIONS:
        if not isinstance(parameters.get(key, {}), dict):
            raise BadRequest(f"{where}.{key} must be an object", param=f"{where}.{key}")
    return dict(parameters)


def _merge(definitions: dict[str, Any], more: dict[str, Any], key: str) -> None:
    for name, definition in more.items():
        try:
            same = definitions.setdefault(name, definition) == definition
        except RecursionError:
            same = False
        if not same:
            raise BadRequest(f"Two tools define {name} in {key} differently", param="tools")


def _encode(value: object, where: str) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError as exc:
        raise BadRequest(f"{where} is nested too deeply", param=where) from exc
