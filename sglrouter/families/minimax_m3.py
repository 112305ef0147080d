"""MiniMax-M3: calls with a tag for every parameter, named after it, and tags within tags.

    NS<tool_call>NS<invoke name="f">NS<tags>NS<item>aNS</item>NS</tags>NS</invoke>NS</tool_call>

NS is a token that marks the tag behind it as markup. An object has a tag for every
member, an array has one named item for every item. A string ends at its own closing tag
and where markup follows that, so it may quote other tags.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from typing import Any

from sglrouter._fast.guard import CLOSES, ENDS, ENDS_OR_CLOSES, OPENS, Guard
from sglrouter._fast.operations import CONTENT, Operation, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.program import (
    DROP_REST,
    Format,
    Outcome,
    Part,
    Program,
    Tools,
    attributes,
    broken_or_cut,
    literal,
)
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.typed_values import Kind, Values, as_string, json_value, kind, types

NAMESPACE = b"]<]minimax[>["

_DEEPEST = 64
_CONTENT = Pass(CONTENT, (NAMESPACE,))
_NAMESPACE = literal(NAMESPACE)
_OPENER = literal(b"<tool_call>")
_CLOSING = 0
_TAG = literal(b"</", b"<")
_REST_OF_TAG = Read((b">",))
_TEXT = Read((NAMESPACE,), limit=1 << 30)
_CLOSED = 3

# A tag: whether it is a closing one, and what it says. None if there is no tag.
Tag = Generator[Operation, Any, tuple[bool, str] | None]

# Follows the references of a schema.
Follow = Callable[[object], object]


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
            name = attributes(tag[1]).get("name", "").strip()
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
    def follow(schema: object) -> object:
        return tools.resolved(name, schema)

    before = b"{"
    keys: set[str] = set()
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
            schema = tools.schema(name, tag[1])
            outcome = yield from _member(parser, before, tag[1], schema, _DEEPEST, follow, keys)
            before = b", "
    if outcome is not Outcome.CUT and before != b"{":
        parser.argue(b"}")
    return outcome


@lru_cache(maxsize=256)
def _string(name: str) -> Values:
    """Reads the string in a tag, which may quote tags of the same name, and whole calls."""
    opener, closer = f"<{name}>".encode(), f"</{name}>".encode()
    return Values(
        tuple(NAMESPACE + tag for tag in (b"<tool_call>", b"</tool_call>", opener, closer, b"")),
        guard=Guard(
            (
                (OPENS, None, None),
                (CLOSES, None, None),
                (OPENS, None, None),
                (ENDS_OR_CLOSES, "over", None),
                (ENDS, "tag", None),
            ),
            {
                "over": ({NAMESPACE: None}, False, True, False),
                "tag": ({closer: "over", b"</invoke>": "over"}, False, True, False),
            },
        ),
    )


def _member(
    parser: OutputParser,
    before: bytes,
    name: str,
    schema: object,
    depth: int,
    follow: Follow,
    names: set[str],
) -> Part:
    """Reads the value of an object's member; of two with the same name, the first counts.

    The first one has gone out already when the second comes.
    """
    repeated = name in names
    names.add(name)
    skipped = parser.skip(True) if repeated else False
    key = before + as_string(name.encode()) + b": "
    outcome = yield from _value(parser, key, name, schema, depth, follow)
    if repeated:
        parser.skip(skipped)
    return outcome


def _value(
    parser: OutputParser, before: bytes, name: str, schema: object, depth: int, follow: Follow
) -> Part:
    """Reads a value and its closing tag."""
    if kind(schema) is not Kind.VALUE:
        found = yield from _string(name).read(parser, before, schema)
        if found < 0:
            return Outcome.CUT
        if found == _CLOSED:
            return Outcome.DONE
        tag = yield from _tag()
        if tag is None:
            return broken_or_cut(parser)
        return Outcome.DONE if tag == (True, name) else Outcome.BROKEN
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
    return (yield from _members(parser, before, schema, tag, depth, follow))


def _members(
    parser: OutputParser,
    before: bytes,
    schema: object,
    tag: tuple[bool, str] | None,
    depth: int,
    follow: Follow,
) -> Part:
    """Reads an object or an array from its first member's tag on."""
    in_array = tag == (False, "item") and "object" not in types(schema)
    parser.argue(before + (b"[" if in_array else b"{"))
    before = b""
    names: set[str] = set()
    outcome = Outcome.DONE
    while tag is not None and not tag[0]:
        name = tag[1]
        member = follow(_member_schema(schema, name, in_array))
        if in_array:
            outcome = yield from _value(parser, before, name, member, depth - 1, follow)
        else:
            outcome = yield from _member(parser, before, name, member, depth - 1, follow, names)
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


FAMILIES = (
    Family(
        names=("minimax-m3", "minimax_m3"),
        calls=Format(program, (NAMESPACE.decode(),)),
        call_signatures=(Signature(("<mm:think>",)), Signature((NAMESPACE.decode(),))),
        reasoning=ReasoningFormat(("<mm:think>",), ("</mm:think>",)),
        reasoning_names=("minimax-m3",),
        reasoning_signatures=(Signature(("<mm:think>",)),),
    ),
)
