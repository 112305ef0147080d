"""Llama: calls as JSON since Llama 3, as Python since Llama 4."""

from __future__ import annotations

from sglrouter._fast.operations import CONTENT, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import Calls, call_object
from sglrouter.families.formats.marked_calls import Bare, marked
from sglrouter.families.formats.program import (
    DROP_REST,
    PEEK,
    Format,
    Outcome,
    Program,
    Tools,
    literal,
)
from sglrouter.families.formats.pythonic_calls import arguments, call, calls, more
from sglrouter.families.formats.strays import drop_strays
from sglrouter.families.formats.structural_tags import json_tag

_PYTHON_START = b"<|python_start|>"
_PYTHON_END = b"<|python_end|>"
_START_AGAIN = literal(_PYTHON_START)
_END = literal(_PYTHON_END)
_OPEN_BRACKET = literal(b"[")


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
            outcome, begun = yield from more(parser, known_object, bracketed=bracketed)
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
                outcome, begun = yield from more(parser, call, bracketed=True)
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


FAMILIES = (
    Family(
        names=("pythonic",),
        calls=Format(_llama4, (_PYTHON_START.decode(), _PYTHON_END.decode())),
        call_signatures=(
            Signature(("<|python_start|>",), rank=8),
            Signature(("<|header_start|>", "tools"), rank=8),
            Signature(tokens=("<|python_start|>",), rank=1),
        ),
    ),
    Family(
        names=("llama3", "llama"),
        calls=marked((b"<|python_tag|>",), bare=Bare.AT_START, ends=(b"<|eom_id|>", b"<|eot_id|>")),
        call_signatures=(
            Signature(
                ("<|start_header_id|>", "tools", '"parameters"'),
                without=("<function=",),
                rank=8,
            ),
        ),
        # Further calls come after a semicolon, as free text: a section must have an end.
        tag=json_tag("<|python_tag|>", "", "<|python_tag|>"),
    ),
)
