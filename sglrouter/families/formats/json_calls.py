"""Calls written as JSON: {"name": ..., "arguments": {...}}, alone, in a row, or in an array.

Families differ in the names of the two members and in what stands around the calls. Where
no marker does, an object is a call only if it names a tool of the request and has nothing
that a call has not: else it is the answer, and goes on as soon as that shows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from sglrouter._fast.operations import Operation, Text, Value
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.program import (
    JSON,
    PEEK,
    SKIP_JSON,
    Outcome,
    Part,
    Program,
    Tools,
    broken_or_cut,
    json_text,
    literal,
)
from sglrouter.families.formats.strays import drop_strays

Calls = Generator[Operation, Any, tuple[Outcome, bool]]

QUOTES = (b'"', b"'")

_STRING = Text(limit=64 * 1024)
_WRAPPED = Text(limit=16 * 1024 * 1024)
_OPEN_BRACE = literal(b"{")
_CLOSE_BRACE = literal(b"}")
_COLON = literal(b":")
_COMMA = literal(b",")
_SEPARATOR = literal(b",", b";")
_OPEN_BRACKET = literal(b"[")
_CLOSE_BRACKET = literal(b"]")

# Before these, nothing but brackets is missing of a value.
_CLOSING = frozenset({b"<", b"[", b"]", b"}", b")", b"`"})
_FENCE = literal(b"```json", b"```")

_NAME_KEYS = frozenset({"name", "function", "tool_name"})
_ARGUMENT_KEYS = frozenset({"arguments", "parameters", "args"})
_OTHER_KEYS = frozenset({"type", "id", "call_id", "tool_call_id", "index"})


def arguments(parser: OutputParser, value: Value = JSON) -> Part:
    """Reads the value of a call's arguments and passes it on.

    It may be written as a string that holds the object, or be null.

    Args:
        parser: What passes it on.
        value: How values are written.
    """
    byte = yield PEEK
    if byte in QUOTES:
        quoted = yield _WRAPPED
        if quoted is None:
            return broken_or_cut(parser)
        inner = json_text(quoted)
        if inner is None:
            parser.push(quoted)
        elif inner.lstrip().startswith("{"):
            parser.push(inner.encode(errors="replace"))
        else:
            if inner.strip() not in ("", "null"):
                parser.argue(quoted)
            return Outcome.DONE
    elif byte in (b"n", b"N"):
        yield SKIP_JSON
        return Outcome.DONE
    elif byte in (b"}", b","):
        return Outcome.DONE
    whole = yield value
    if whole is False:
        yield from mend(parser)
        return Outcome.BROKEN
    return Outcome.DONE if whole else Outcome.CUT


def mend(parser: OutputParser) -> Program:
    """Closes a value that cannot go on, if its brackets are all that is missing.

    Else its call is left as it is: whatever was meant, this is not it.
    """
    if (yield PEEK) in _CLOSING:
        parser.close_value()
    else:
        parser.leave_call()


def call(parser: OutputParser, name: str, value: Value = JSON) -> Part:
    """Passes on a call whose name has been read, with the arguments that follow, if any do."""
    parser.begin_call(name)
    outcome = Outcome.DONE
    byte = yield PEEK
    if byte in (b"{", *QUOTES, b"n", b"N"):
        outcome = yield from arguments(parser, value)
    elif parser.ended:
        outcome = Outcome.CUT
    elif byte not in _CLOSING and byte != b",":
        # What stands there was to be the arguments.
        parser.leave_call()
    if outcome is not Outcome.CUT:
        parser.end_call()
    return outcome


def call_object(parser: OutputParser, tools: Tools | None = None, value: Value = JSON) -> Calls:
    """Reads an object that is a call; returns how that went and whether the call has begun.

    Args:
        parser: What passes it on.
        tools: If given, only these are functions.
        value: How values are written.
    """
    name = None
    begun = argued = False
    if (yield _OPEN_BRACE) < 0:
        return broken_or_cut(parser), False
    while True:
        byte = yield PEEK
        if byte == b"}" or (begun and byte in (b"]", b"{")):
            # Another bracket than that means that the brace was forgotten.
            if byte == b"}":
                yield _CLOSE_BRACE
            if name is None:
                return Outcome.BROKEN, False
            if not begun:
                parser.begin_call(name)
            parser.end_call()
            return Outcome.DONE, True
        if byte == b",":
            yield _COMMA
            continue
        key = yield from _text()
        if key is None or (yield _COLON) < 0:
            break
        if key in _NAME_KEYS and name is None:
            if key == "function" and (yield PEEK) == b"{":
                outcome, begun = yield from call_object(parser, tools, value)
                if outcome is not Outcome.DONE:
                    return outcome, begun
                name = ""
                continue
            name = yield from _text()
            if not name or (tools is not None and name not in tools):
                break
            if tools is None:
                parser.begin_call(name)
                begun = True
        elif key in _ARGUMENT_KEYS and not argued:
            argued = True
            if name is not None and not begun:
                parser.begin_call(name)
                begun = True
            outcome = yield from arguments(parser, value)
            if outcome is not Outcome.DONE:
                if outcome is Outcome.BROKEN and begun:
                    # Brackets were forgotten: the marker that follows ends the call.
                    parser.end_call()
                return outcome, begun
        else:
            of_a_call = tools is None or begun or key in _OTHER_KEYS
            if not of_a_call or (yield SKIP_JSON) is not True:
                break
    outcome = broken_or_cut(parser)
    if begun and outcome is Outcome.BROKEN:
        parser.end_call()
    return outcome, begun


def keyed_object(parser: OutputParser, _tools: Tools | None = None, value: Value = JSON) -> Calls:
    """Reads an object whose members are calls, {name: arguments}; returns as call_object()."""
    begun = False
    if (yield _OPEN_BRACE) < 0:
        return broken_or_cut(parser), False
    while True:
        byte = yield PEEK
        if byte == b"}":
            yield _CLOSE_BRACE
            return Outcome.DONE if begun else Outcome.BROKEN, begun
        if byte == b",":
            yield _COMMA
            continue
        name = yield from _text()
        if not name or (yield _COLON) < 0:
            return broken_or_cut(parser), begun
        begun = True
        outcome = yield from call(parser, name, value)
        if outcome is not Outcome.DONE:
            return outcome, True


def calls(
    parser: OutputParser,
    tools: Tools | None = None,
    value: Value = JSON,
    read: Callable[[OutputParser, Tools | None, Value], Calls] = call_object,
) -> Calls:
    """Reads calls, in a row or in an array; returns how that went and whether one has begun.

    The caller has marked where they begin. What follows them and is no call is left as content.

    Args:
        parser: What passes them on.
        tools: If given, only these are functions.
        value: How values are written.
        read: Reads one object.
    """
    yield _FENCE
    in_array = (yield _OPEN_BRACKET) == 0
    if in_array and (yield PEEK) == b"]":
        yield _CLOSE_BRACKET
        return Outcome.DONE, False
    outcome, begun = yield from read(parser, tools, value)
    while outcome is Outcome.DONE:
        yield from drop_strays(parser)
        parser.mark()
        yield _SEPARATOR
        byte = yield PEEK
        if byte == b"{":
            outcome, another = yield from read(parser, tools, value)
            if outcome is Outcome.BROKEN and not another:
                parser.reject()
        elif byte == b"]" and in_array:
            yield _CLOSE_BRACKET
            parser.accept()
            yield from drop_strays(parser)
            break
        elif byte:
            parser.reject()
            break
        else:
            return Outcome.CUT, begun
    return outcome, begun


def _text() -> Generator[Operation, Any, str | None]:
    """Reads a string; None if there is none."""
    if (yield PEEK) not in QUOTES:
        return None
    quoted = yield _STRING
    return None if quoted is None else json_text(quoted)
