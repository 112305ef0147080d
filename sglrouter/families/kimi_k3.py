"""Kimi K3: an output of elements that are nested and typed.

    <|open|>response<|sep|>Text.<|close|>response<|sep|>
    <|open|>tools<|sep|>
    <|open|>call tool="f" index="1"<|sep|>
    <|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>
    <|close|>call<|sep|>
    <|close|>tools<|sep|>

The markers are tokens of their own, so a tag is markup wherever it stands. What is in no
element of a call is content.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from sglrouter._fast.operations import CONTENT, Match, Operation, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import mend
from sglrouter.families.formats.program import (
    DROP_REST,
    JSON,
    Format,
    Outcome,
    Part,
    Program,
    Tools,
    attributes,
)
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.structural_tags import CallTag
from sglrouter.families.formats.typed_values import Values, as_string

_OPEN = b"<|open|>"
_CLOSE = b"<|close|>"
_SEPARATOR = b"<|sep|>"

_CONTENT = Pass(CONTENT, (_OPEN, _CLOSE))
_TAG = Read((_SEPARATOR, _OPEN, _CLOSE), limit=8192, peek=True)
_TAG_END = Match((_SEPARATOR,))

# Elements whose text is content, and the channel around calls.
_TRANSPARENT = frozenset({"response", "tools", "message", "call", "argument", "json"})

_ARGUMENT = _OPEN + b"argument"
_JSON = _OPEN + b"json"
_CALL_END = _CLOSE + b"call" + _SEPARATOR
_IN_CALL = Match((_ARGUMENT, _JSON, _CALL_END), skip_space=True)
_ARGUMENT_END = _CLOSE + b"argument" + _SEPARATOR
_JSON_END = Match((_CLOSE + b"json" + _SEPARATOR,), skip_space=True)
_VALUES = Values((_ARGUMENT_END, _CALL_END))


def _attributes(text: str) -> Mapping[str, str]:
    """The attributes in a tag: tool="f" index="1"."""
    return {
        key: value.replace("&quot;", '"').replace("&amp;", "&")
        for key, value in attributes(text).items()
    }


def _tag() -> Generator[Operation, Any, str | None]:
    """Reads a tag from behind its marker on; None if it is not ended."""
    read = yield _TAG
    if read is None or (yield _TAG_END) < 0:
        return None
    text: bytes = read[0]
    return text.decode()


def _call(parser: OutputParser, tools: Tools, name: str) -> Part:
    """Reads a call from behind its tag on."""
    parser.begin_call(name)
    any_argument = False
    ended = False
    while not ended:
        found = yield _IN_CALL
        if found == 2:
            break
        tag = (yield from _tag()) if found >= 0 else None
        if tag is None:
            if parser.ended:
                return Outcome.CUT
            # Another element, or none: the call's end was forgotten.
            break
        if found == 1:
            # All arguments at once.
            if any_argument:
                break
            whole = yield JSON
            if whole is None:
                return Outcome.CUT
            if not whole:
                yield from mend(parser)
            yield _JSON_END
            parser.end_call()
            return Outcome.DONE
        attributes = _attributes(tag)
        key = attributes.get("key", "")
        schema = tools.schema(name, key)
        # Else the schema says, and without one the text itself.
        text = attributes.get("type", "string" if schema is None else "") == "string" or None
        before = (b", " if any_argument else b"{") + as_string(key.encode()) + b": "
        any_argument = True
        end = yield from _VALUES.read(parser, before, schema, text=text)
        if end < 0:
            return Outcome.CUT
        ended = end == 1
    if any_argument:
        parser.argue(b"}")
    parser.end_call()
    return Outcome.DONE


def _program(parser: OutputParser, tools: Tools) -> Program:
    while (found := (yield _CONTENT)) >= 0:
        parser.mark((_OPEN, _CLOSE)[found])
        tag = yield from _tag()
        if tag is None and parser.ended:
            yield DROP_REST
            return
        element, _, rest = (tag or "").strip().partition(" ")
        name = _attributes(rest).get("tool", "") if element == "call" and not found else ""
        if name:
            outcome = yield from _call(parser, tools, name)
            if outcome is Outcome.CUT:
                yield DROP_REST
        elif element in _TRANSPARENT:
            parser.accept()
        else:
            parser.reject()


def _call_id(name: str, number: int) -> str:
    return f"{name}:{number}"


_SIGNATURES = (Signature((_OPEN.decode(), _CLOSE.decode(), _SEPARATOR.decode())),)

FAMILIES = (
    Family(
        names=("kimi_k3",),
        calls=Format(
            _program, ("<|open|>", "<|close|>", "<|sep|>"), call_id=_call_id, every_answer=True
        ),
        call_signatures=_SIGNATURES,
        tag=CallTag(
            before='<|open|>call tool="',
            numbered='" index="',
            after='"<|sep|>',
            end="<|close|>call<|sep|>",
            trigger="<|open|>tools<|sep|>",
            section=("<|open|>tools<|sep|>", "", "<|close|>tools<|sep|>"),
            style="kimi_k3_xml",
            excludes=("<|open|>call",),
            leads_in=True,
            always=True,
        ),
        reasoning=ReasoningFormat(
            ("<|open|>think<|sep|>",),
            ("<|close|>think<|sep|>",),
            (
                "<|open|>response<|sep|>",
                "<|open|>message<|sep|>",
                "<|open|>tools<|sep|>",
                "<|open|>call ",
            ),
            answers=("<|close|>response<|sep|>", "<|close|>message<|sep|>"),
        ),
        reasoning_signatures=_SIGNATURES,
    ),
)
