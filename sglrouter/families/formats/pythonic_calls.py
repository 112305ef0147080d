"""Calls written as Python: f(city='Paris', days=3), alone, in a row, or in a list.

All arguments are keywords, and their values are literals of Python or JSON. A name or an
expression is the text that it is written with: nobody computes it here. A comma or a
closing bracket may be missing. Anything else in an argument's place breaks the call off,
which never becomes complete: whatever was meant, this is not it. Where nothing marks the
calls, a list is one only if it begins with a call of a tool of the request: else it is the
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from sglrouter._fast.operations import Operation, Read, Value
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.json_calls import Calls, call_object
from sglrouter.families.formats.program import (
    PEEK,
    Outcome,
    Tools,
    literal,
)
from sglrouter.families.formats.strays import drop_strays

Item = Callable[[OutputParser], Calls]

_NO_NAME = tuple(
    bytes((byte,)) for byte in range(128) if not (chr(byte).isalnum() or chr(byte) in "_-.")
)
_NAME = Read(_NO_NAME, limit=256, peek=True)
_VALUE = Value(python=True, in_code=True)
_SKIP_VALUE = Value(python=True, in_code=True, drop=True)
_OPEN = literal(b"(")
_CLOSE = literal(b")")
_OPEN_BRACKET = literal(b"[")
_CLOSE_BRACKET = literal(b"]")
_FENCE = literal(b"```python", b"```json", b"```")
_EQUALS = literal(b"=")
# What closes a call whose parenthesis was forgotten.
_CLOSERS = (b"]", b"<|", b"</")
_FORGOTTEN = literal(*_CLOSERS)
_COMMA = literal(b",")
_SEPARATOR = literal(b",", b";")


def arguments(parser: OutputParser, name: str) -> Calls:
    """Reads a call from behind its opening parenthesis on.

    It begins with the first argument's name: what has none may not be a call at all.
    """
    keys: set[bytes] = set()
    while (yield _CLOSE) < 0:
        yield PEEK
        word = yield _NAME
        key = word[0] if word is not None else b""
        if not key or (yield _EQUALS) < 0:
            return (yield from _not_this(parser, bool(keys)))
        if not keys:
            parser.begin_call(name)
        parser.accept()
        repeated = key in keys
        if repeated:
            whole = yield _SKIP_VALUE
        else:
            parser.argue((b', "' if keys else b'{"') + key + b'": ')
            keys.add(key)
            whole = yield _VALUE
        if whole is None:
            return Outcome.CUT, True
        parser.mark()
        if whole is False:
            # The value's own brackets may be what is missing.
            byte = yield PEEK
            closed = byte in (b")", b",") or (yield from _forgotten(parser))
            if not closed:
                return (yield from _not_this(parser, True))
            if not repeated and not parser.close_value():
                parser.argue(b"null")
        if (yield _COMMA) >= 0:
            continue
        byte = yield PEEK
        if (yield from _forgotten(parser)):
            break
        if byte != b")" and not (byte.isalpha() or byte == b"_"):
            return (yield from _not_this(parser, True))
    if keys:
        parser.argue(b"}")
    else:
        parser.begin_call(name)
    parser.end_call()
    return Outcome.DONE, True


def _forgotten(parser: OutputParser) -> Generator[Operation, Any, bool]:
    """Whether what comes next says that a parenthesis was forgotten."""
    found = yield _FORGOTTEN
    if found >= 0:
        parser.push(_CLOSERS[found])
    return bool(found >= 0)


def _not_this(parser: OutputParser, begun: bool) -> Calls:
    """What comes next belongs to no call, if anything comes."""
    if (yield PEEK) == b"":
        return Outcome.CUT, begun
    if begun:
        parser.leave_call()
        parser.reject()
    return Outcome.BROKEN, begun


def call(parser: OutputParser) -> Calls:
    """Reads a call."""
    yield PEEK
    word = yield _NAME
    if word is None or not word[0] or (yield _OPEN) < 0:
        return (yield from _not_this(parser, False))
    return (yield from arguments(parser, word[0].decode()))


def more(parser: OutputParser, item: Item, *, bracketed: bool) -> Calls:
    """Reads what follows a call: the list's end, or further calls up to it."""
    while True:
        parser.mark()
        comma = (yield _SEPARATOR) >= 0
        if bracketed and (yield _CLOSE_BRACKET) >= 0:
            parser.accept()
            return Outcome.DONE, True
        byte = yield PEEK
        if byte == b"":
            return Outcome.CUT, True
        if not comma and (bracketed or not (byte == b"{" or byte == b"_" or byte.isalpha())):
            parser.reject()
            return Outcome.DONE, True
        outcome, begun = yield from item(parser)
        if outcome is Outcome.BROKEN and not begun:
            parser.reject()
        if outcome is not Outcome.DONE:
            return outcome, True


def calls(parser: OutputParser, _tools: Tools | None = None) -> Calls:
    """Reads calls, in a row or in a list, as Python or as JSON.

    Returns how that went, and whether a call has begun.
    """
    yield _FENCE
    bracketed = (yield _OPEN_BRACKET) >= 0
    item: Item = call_object if (yield PEEK) == b"{" else call
    outcome, begun = yield from item(parser)
    if outcome is Outcome.DONE:
        outcome, begun = yield from more(parser, item, bracketed=bracketed)
    if outcome is Outcome.DONE:
        yield from drop_strays(parser)
    return outcome, begun
