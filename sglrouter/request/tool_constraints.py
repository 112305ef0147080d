"""What an answer must be so that it is a call, or so that its calls fit their schemas.

Three ways, as SGLang has them:

- the model's own format, by the structural tag of its family, if that has one; the
  family's parser reads the answer;
- the model's own format, by nothing but its training, for families that write it only
  undisturbed;
- a JSON array of calls, for all others.

Schemas are enforced where the client asks for it with `strict`, and in a JSON array,
which no model is trained for. Agents send the same tools with every request, so what is
checked and built once is kept, by the bytes that came in. New ones are checked one after
another, with a rest wherever that has taken long.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from sglrouter.errors import BadRequest
from sglrouter.families.family import Family
from sglrouter.families.formats.structural_tags import ANY_ARGUMENTS, Call, CallTag
from sglrouter.request.json_schemas import (
    LONG,
    MAX_ENTRIES,
    check_constrains,
    check_is_schema,
    check_size,
)
from sglrouter.request.schema_types import with_real_types
from sglrouter.turns import Pause, no_pause, taking_turns

Json = dict[str, Any]
Constraint = tuple[str, str]
Choice = Literal["auto", "required"]

# Keywords with values of the client's, and those with schemas by name.
_VALUES = frozenset(("enum", "const", "default", "examples", "example"))
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions",
                   "dependentSchemas", "dependencies"))  # fmt: skip

_NO_ARGUMENTS: Json = {"type": "object", "properties": {}}

# Tools above this size are checked anew each time, so that what is kept is bounded.
_LONGEST_KEPT = 128 * 1024
_KEPT = 32


def encode_tools(tools: Sequence[Json]) -> bytes:
    """The tools as bytes that stand for them in what is kept.

    Raises:
        BadRequest: They are nested too deeply.
    """
    try:
        return msgspec.json.encode(tools)
    except RecursionError as exc:
        raise BadRequest("tools are nested too deeply", param="tools") from exc
    except UnicodeEncodeError as exc:
        raise BadRequest(f"tools hold text that is not Unicode: {exc}", param="tools") from exc


def check_tools(encoded: bytes, pause: Pause = no_pause) -> None:
    """Checks that every tool's parameters are a JSON Schema, whatever they are for.

    Args:
        encoded: From encode_tools().
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: One is not; `param` names it.
    """
    (_checked if len(encoded) <= _LONGEST_KEPT else _checked.__wrapped__)(encoded, pause)


def constraint_of(
    family: Family | None,
    encoded: bytes,
    allowed: tuple[int, ...],
    choice: Choice,
    parallel: bool,
    pause: Pause = no_pause,
) -> Constraint | None:
    """The constraint that a choice of tools asks for.

    Args:
        family: Whose calls the answer may hold; None if nobody reads them.
        encoded: From encode_tools().
        allowed: The places of the tools that may be called, one at least.
        choice: "auto" or "required"; a named function is "required" with one tool.
        parallel: Whether there may be more than one call.
        pause: Called now and then, to let others go on.

    Returns:
        The constraint as (kind, grammar), or None. Under a "json_schema" calls come as a JSON
        array, else in the family's own format.

    Raises:
        BadRequest: A tool's parameters are no schema, or none that an engine can enforce.
    """
    build = _built if len(encoded) <= _LONGEST_KEPT else _built.__wrapped__
    return build(family, encoded, allowed, choice, parallel, pause)


def answer_or_call(
    family: Family | None,
    encoded: bytes,
    allowed: tuple[int, ...],
    answer: str,
    parallel: bool,
    pause: Pause = no_pause,
) -> Constraint | None:
    """A constraint on an answer that is either JSON or calls of tools.

    A schema for the answer alone would keep the model from ever calling.

    Args:
        family: As for constraint_of().
        encoded: From encode_tools().
        allowed: The places of the tools that may be called.
        answer: The JSON Schema of an answer that is no call.
        parallel: Whether there may be more than one call.
        pause: Called now and then, to let others go on.

    Returns:
        The constraint, or None if calls in this family's format cannot be described.
    """
    long = len(encoded) + len(answer) > _LONGEST_KEPT
    return (_either.__wrapped__ if long else _either)(
        family, encoded, allowed, answer, parallel, pause
    )


@lru_cache(maxsize=_KEPT)
def _either(
    family: Family | None,
    encoded: bytes,
    allowed: tuple[int, ...],
    answer: str,
    parallel: bool,
    pause: Pause,
) -> Constraint | None:
    if family is None or not isinstance(family.tag, CallTag):
        return None  # as of gpt-oss, whose answers are messages and no bare JSON
    tag = family.tag.of_answer_or_calls(
        _calls(encoded, allowed, pause),
        answer=msgspec.json.decode(answer),
        stop_after_first=not parallel,
    )
    return "structural_tag", msgspec.json.encode(tag).decode()


@lru_cache(maxsize=_KEPT)
def _checked(encoded: bytes, pause: Pause) -> None:
    for i, tool in enumerate(taking_turns(msgspec.json.decode(encoded), pause)):
        _parameters(tool, i, pause)


@lru_cache(maxsize=_KEPT)
def _built(
    family: Family | None,
    encoded: bytes,
    allowed: tuple[int, ...],
    choice: Choice,
    parallel: bool,
    pause: Pause,
) -> Constraint | None:
    sent = msgspec.json.decode(encoded)
    tools = [(i, sent[i]) for i in allowed]
    tag = None if family is None else family.tag
    forced = choice == "required"
    held = forced or (tag is not None and tag.always)
    if not held and not any(_strict(tool) for _, tool in tools):
        return None
    if tag is not None:
        calls = _calls(encoded, allowed, pause)
        form = tag.of_calls(calls, at_least_one=forced, stop_after_first=not parallel)
        return "structural_tag", msgspec.json.encode(form).decode()
    if not forced or (family is not None and family.by_training):
        return None
    return "json_schema", msgspec.json.encode(_array(tools, parallel, pause)).decode()


def _calls(encoded: bytes, allowed: tuple[int, ...], pause: Pause) -> list[Call]:
    _check_count(allowed)
    tools = msgspec.json.decode(encoded)
    return [
        Call(
            tools[i]["function"]["name"],
            _schema(tools[i], i, pause) if _strict(tools[i]) else ANY_ARGUMENTS,
        )
        for i in taking_turns(allowed, pause)
    ]


def _check_count(tools: Sequence[object]) -> None:
    """Refuses a grammar of more alternatives than a schema may have."""
    if len(tools) > MAX_ENTRIES:
        raise BadRequest(
            f"At most {MAX_ENTRIES} tools can be in a grammar, which strict tools and a forced "
            f"tool_choice ask for, not {len(tools)}",
            code="invalid_value",
            param="tools",
        )


def _array(tools: Sequence[tuple[int, Json]], parallel: bool, pause: Pause) -> Json:
    """[{"name": ..., "parameters": {...}}, ...], one at least."""
    _check_count(tools)
    definitions: Json = {}
    items = []
    for i, tool in taking_turns(tools, pause):
        parameters = _schema(tool, i, pause)
        # References start from the root of the schema, which is no longer the tool's.
        moved = f"tool{i}"
        placed, refers = _moved(parameters, f"#/$defs/{moved}")
        if refers:
            definitions[moved] = placed
            placed = {"$ref": f"#/$defs/{moved}"}
        items.append(
            {
                "properties": {
                    "name": {"type": "string", "enum": [tool["function"]["name"]]},
                    "parameters": placed,
                },
                "required": ["name", "parameters"],
            }
        )
    schema: Json = {"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": items}}
    if definitions:
        schema["$defs"] = definitions
    if not parallel:
        schema["maxItems"] = 1
    return schema


def _moved(value: Any, root: str, *, names: bool = False) -> tuple[Any, bool]:
    """A copy with the schema's own references under another root; whether there are any.

    Args:
        value: A schema, a list of schemas, or (names) schemas by name.
        root: What "#" becomes.
        names: Whether the keys are names and no keywords.
    """
    if isinstance(value, list):
        items = [_moved(item, root) for item in value]
        return [item for item, _ in items], any(refers for _, refers in items)
    if not isinstance(value, dict):
        return value, False
    copy: Json = {}
    refers = False
    for key, child in value.items():
        if key == "$ref" and not names:
            copy[key] = root + child[1:]
            refers = True
        elif key in _VALUES and not names:
            copy[key] = child
        else:
            copy[key], inner = _moved(child, root, names=key in _MAPS and not names)
            refers = refers or inner
    return copy, refers


def _strict(tool: Json) -> bool:
    return tool["function"].get("strict") is True


def _schema(tool: Json, i: int, pause: Pause) -> Json:
    """A tool's parameters as an engine can enforce them."""
    parameters = _parameters(tool, i, pause)
    check_constrains(parameters, _place(i), pause)
    return parameters


def _parameters(tool: Json, i: int, pause: Pause) -> Json:
    """A tool's parameters, with the types that JSON Schema has."""
    parameters = tool["function"].get("parameters")
    if parameters is None or parameters == {}:
        return _NO_ARGUMENTS
    if not isinstance(parameters, dict):
        raise BadRequest(f"{_place(i)} must be an object", param=_place(i))
    encoded = msgspec.json.encode(parameters)
    check_size(encoded, _place(i))
    try:
        real = with_real_types(parameters)
    except RecursionError as exc:
        raise BadRequest(f"{_place(i)} is nested too deeply", param=_place(i)) from exc
    if len(encoded) > LONG:
        pause()
    check_is_schema(real, _place(i))
    if len(encoded) > LONG:
        pause()
    return real


def _place(i: int) -> str:
    return f"tools[{i}].function.parameters"
