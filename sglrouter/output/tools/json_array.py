"""The array of calls that an answer forced to call a tool consists of.

    [{"name": "f", "parameters": {...}}, ...]

Strategy: one pass over the text, with the depth of nesting and whether a string is
open as the only memory. A call's parameters are passed on as they are written, so
they stream and stay the model's own text; its name must be complete first. What is
between calls is held until it proves to be part of the array. Text that is no such
array, as from an engine that ignores the constraint, is content from where that
shows: after the last call, or all of it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from enum import Enum, auto

import msgspec

from sglrouter.output.tools.calls import CallDelta, Parsed, new_call_id

_SPACE = " \t\r\n"
_IN_STRING = frozenset('"\\')
_IN_VALUE = frozenset('"{}[],')


class _At(Enum):
    """Where in the array the next character is."""

    START = auto()  # before the opening bracket
    ITEM = auto()  # between calls
    MEMBER = auto()  # inside a call, before or after a member
    KEY = auto()  # inside a member's name
    COLON = auto()  # after a member's name
    VALUE = auto()  # inside a member's value
    END = auto()  # after the closing bracket
    CONTENT = auto()  # not such an array


class _Member(Enum):
    """Which member of a call the value belongs to."""

    NAME = auto()
    ARGUMENTS = auto()
    OTHER = auto()


class JsonArrayCalls:
    """Reads a forced answer piece by piece.

    Attributes:
        called: How many calls have begun.
    """

    def __init__(self) -> None:
        self.called = 0
        self._at = _At.START
        # Text since the last call: content, unless a call comes of it.
        self._held: list[str] = []
        self._mark = 0  # where in the text being read that goes on
        self._value: list[str] = []  # the key, name or early arguments being read
        self._member = _Member.OTHER
        self._depth = 0
        self._in_string = False
        self._escaped = False
        # Of the call being read:
        self._announced = False
        self._early: str | None = None  # arguments that came before the name
        self._streaming = False  # in arguments that came after it
        self._argued = False  # whether any of its arguments are out
        self._gap: list[str] = []  # white space that is no argument unless more follows

    def feed(self, text: str) -> Parsed:
        """Takes more text; returns the content and call pieces that it makes."""
        calls: list[CallDelta] = []
        at = self._mark = 0
        while at < len(text) and self._at is not _At.CONTENT:
            if self._at is _At.VALUE:
                at = self._read_value(text, at, calls)
            elif self._at is _At.KEY:
                at = self._read_key(text, at)
            elif text[at] in _SPACE:
                at += 1
            else:
                self._read_mark(text[at], at, calls)
                at += 1
        if not self._streaming:
            self._held.append(text[self._mark :])
        return Parsed(self._take_held() if self._at is _At.CONTENT else "", calls)

    def finish(self) -> Parsed:
        """Ends the answer.

        What a cut-off array has delivered so far stands. Only where that is no call at
        all, the answer is content.
        """
        held = self._take_held()
        return Parsed("" if self.called else held, [])

    def _take_held(self) -> str:
        held = "".join(self._held)
        self._held.clear()
        return held

    def _drop_held(self, at: int) -> None:
        """Takes what is held for part of the array up to text[at]."""
        self._held.clear()
        self._mark = at

    def _read_mark(self, char: str, at: int, calls: list[CallDelta]) -> None:
        """Reads a character between keys and values."""
        where = self._at
        if where is _At.START and char == "[":
            self._at = _At.ITEM
        elif where is _At.ITEM and char == "{":
            self._at = _At.MEMBER
            self._announced, self._early, self._argued = False, None, False
        elif where is _At.ITEM and char == "]":
            self._at = _At.END
            if self.called:
                self._drop_held(at + 1)
        elif where is _At.MEMBER and char == '"':
            self._at = _At.KEY
            self._value.clear()
        elif where is _At.MEMBER and char == "}" and self._announced:
            self._at = _At.ITEM
            self._drop_held(at + 1)
            if not self._argued:
                calls.append(CallDelta(self.called - 1, None, None, "{}"))
        elif where is _At.COLON and char == ":":
            self._begin_value(at + 1)
        elif char != "," or where not in (_At.ITEM, _At.MEMBER):
            self._at = _At.CONTENT

    def _read_key(self, text: str, at: int) -> int:
        start = at
        at = self._string_end(text, at)
        self._value.append(text[start:at])
        if not self._in_string:
            self._at = _At.COLON
        return at

    def _string_end(self, text: str, at: int) -> int:
        """Returns where the string that is open at text[at] ends, or the text does."""
        self._in_string = True
        if self._escaped:
            self._escaped = False
            at += 1
        while (at := _find(text, at, _IN_STRING)) < len(text):
            at += 1
            if text[at - 1] == '"':
                self._in_string = False
                return at
            if at == len(text):
                self._escaped = True
                return at
            at += 1
        return len(text)

    def _begin_value(self, at: int) -> None:
        key = _string('"' + "".join(self._value))
        self._value.clear()
        self._at = _At.VALUE
        self._depth = 0
        self._member = _Member.OTHER
        if key == "name" and not self._announced:
            self._member = _Member.NAME
        elif key == "parameters" and self._early is None and not self._argued:
            self._member = _Member.ARGUMENTS
            self._streaming = self._announced
            if self._streaming:
                self._drop_held(at)

    def _read_value(self, text: str, at: int, calls: list[CallDelta]) -> int:
        """Reads on in a value; returns where its part of the text ends."""
        start = at
        ended = None
        while at < len(text):
            if self._in_string:
                at = self._string_end(text, at)
                continue
            at = _find(text, at, _IN_VALUE)
            if at == len(text):
                break
            char = text[at]
            if self._depth == 0 and char in ",}]":
                ended = char
                break
            at += 1
            if char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
        if self._streaming:
            self._pass_on(text[start:at], calls)
        else:
            self._value.append(text[start:at])
        if ended is not None:
            self._end_value(at, calls)
            if ended == "]":
                self._at = _At.CONTENT
        return at

    def _pass_on(self, piece: str, calls: list[CallDelta]) -> None:
        """Sends arguments, but for the white space around them."""
        if not self._argued:
            piece = piece.lstrip(_SPACE)
        body = piece
        if self._depth == 0 and not self._in_string:
            body = piece.rstrip(_SPACE)
        if body:
            calls.append(CallDelta(self.called - 1, None, None, "".join([*self._gap, body])))
            self._gap.clear()
            self._argued = True
        if len(body) < len(piece):
            self._gap.append(piece[len(body) :])

    def _end_value(self, at: int, calls: list[CallDelta]) -> None:
        self._at = _At.MEMBER
        value = "".join(self._value).strip(_SPACE)
        self._value.clear()
        if self._streaming:
            self._streaming = False
            self._gap.clear()
            self._mark = at
        elif self._member is _Member.ARGUMENTS:
            self._early = value
        elif self._member is _Member.NAME:
            name = _string(value)
            if name is None:
                self._at = _At.CONTENT
                return
            self._announced = True
            self._argued = bool(self._early)
            calls.append(CallDelta(self.called, new_call_id(), name, self._early or ""))
            self.called += 1
            self._drop_held(at)


def _string(json: str) -> str | None:
    try:
        return msgspec.json.decode(json, type=str)
    except msgspec.DecodeError:
        return None


def _find(text: str, at: int, characters: AbstractSet[str]) -> int:
    """Where the first of the characters is from text[at] on; the end if there is none."""
    while at < len(text) and text[at] not in characters:
        at += 1
    return at
