"""Structural tags that clients write themselves.

Engines read these with code that fails in ways of its own on what it does not expect, so
the shape is checked here: both forms, and the schemas and patterns in them. Formats that
are not known here pass, since engines learn new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sglrouter.errors import Invalid
from sglrouter.request.json_schemas import (
    MAX_PATTERN,
    check_constrains,
    check_is_schema,
    check_size,
)
from sglrouter.turns import Pause, Turns, no_pause, taking_turns

Json = dict[str, Any]

MAX_FORMATS = 1000
MAX_FORMAT_DEPTH = 64
MAX_TRIGGERS = 100

_ROOT = "response_format"
# What is in a format, by the field that it is in.
_TEXTS = {"pattern": MAX_PATTERN, "grammar": 65_536}
_SCHEMA_KINDS = ("json_schema", "qwen_xml_parameter")


def check_structural_tag(tag: Json, pause: Pause = no_pause) -> None:
    """Checks a response_format of type structural_tag.

    Args:
        tag: The response_format.
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: It has neither form, or what it holds is malformed.
    """
    if tag.get("structures") is not None:
        _check_structures(tag, pause)
    elif isinstance(tag.get("format"), dict):
        _check_formats(tag["format"], pause)
    else:
        raise _wrong("format", "must be an object, unless there are structures and triggers")


def _check_structures(tag: Json, pause: Pause) -> None:
    triggers = tag.get("triggers")
    if not _is_list_of_texts(triggers) or not triggers:
        raise _wrong("triggers", "must be a list of non-empty strings")
    if len(triggers or ()) > MAX_TRIGGERS:
        raise _wrong("triggers", f"must have at most {MAX_TRIGGERS} elements")
    if not isinstance(tag.get("at_least_one"), bool | None):
        raise _wrong("at_least_one", "must be true or false")
    structures = tag["structures"]
    if not isinstance(structures, list) or not structures:
        raise _wrong("structures", "must be a list of at least one structure")
    if len(structures) > MAX_FORMATS:
        raise _wrong("structures", f"must have at most {MAX_FORMATS} elements")
    for i, structure in enumerate(taking_turns(structures, pause)):
        where = f"structures[{i}]"
        if not isinstance(structure, dict):
            raise _wrong(where, "must be an object")
        for name in ("begin", "end"):
            if not isinstance(structure.get(name), str):
                raise _wrong(f"{where}.{name}", "must be a string")
        _check_schema(structure.get("schema"), f"{where}.schema", pause)
        begin = structure["begin"]
        if sum(begin.startswith(trigger) for trigger in triggers or ()) != 1:
            raise _wrong(f"{where}.begin", "must start with exactly one of the triggers")


def _check_formats(root: Json, pause: Pause) -> None:
    waiting: list[tuple[str, Any, int]] = [("format", root, 1)]
    count = 0
    turns = Turns(pause)
    while waiting:
        turns.check()
        where, node, depth = waiting.pop()
        count += 1
        if not isinstance(node, dict):
            raise _wrong(where, "must be an object")
        # Tags in a list of tags need not say that they are tags.
        is_tag = where != "format" and "begin" in node and "end" in node
        if not isinstance(node.get("type"), str) and not is_tag:
            raise _wrong(f"{where}.type", "must be the name of a format")
        if depth > MAX_FORMAT_DEPTH or count > MAX_FORMATS:
            raise _wrong(
                where, f"is too much: at most {MAX_FORMATS} formats, {MAX_FORMAT_DEPTH} deep"
            )
        for name, most in _TEXTS.items():
            if name in node:
                _check_text(node[name], f"{where}.{name}", most)
        if node.get("type") in _SCHEMA_KINDS:
            _check_schema(node.get("json_schema"), f"{where}.json_schema", pause)
        waiting += [(f"{where}.{place}", inner, depth + 1) for place, inner in _inner(node)]


def _inner(node: Json) -> Iterator[tuple[str, Any]]:
    """The formats in a format, by their place."""
    if isinstance(node.get("content"), dict):
        yield "content", node["content"]
    for name in ("elements", "tags"):
        listed = node.get(name)
        if isinstance(listed, list):
            yield from ((f"{name}[{i}]", inner) for i, inner in enumerate(listed))
    rules = node.get("rules")
    if isinstance(rules, list):
        for i, rule in enumerate(rules):
            if isinstance(rule, list) and len(rule) == 2:
                yield f"rules[{i}][1]", rule[1]


def _check_schema(schema: object, where: str, pause: Pause) -> None:
    if schema is None or isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise _wrong(where, "must be a JSON Schema")
    where = f"{_ROOT}.{where}"
    check_size(msgspec.json.encode(schema), where)
    check_is_schema(schema, where)
    check_constrains(schema, where, pause)


def _check_text(text: object, where: str, most: int) -> None:
    if not isinstance(text, str) or len(text) > most or "\0" in text:
        raise _wrong(where, f"must be a string of at most {most} characters, none of them NUL")


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def _wrong(where: str, what: str) -> Invalid:
    return Invalid(f"{_ROOT}.{where}", what)
