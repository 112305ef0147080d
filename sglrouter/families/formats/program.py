"""What every format's program is made of.

A program is a generator over the operations of sglrouter._fast.operations. It reads a whole
output as if it were there, one operation after another, and returns at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from sglrouter._fast.operations import CONTENT, DROP, Match, Operation, Pass, Peek, Value
from sglrouter._fast.parse import OutputParser

Program = Generator[Operation, Any, None]
Part = Generator[Operation, Any, "Outcome"]

PEEK = Peek()
JSON = Value()
PYTHON = Value(python=True)
SKIP_JSON = Value(drop=True)
REST = Pass(CONTENT)
DROP_REST = Pass(DROP)

# What a schema may have alternatives in.
ALTERNATIVES = ("anyOf", "oneOf", "allOf")

# References and alternatives that are followed for one parameter.
_MOST_REFERENCES = 64


class Outcome(Enum):
    """How reading a part of the text went."""

    DONE = auto()  # it was what it should be
    CUT = auto()  # the text ended in it
    BROKEN = auto()  # it is something else from here on


def broken_or_cut(parser: OutputParser) -> Outcome:
    """How reading went that did not come to what it should."""
    return Outcome.CUT if parser.ended else Outcome.BROKEN


class Tools:
    """The tools of a request, as the formats need them.

    Args:
        tools: As the client wrote them.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        self._parameters: dict[str, Mapping[str, Any]] = {}
        self._required: dict[str, frozenset[str]] = {}
        self._roots: dict[str, object] = {}
        for tool in tools:
            function = tool.get("function", tool)
            schema = function.get("parameters")
            properties = schema.get("properties") if isinstance(schema, Mapping) else None
            self._parameters[function["name"]] = (
                properties if isinstance(properties, Mapping) else {}
            )
            self._roots[function["name"]] = schema

            required = schema.get("required") if isinstance(schema, Mapping) else None
            if isinstance(required, list):
                self._required[function["name"]] = frozenset(
                    name for name in required if isinstance(name, str)
                )

    def __contains__(self, name: str) -> bool:
        return name in self._parameters

    @property
    def names(self) -> Sequence[str]:
        """Of all functions."""
        return list(self._parameters)

    def schema(self, function: str, parameter: str) -> object:
        """The schema of a function's parameter, references followed; None if it has none."""
        return self.resolved(function, self._parameters.get(function, {}).get(parameter))

    def parameters(self, function: str) -> Iterable[str]:
        """The names of a function's parameters."""
        return self._parameters.get(function, ())

    def required(self, function: str) -> frozenset[str]:
        """The parameters that a call of a function must have."""
        return self._required.get(function, frozenset())

    def resolved(self, function: str, schema: object) -> object:
        """What a schema within a function's is, the references in its alternatives followed."""
        return resolved(schema, self._roots.get(function), [_MOST_REFERENCES])


def resolved(schema: object, root: object, left: list[int]) -> object:
    """A schema whose `$ref`s into the root are followed, in itself and its alternatives.

    Args:
        schema: Anything that may be a schema.
        root: What the references are relative to.
        left: How many more references and alternatives are looked at.
    """
    while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
        left[0] -= 1
        if left[0] < 0 or not reference.startswith("#"):
            return None
        schema = root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping):
        return schema
    alternatives = {}
    for keyword in ALTERNATIVES:
        members = schema.get(keyword)
        if isinstance(members, list) and any(map(_may_refer, members)):
            left[0] -= len(members)
            if left[0] < 0:
                return schema
            alternatives[keyword] = [resolved(member, root, left) for member in members]
    return {**schema, **alternatives} if alternatives else schema


def _may_refer(schema: object) -> bool:
    return isinstance(schema, Mapping) and not schema.keys().isdisjoint(("$ref", *ALTERNATIVES))


class Format(NamedTuple):
    """A way of writing tool calls.

    Attributes:
        program: Makes the program for a parser and the request's tools.
        markers: What it looks for. Where these are special tokens of the vocabulary, the
            detokenizer has to show them.
        call_id: Makes a call's id from its function's name and its number, counted from
            the first call of the conversation; None for random ids.
        reasons: Whether it has reasoning of its own.
        every_answer: Whether an answer without calls is written in it, too, perhaps with its
            reasoning.
    """

    program: Callable[[OutputParser, Tools], Program]
    markers: tuple[str, ...]
    call_id: Callable[[str, int], str] | None = None
    every_answer: bool = False
    reasons: bool = False

    def showing(self, *texts: bytes) -> Format:
        """The same format, which needs these texts to be visible, too."""
        return self._replace(markers=(*self.markers, *(text.decode() for text in texts)))


def json_text(quoted: bytes) -> str | None:
    """The text of a JSON string, quotes included; None if it is no such string."""
    try:
        return msgspec.json.decode(quoted, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def attributes(text: str) -> dict[str, str]:
    """The attributes of a tag, such as name="f" index=1, of a bounded length."""
    values: dict[str, str] = {}
    while "=" in text:
        left, _, text = text.partition("=")
        text = text.lstrip()
        quote = text[:1]
        if quote in ("'", '"'):
            value, _, text = text[1:].partition(quote)
        else:
            value, _, text = text.partition(" ")
        words = left.split()
        if words:
            values[words[-1]] = value
    return values


def literal(*texts: bytes) -> Match:
    """Consumes one of the texts if it comes next, after white space."""
    return Match(texts, skip_space=True)
