"""Calls of MiniMax-M3: a tag for every parameter, named after it, and tags within tags.

    NS<tool_call>NS<invoke name="f">NS<tags>NS<item>aNS</item>NS</tags>NS</invoke>NS</tool_call>

NS is a token that marks the tag behind it as markup. An object has a tag for every
member, an array has one named item for every item.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from sglrouter._fast.operations import CONTENT, Operation, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.output.formats.call_blocks import DROP_REST, broken_or_cut
from sglrouter.output.formats.program import Format, Outcome, Part, Program, Tools, literal
from sglrouter.output.formats.typed_values import Kind, Values, as_string, json_value, kind, types
from sglrouter.output.formats.xml_calls import attributes

NAMESPACE = b"]<]minimax[>["

_DEEPEST = 64
_CONTENT = Pass(CONTENT, (NAMESPACE,))
_NAMESPACE = literal(NAMESPACE)
_OPENER = literal(b"<tool_call>")
_CLOSING = 0
_TAG = literal(b"</", b"<")
_REST_OF_TAG = Read((b">",))
_TEXT = Read((NAMESPACE,), limit=1 << 30)
_STRING = Values((NAMESPACE,))

# A tag: whether it is a closing one, and what it says. None if there is no tag.
Tag = Generator[Operation, Any, tuple[bool, str] | None]


def program(parser: OutputParser, tools: Tools) -> Program:
    """Reads a whole output."""
    astray = False  # in a block, at what does not belong there
    while (yield _CONTENT) >= 0:
        parser.mark(NAMESPACE)
        if astray:
            tag = yield from _tag()
            is_opener = tag == (False, "tool_call")
        else:
            is_opener = (yield _OPENER) >= 0
            tag = (False, "tool_call") if is_opener else None
        outcome = broken_or_cut(parser)
        if tag is not None:
            outcome = Outcome.DONE
            if is_opener or _is_call(tag):
                outcome, begun = yield from _block(parser, tools, tag)
                astray = outcome is Outcome.BROKEN and (begun or astray)
            else:
                # A tag that has lost its place.
                parser.accept()
                astray = tag != (True, "tool_call")
        if outcome is Outcome.CUT:
            yield DROP_REST
            return
        parser.reject()


def _block(
    parser: OutputParser, tools: Tools, tag: tuple[bool, str] | None
) -> Generator[Operation, Any, tuple[Outcome, bool]]:
    """Reads a block after its opener, or after the beginning of a call in it.

    Returns how that went and whether a call has begun.
    """
    begun = False
    while tag is not None:
        if tag == (True, "tool_call"):
            if begun:
                parser.accept()
            return Outcome.DONE if begun else Outcome.BROKEN, begun
        if _is_call(tag):
            name = attributes(tag[1]).get("name", "")
            if not name:
                return Outcome.BROKEN, begun
            parser.begin_call(name)
            begun = True
            outcome = yield from _parameters(parser, tools, name)
            if outcome is Outcome.CUT:
                return outcome, True
            parser.end_call()
            if outcome is Outcome.BROKEN:
                return outcome, True
            parser.mark()
        elif tag != (False, "tool_call"):
            return Outcome.BROKEN, begun
        tag = yield from _next_tag()
    return broken_or_cut(parser), begun


def _is_call(tag: tuple[bool, str]) -> bool:
    return not tag[0] and tag[1].startswith("invoke ")


def _tag() -> Tag:
    """Reads a tag after its namespace."""
    found = yield _TAG
    if found < 0:
        return None
    head = yield _REST_OF_TAG
    return None if head is None else (found == _CLOSING, head[0].decode("utf-8", "replace").strip())


def _next_tag() -> Tag:
    """Reads the tag that comes next, if one does."""
    if (yield _NAMESPACE) < 0:
        return None
    return (yield from _tag())


def _parameters(parser: OutputParser, tools: Tools, name: str) -> Part:
    before = b"{"
    outcome = Outcome.DONE
    while outcome is Outcome.DONE:
        parser.mark()
        tag = yield from _next_tag()
        if tag is None:
            outcome = broken_or_cut(parser)
        elif tag[0]:
            parser.accept()
            break
        elif not tag[1]:
            outcome = Outcome.BROKEN
        else:
            parser.accept()
            key = as_string(tag[1].encode())
            schema = tools.schema(name, tag[1])
            outcome = yield from _value(parser, before + key + b": ", schema, _DEEPEST)
            before = b", "
    if outcome is not Outcome.CUT and before != b"{":
        parser.argue(b"}")
    return outcome


def _value(parser: OutputParser, before: bytes, schema: object, depth: int) -> Part:
    """Reads a value and its closing tag."""
    if kind(schema) is not Kind.VALUE:
        if (yield from _STRING.read(parser, before, schema)) < 0:
            return Outcome.CUT
        tag = yield from _tag()
        if tag is None:
            return broken_or_cut(parser)
        return Outcome.DONE if tag[0] else Outcome.BROKEN
    read = yield _TEXT
    if read is None:
        return Outcome.CUT
    tag = yield from _tag()
    if tag is None and parser.ended:
        return Outcome.CUT
    if tag is None or tag[0]:
        parser.argue(before + _leaf(read[0], schema))
        return Outcome.BROKEN if tag is None else Outcome.DONE
    if depth == 0:
        parser.argue(before + b"null")
        return Outcome.BROKEN
    return (yield from _members(parser, before, schema, tag, depth))


def _members(
    parser: OutputParser, before: bytes, schema: object, tag: tuple[bool, str] | None, depth: int
) -> Part:
    """Reads an object or an array from its first member's tag on."""
    in_array = tag == (False, "item") and "object" not in types(schema)
    parser.argue(before + (b"[" if in_array else b"{"))
    before = b""
    outcome = Outcome.DONE
    while tag is not None and not tag[0]:
        if not in_array:
            before += as_string(tag[1].encode()) + b": "
        member = _member_schema(schema, tag[1], in_array)
        outcome = yield from _value(parser, before, member, depth - 1)
        before = b", "
        if outcome is not Outcome.DONE:
            break
        tag = yield from _next_tag()
        if tag is None:
            outcome = broken_or_cut(parser)
    if outcome is not Outcome.CUT:
        parser.argue(b"]" if in_array else b"}")
    return outcome


def _leaf(text: bytes, schema: object) -> bytes:
    """The JSON of a value without tags in it."""
    allowed = types(schema)
    if not text.strip() and "string" not in allowed:
        if "array" in allowed:
            return b"[]"
        if "object" in allowed:
            return b"{}"
    return json_value(text, schema)


def _member_schema(schema: object, name: str, in_array: bool) -> object:
    if not isinstance(schema, Mapping):
        return None
    if in_array:
        return schema.get("items")
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return properties[name]
    return schema.get("additionalProperties")


MINIMAX_M3 = Format(program, (NAMESPACE.decode(),))

FORMATS: dict[str, Format] = {"minimax-m3": MINIMAX_M3, "minimax_m3": MINIMAX_M3}
