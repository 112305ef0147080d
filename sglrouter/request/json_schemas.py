"""JSON Schemas that clients send: what is wrong with one, before an engine sees it.

Two questions are asked. Whether a schema is one at all is for the meta-schema to say,
that of the draft that "$schema" names, else of 2020-12; the meta-schemas are compiled
here, so that no "$schema" makes the validator fetch anything. Whether an engine can
work with it is asked only of schemas that become a constraint:

- References are followed within the schema and nowhere else. Grammar compilers take
  what they cannot resolve for "anything".
- A schema may contain itself, in a property or an item. One that *is* itself, by way of
  references, anyOf and the like, accepts nothing: engines compile it into a grammar
  without a first token, and fail at that.
- Engines take time that grows with the square of what an object, an enumeration or an
  anyOf lists, and faster than that with depth.

All walks are loops, since what nests deeply comes from outside. Before any, the values
in a schema are counted: the meta-schema is checked in one go, which nothing interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from sglrouter._fast.json_shape import json_shape
from sglrouter.errors import Invalid
from sglrouter.turns import Pause, Turns, no_pause

MAX_DEPTH = 64
MAX_ENTRIES = 1000
MAX_PATTERN = 4096
# Commas and brackets, as sglrouter._fast.json_shape counts them.
MAX_VALUES = 10_000
# Bytes of a schema that takes a millisecond or more to check.
LONG = 16 * 1024

# Schemas that apply to the same value as the one they stand in.
_SAME_VALUE = ("not", "if", "then", "else")
_SAME_VALUE_LISTS = ("anyOf", "oneOf", "allOf")
# Schemas of a part of the value.
_PART = (
    "items",
    "additionalItems",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "contentSchema",
)
_PART_LISTS = ("prefixItems", "items")
_PART_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
# Schemas that nothing but references apply.
_DEFINITIONS = ("$defs", "definitions")
# What engines pay for by the square of its length.
_LISTS_THAT_COST = ("properties", "patternProperties", "enum", *_SAME_VALUE_LISTS)

_Validators = dict[str, Callable[[Any], None]]


def _validators() -> _Validators:
    drafts = {
        "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
        "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
        "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
        "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
        "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
    }
    compiled = {
        name: validator({"$ref": name}, validate_formats=False).validate
        for name, validator in drafts.items()
    }
    # Generators of schemas are not exact about the scheme.
    return compiled | {
        name.replace("http:", "https:"): validate for name, validate in compiled.items()
    }


_META = _validators()
_DEFAULT_META = _META["https://json-schema.org/draft/2020-12/schema"]


def check_is_schema(schema: dict[str, Any], where: str) -> None:
    """Checks a schema against its draft's meta-schema.

    Args:
        schema: The schema, of any draft; no deeper than the body that it came in may be.
        where: The field that it is in, for messages.

    Raises:
        BadRequest: It is not a valid schema.
    """
    draft = schema.get("$schema")
    name = draft.rstrip("#") if isinstance(draft, str) else ""
    try:
        _META.get(name, _DEFAULT_META)(schema)
    except jsonschema_rs.ValidationError as exc:
        place = pointer(exc.instance_path)
        raise Invalid(
            where,
            f"is not a valid JSON Schema: at {place}: {_short(exc.message)}",
            code="invalid_json_schema",
        ) from exc
    except ValueError as exc:  # half a surrogate pair, a number that Rust has no type for
        raise Invalid(
            where, f"is not a valid JSON Schema: {exc}", code="invalid_json_schema"
        ) from exc


def check_size(encoded: bytes, where: str) -> None:
    """Refuses a schema that would take long to check, before anything is done with it.

    Args:
        encoded: The schema as JSON.
        where: The field that it is in, for messages.

    Raises:
        BadRequest: It holds too much.
    """
    # Fewer bytes cannot hold more values.
    if len(encoded) > MAX_VALUES and json_shape(encoded)[0] > MAX_VALUES:
        raise Invalid(
            where,
            f"holds more than {MAX_VALUES} values, which is too much for a schema",
            code="invalid_json_schema",
        )


def check_constrains(schema: dict[str, Any], where: str, pause: Pause = no_pause) -> None:
    """Checks that an engine can make a grammar of a valid schema.

    Args:
        schema: The schema.
        where: The field that it is in, for messages.
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: It is too large, or a reference in it leads nowhere.
    """
    same_value: dict[str, list[str]] = {}
    entries = 0
    seen: set[str] = set()
    waiting: list[tuple[str, Any, int]] = [("#", schema, 1)]
    turns = Turns(pause)
    while waiting:
        turns.check()
        place, node, depth = waiting.pop()
        if place in seen or not isinstance(node, dict):
            continue
        seen.add(place)
        if depth > MAX_DEPTH:
            raise _unusable(where, place, f"it is nested deeper than {MAX_DEPTH} schemas")
        entries += sum(len(node[key]) for key in _LISTS_THAT_COST if key in node)
        if entries > MAX_ENTRIES:
            raise _unusable(
                where,
                place,
                f"it has more than {MAX_ENTRIES} properties, alternatives and values of enum",
            )
        _check_patterns(node, where, place)
        same = []
        for name, child, applies in _children(node):
            waiting.append((f"{place}/{name}", child, depth + 1))
            if applies:
                same.append(f"{place}/{name}")
        if "$dynamicRef" in node or "$recursiveRef" in node:
            raise _unusable(where, place, "dynamic references are not supported; use $ref")
        if "$ref" in node:
            target = _resolve(schema, node["$ref"], where, place)
            same.append(target[0])
            waiting.append((*target, depth))  # it may be at a place that no keyword leads to
        if same:
            same_value[place] = same
    if loop := _loop(same_value):
        raise _unusable(where, loop, "it refers to itself without taking anything in between")


def pointer(path: Any) -> str:
    """A JSON Pointer in URI form, as references are written."""
    return "#" + "".join(f"/{_escaped(str(step))}" for step in path)


def _check_patterns(node: dict[str, Any], where: str, place: str) -> None:
    patterns = [node["pattern"]] if "pattern" in node else []
    for text in (*patterns, *node.get("patternProperties", ())):
        if len(text) > MAX_PATTERN:
            raise _unusable(where, place, f"a pattern is longer than {MAX_PATTERN} characters")
        if "\0" in text:
            raise _unusable(where, place, "a pattern holds a NUL character")


def _children(node: dict[str, Any]) -> Iterator[tuple[str, Any, bool]]:
    """The schemas in a schema: path, schema, whether it applies to the same value."""
    for key in (*_SAME_VALUE, *_PART):
        if key in node:
            yield key, node[key], key in _SAME_VALUE
    for key in (*_SAME_VALUE_LISTS, *_PART_LISTS):
        if isinstance(listed := node.get(key), list):
            for i, child in enumerate(listed):
                yield f"{key}/{i}", child, key in _SAME_VALUE_LISTS
    for key in (*_PART_MAPS, *_DEFINITIONS):
        if isinstance(mapped := node.get(key), dict):
            for name, child in mapped.items():
                applies = key == "dependentSchemas" or key == "dependencies"
                yield f"{key}/{_escaped(name)}", child, applies


def _resolve(root: dict[str, Any], reference: str, where: str, place: str) -> tuple[str, Any]:
    """The place that a reference names, and what is there."""
    if not reference.startswith("#"):
        raise _unusable(where, place, f"$ref {_short(reference)} leads out of the schema")
    path = unquote(reference[1:])
    if path and not path.startswith("/"):
        raise _unusable(
            where, place, f"$ref {_short(reference)} names an anchor; write the path instead"
        )
    found: Any = root
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
    for step in steps:
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isascii() and step.isdigit() and len(step) < 9 \
                and int(step) < len(found):  # fmt: skip
            found = found[int(step)]
        else:
            raise _unusable(where, place, f"$ref {_short(reference)} leads nowhere")
    if not isinstance(found, dict | bool):
        raise _unusable(where, place, f"$ref {_short(reference)} does not lead to a schema")
    return pointer(steps), found


def _loop(edges: dict[str, list[str]]) -> str | None:
    """A node that can be reached from itself."""
    done: set[str] = set()
    for start in edges:
        on_path: set[str] = set()
        stack = [(start, False)]
        while stack:
            node, left = stack.pop()
            if left:
                on_path.discard(node)
                done.add(node)
            elif node in on_path:
                return node
            elif node not in done:
                on_path.add(node)
                stack.append((node, True))
                stack += [(target, False) for target in edges.get(node, ())]
    return None


def _unusable(where: str, place: str, why: str) -> Invalid:
    return Invalid(
        where,
        f"cannot be used as a constraint: at {place}: {why}",
        code="invalid_json_schema",
    )


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
