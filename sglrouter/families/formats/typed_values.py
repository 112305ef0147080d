"""What a parameter's text means, where a format writes values as text and not as JSON.

The tool's schema decides. What it declares a string stays one, to the letter, and is
passed on while it arrives. Anything else is read whole and becomes the value that its
type asks for: JSON, or what Python and JavaScript write in its place. Text that is no
such value stays a string, so a call is never lost to a bad argument. A parameter without
a schema is the JSON value that its text is, else a string.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from enum import Enum, auto
from math import isfinite
from typing import Any

import msgspec

from sglrouter._fast.guard import Guard
from sglrouter._fast.operations import (
    DROP,
    KEEP,
    ONE_NEWLINE,
    STRING,
    Match,
    Operation,
    Pass,
    Read,
)
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.program import ALTERNATIVES, PEEK, PYTHON

# Schemas within schemas that are looked into, anyOf in anyOf.
_DEEPEST_SCHEMA = 16

# A number beyond this is text to us: none is so long, and converting takes quadratic time.
_LONGEST_NUMBER = 400

# Up to here, a float is the integer that it says.
_EXACT = 2**53

# What a value may be long before it is not one any more; a generation is bounded anyway.
_LONGEST_VALUE = 1 << 30

_ALIASES = {
    "str": "string",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "enum": "string",
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "tuple": "array",
    "none": "null",
}
_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})
_NULLS = frozenset({b"null", b"None", b"NULL", b"Null"})
_SCALARS = frozenset({"integer", "number", "boolean", "null"})
_NULL = Match((b"null", b"\nnull"))
_NONE = Match((b"null", b"\nnull", b"None", b"\nNone"))
_NEWLINE = Match((b"\n",))
_BOOLEANS = {b"true": b"true", b"false": b"false"}


class Kind(Enum):
    """How a parameter's text is read."""

    TEXT = auto()  # it is the value
    TEXT_OR_NULL = auto()  # so, but for the word null
    VALUE = auto()  # it has to be read whole


def types(schema: object) -> frozenset[str]:
    """The JSON types that a schema allows; none if it does not say.

    A name that is no type counts as string: whatever it means, text is not wrong.
    """
    return frozenset(_types(schema, _DEEPEST_SCHEMA))


def _types(schema: object, depth: int) -> Iterable[str]:
    if not isinstance(schema, Mapping) or depth == 0:
        return ()
    found = set()
    declared = schema.get("type")
    if isinstance(declared, str):
        declared = [declared]
    if isinstance(declared, list) and declared:
        for name in declared:
            word = name.lower() if isinstance(name, str) else ""
            word = _ALIASES.get(word, word)
            found.add(word if word in _TYPES else "string")
    else:
        values = schema.get("enum")
        if not isinstance(values, list):
            values = [schema["const"]] if "const" in schema else []
        found.update(map(_type_of, values))
        for keyword in ALTERNATIVES:
            members = schema.get(keyword)
            if isinstance(members, list):
                for member in members:
                    found.update(_types(member, depth - 1))
        if not found and isinstance(schema.get("properties"), Mapping):
            found.add("object")
        if not found and "items" in schema:
            found.add("array")
    if found and schema.get("nullable") is True:
        found.add("null")
    return found


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, list) else "string"


def kind(schema: object) -> Kind:
    """How to read the text of a parameter with this schema."""
    allowed = types(schema)
    if allowed == {"string"}:
        return Kind.TEXT
    return Kind.TEXT_OR_NULL if allowed == {"string", "null"} else Kind.VALUE


