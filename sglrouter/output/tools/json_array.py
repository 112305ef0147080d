"""The array of calls that an answer forced to call a tool consists of.

    [{"name": "f", "parameters": {...}}, ...]

Strategy: one pass over the characters, with the depth of nesting and whether a string
is open as the only memory. A call's parameters are passed on as they are written, so
they stream and stay the model's own text; its name must be complete first. Text that
is no such array, as from an engine that ignores the constraint, is content.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from sglrouter.output.tools.calls import CallDelta, Parsed, new_call_id

_SPACE = " \t\r\n"


class _At(Enum):
    """Where in the array the next character is."""

    START = auto()  # before the opening bracket
    ITEM = auto()  # between calls
    KEY = auto()  # inside a call, before or after a member
    IN_KEY = auto()  # inside a member's name
    COLON = auto()  # after a member's name
    VALUE = auto()  # inside a member's value
    END = auto()  # after the closing bracket
    CONTENT = auto()  # not such an array


class JsonArrayCalls:
    """Reads a forced answer piece by piece.

    Attributes:
        called: How many calls have begun.
    """

    def __init__(self) -> None:
        self.called = 0
        self._at = _At.START
        self._skipped = ""  # white space before the bracket, content if none comes
        self._member = ""
        self._text = ""  # the key or name being read
        self._name: str | None = None
        self._early = ""  # parameters that come before the name
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._announced = False

    def feed(self, text: str) -> Parsed:
        """Takes more text; returns the content and call pieces that it makes."""
        content: list[str] = []
        calls: list[CallDelta] = []
        arguments: list[str] = []
        for char in text:
            if self._at is _At.VALUE:
                self._value_char(char, calls, arguments)
            elif self._at is _At.CONTENT:
                content.append(char)
            else:
                self._structure_char(char, content, calls, arguments)
        self._flush(calls, arguments)
        return Parsed("".join(content), calls)

    def finish(self) -> Parsed:
        """Ends the answer; what a cut-off array has delivered so far stands."""
        content = self._skipped if self._at is _At.START else ""
        self._skipped = ""
        return Parsed(content, [])

    def _structure_char(
        self, char: str, content: list[str], calls: list[CallDelta], arguments: list[str]
    ) -> None:
        at = self._at
        if at is _At.START:
            self._skipped += char
            if char == "[":
                self._at, self._skipped = _At.ITEM, ""
            elif char not in _SPACE:
                self._at = _At.CONTENT
                content.append(self._skipped)
        elif at is _At.IN_KEY:
            if char == '"':
                self._at = _At.COLON
            else:
                self._member += char
        elif char in _SPACE:
            return
        elif at is _At.ITEM:
            if char == "{":
                self._at = _At.KEY
                self._name, self._announced, self._early = None, False, ""
            elif char == "]":
                self._at = _At.END
            elif char != ",":
                self._at = _At.CONTENT
                content.append(char)
        elif at is _At.KEY:
            if char == '"':
                self._at, self._member = _At.IN_KEY, ""
            elif char == "}":
                self._at = _At.ITEM
        elif at is _At.COLON:
            if char == ":":
                self._at, self._text = _At.VALUE, ""
                self._depth, self._in_string, self._escaped = 0, False, False
        else:
            self._at = _At.CONTENT
            content.append(char)

    def _value_char(self, char: str, calls: list[CallDelta], arguments: list[str]) -> None:
        if not self._in_string and self._depth == 0 and char in ",}":
            self._end_value(calls, arguments)
            self._at = _At.KEY if char == "," else _At.ITEM
            return
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif char == "\\":
                self._escaped = True
            elif char == '"':
                self._in_string = False
        elif char == '"':
            self._in_string = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
        if self._member == "name":
            self._text += char
        elif self._member == "parameters":
            if self._depth == 0 and char in _SPACE and not self._in_string:
                return
            if self._announced:
                arguments.append(char)
            else:
                self._early += char

    def _end_value(self, calls: list[CallDelta], arguments: list[str]) -> None:
        if self._member != "name" or self._announced:
            self._flush(calls, arguments)
            return
        try:
            name = msgspec.json.decode(self._text.strip(), type=str)
        except msgspec.DecodeError:
            name = self._text.strip()
        self._announced = True
        calls.append(CallDelta(self.called, new_call_id(), name, self._early))
        self.called += 1

    def _flush(self, calls: list[CallDelta], arguments: list[str]) -> None:
        if arguments:
            calls.append(CallDelta(self.called - 1, None, None, "".join(arguments)))
            arguments.clear()
