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

from sglrouter._fast.operations import CONTENT, Operation, Pass, Read, Value
from sglrouter._fast.parse import OutputParser
from sglrouter.families.json_calls import Calls, call_object, drop_strays
from sglrouter.families.marked_calls import DROP_REST, marked
from sglrouter.families.program import (
    PEEK,
    Format,
    Outcome,
    Program,
    Tools,
    literal,
)

_Item = Callable[[OutputParser], Calls]

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


def _more(parser: OutputParser, item: _Item, *, bracketed: bool) -> Calls:
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
    item: _Item = call_object if (yield PEEK) == b"{" else call
    outcome, begun = yield from item(parser)
    if outcome is Outcome.DONE:
        outcome, begun = yield from _more(parser, item, bracketed=bracketed)
    if outcome is Outcome.DONE:
        yield from drop_strays(parser)
    return outcome, begun


_PYTHON_START = b"<|python_start|>"
_PYTHON_END = b"<|python_end|>"
_START_AGAIN = literal(_PYTHON_START)
_END = literal(_PYTHON_END)


def _llama4(parser: OutputParser, tools: Tools) -> Program:
    """Llama 4's calls: a list, with markers around it or without.

    Without, it may also be JSON, if nothing comes before it.
    """
    names = tools.names
    lists = (b"[" + name.encode() + b"(" for name in names)
    content = Pass(CONTENT, (_PYTHON_START, *lists), loose=True)

    def known_object(parser: OutputParser) -> Calls:
        return call_object(parser, tools)

    parser.mark()
    bracketed = (yield _OPEN_BRACKET) >= 0
    if (yield PEEK) == b"{":
        outcome, begun = yield from known_object(parser)
        if outcome is Outcome.DONE:
            outcome, begun = yield from _more(parser, known_object, bracketed=bracketed)
        if not begun:
            parser.reject()
        elif outcome is Outcome.CUT:
            yield DROP_REST
    else:
        parser.rewind()

    while (found := (yield content)) >= 0:
        parser.mark(parser.marker)
        if found:
            outcome, begun = yield from arguments(parser, names[found - 1])
            if outcome is Outcome.DONE:
                outcome, begun = yield from _more(parser, call, bracketed=True)
            if outcome is Outcome.DONE:
                yield from drop_strays(parser)
            if not begun:
                parser.reject()
                continue
        else:
            while (yield _START_AGAIN) >= 0:
                pass
            outcome, begun = yield from calls(parser)
            if outcome is Outcome.BROKEN and not begun:
                parser.reject()
                continue
            if outcome is not Outcome.CUT:
                parser.mark()
                if (yield _END) < 0 and not parser.ended:
                    parser.reject()
                    continue
                parser.accept()
        if outcome is Outcome.CUT or parser.ended:
            yield DROP_REST


PYTHONIC = Format(_llama4, (_PYTHON_START.decode(), _PYTHON_END.decode()))
LFM2 = marked((b"<|tool_call_start|>",), (b"<|tool_call_end|>",), body=calls)
OLMO3 = marked((b"<function_calls>",), (b"</function_calls>",), body=calls)

FORMATS = {"pythonic": PYTHONIC, "lfm2": LFM2, "olmo3": OLMO3}