def json_value(text: bytes, schema: object = None, *, is_json: bool = False) -> bytes:
    """The JSON of the value that a parameter's text stands for.

    Args:
        text: As the model wrote it, in UTF-8.
        schema: The parameter's; anything but a mapping is none.
        is_json: Whether the markup says that it is JSON. Then a string has its quotes,
            and null is null.
    """
    allowed = types(schema)
    word = text.strip()
    if is_json and (word == b"null" or word.startswith(b'"')) and _is_json(word):
        return word
    if not allowed:
        return word if _is_json(word) else as_string(_own_line(text))
    if word in _NULLS and ("null" in allowed or "string" not in allowed):
        return b"null"
    if "boolean" in allowed and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    if "integer" in allowed or "number" in allowed:
        number = _number(word, allowed)
        if number is not None:
            return number
    if _may_be_container(word, allowed):
        if _is_json(word):
            return word
        mended = None if "string" in allowed else _mended(word)
        if mended is not None:
            return mended
    return as_string(_own_line(text) if "string" in allowed else word)


def _own_line(text: bytes) -> bytes:
    """A text without the line ends that only put it on a line of its own."""
    framed = len(text) > 1 and text.startswith(b"\n") and text.endswith(b"\n")
    return text[1:-1] if framed else text


def _may_be_container(word: bytes, allowed: frozenset[str]) -> bool:
    """Whether a word begins as an object or an array that its types have room for.

    Where a string is allowed, it must be the very type; else the other container is
    nearer to what was asked for than its text would be.
    """
    if "string" in allowed:
        return ("object" in allowed and word.startswith(b"{")) or (
            "array" in allowed and word.startswith(b"[")
        )
    return not allowed.isdisjoint({"object", "array"}) and word.startswith((b"{", b"[", b"("))


def as_string(text: bytes) -> bytes:
    """The JSON string of a text."""
    return msgspec.json.encode(text.decode("utf-8", "replace"))


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _number(word: bytes, allowed: frozenset[str]) -> bytes | None:
    """The number that a word is, if the types allow it."""
    if not word or len(word) > _LONGEST_NUMBER or not word.isascii():
        return None
    digits = word[1:] if word[:1] in b"+-" else word
    if digits.isdigit():
        if "string" in allowed and not _is_json(word):
            # 007 is more likely a text that happens to be digits.
            return None
        return (b"-" if word[:1] == b"-" else b"") + (digits.lstrip(b"0") or b"0")
    if not digits[:1].isdigit() and digits[:1] != b".":
        return None  # float() knows words, too
    if b"_" in word:
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    if not isfinite(value) or ("string" in allowed and not _is_json(word)):
        return None
    if "number" in allowed:
        # As it was written, where it can be: 1.10 and 1e3 are good JSON.
        return word if _is_json(word) else repr(value).encode()
    if "string" in allowed or not value.is_integer():
        return None
    if abs(value) < _EXACT:
        return b"%d" % int(value)
    return word if _is_json(word) else None


def _mended(text: bytes) -> bytes | None:
    """The JSON of an object or array that is not quite JSON: a Python literal, mostly.

    It is read, not evaluated, in linear time and to a bounded depth.
    """
    whole = False

    def program(parser: OutputParser) -> Generator[Operation, Any, None]:
        nonlocal whole
        parser.begin_call("")
        done = yield PYTHON
        whole = done is True and (yield PEEK) == b""

    parser = OutputParser(program, lambda _name, _number: "")
    parser.feed(text)
    parser.finish()
    if not whole:
        return None
    return b"".join(json for _, _, _, json in parser.take()[2])


class Values:
    """Reads the values of a family's parameters, each up to a marker.

    Args:
        ends: The markers that may end a value. They are consumed.
        trim: The white space around a string that is not part of it, as Pass has it.
        null_text: Whether the word null alone is no string even where only strings are
            allowed.
        literals: What stands for another text, such as the entities of XML.
        verbatim: The beginning and the end of a section without literals, CDATA.
        guard: Tells an end from text that looks like one; None if all are ends. Numbers and
            the like end at the first one all the same: nothing in them looks like it.
        quotes: Markers that the guard has rules for besides the ends, which come first.
    """

    def __init__(
        self,
        ends: tuple[bytes, ...],
        *,
        trim: int = KEEP,
        null_text: bool = False,
        literals: Mapping[bytes, bytes] | None = None,
        verbatim: tuple[bytes, bytes] | None = None,
        guard: Guard | None = None,
        quotes: tuple[bytes, ...] = (),
    ) -> None:
        self._ends = ends
        self._trim = trim
        self._null_text = null_text
        self._literals = dict(literals or {})
        opener = (verbatim[0],) if verbatim else ()
        stops = (*ends, *quotes, *self._literals, *opener)
        self._first_literal = len(ends) + len(quotes)
        self._meanings = tuple(self._literals.values())
        self._string = Pass(STRING, stops, trim, guard=guard)
        self._whole = Read(stops, limit=_LONGEST_VALUE, guard=guard)
        self._scalar = Read((*ends, *self._literals, *opener), limit=_LONGEST_VALUE)
        self._dropped = Pass(DROP, (*ends, *quotes), guard=guard)
        self._end = Match((*ends, *quotes), guard=guard)
        self._verbatim_string = Pass(STRING, verbatim[1:]) if verbatim else None
        self._verbatim_whole = Read(verbatim[1:], limit=_LONGEST_VALUE) if verbatim else None

    def read(
        self, parser: OutputParser, before: bytes, schema: object, *, text: bool | None = None
    ) -> Generator[Operation, Any, int]:
        """Reads a value and passes it on; returns the number of its end, -1 if it was cut off.

        Args:
            parser: Where an argument is due.
            before: What goes before the value: the comma, the key, the colon.
            schema: The parameter's.
            text: Whether the markup says that it is a string, or that it is not.
        """
        how = Kind.TEXT if text else kind(schema)
        if how is Kind.VALUE or text is False:
            return (yield from self._read_whole(parser, before, schema, is_json=text is False))
        if how is Kind.TEXT_OR_NULL or (self._null_text and text is None):
            found = yield from self._null(parser, _NONE if how is Kind.TEXT_OR_NULL else _NULL)
            if found >= 0:
                parser.argue(before + b"null")
                return found
            if parser.ended:
                # It could have become null still.
                return -1
        parser.argue(before + b'"')
        while (found := (yield self._string)) >= self._first_literal:
            number = found - self._first_literal
            if number < len(self._meanings):
                parser.argue(as_string(self._meanings[number])[1:-1])
            elif self._verbatim_string is not None and (yield self._verbatim_string) < 0:
                return -1
        if found >= 0:
            parser.argue(b'"')
        return found

    def drop(self) -> Generator[Operation, Any, int]:
        """Reads a value that goes nowhere; returns what read() does."""
        found: int = yield self._dropped
        return found

    def _null(self, parser: OutputParser, word: Match) -> Generator[Operation, Any, int]:
        """Reads a value that is no more than the word; -1 if it is another, unread then."""
        parser.mark()
        found: int = yield word
        if found >= 0:
            yield _NEWLINE
            found = yield self._end
        if found >= 0:
            parser.accept()
        else:
            parser.rewind()
        return found

    def _read_whole(
        self, parser: OutputParser, before: bytes, schema: object, *, is_json: bool
    ) -> Generator[Operation, Any, int]:
        read_part, first_literal = self._whole, self._first_literal
        allowed = types(schema)
        if allowed and allowed <= _SCALARS:
            read_part, first_literal = self._scalar, len(self._ends)
        parts = []
        while True:
            read = yield read_part
            if read is None:
                return -1
            part, found = read
            parts.append(part)
            if found < len(self._ends):
                break
            number = found - first_literal
            if number < len(self._meanings):
                parts.append(self._meanings[number])
            elif self._verbatim_whole is not None:
                read = yield self._verbatim_whole
                if read is None:
                    return -1
                parts.append(read[0])
        text = b"".join(parts)
        if self._trim == ONE_NEWLINE:
            text = text.removeprefix(b"\n").removesuffix(b"\n")
        parser.argue(before + json_value(text, schema, is_json=is_json))
        return int(found)
