"""Inkling: an output of blocks, each of which says what it holds.

    <|message_model|>NAME<|content_invoke_tool_json|>{"name": ..., "args": {...}}<|end_message|>

The prompt has written the first <|message_model|>, so that the output may begin with a
name. Names stand in front of calls only and are in the calls, too.
"""

from __future__ import annotations

from sglrouter._fast.operations import CONTENT, REASONING, Match, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import call_object
from sglrouter.families.formats.program import DROP_REST, Format, Outcome, Program, Tools
from sglrouter.families.formats.strays import drop_strays
from sglrouter.families.formats.structural_tags import CallTag

_MODEL, _CALL, _THINKING, _END = (
    b"<|message_model|>",
    b"<|content_invoke_tool_json|>",
    b"<|content_thinking|>",
    b"<|end_message|>",
)
_MARKERS = (
    _MODEL,
    _CALL,
    _THINKING,
    _END,
    b"<|content_text|>",
    b"<|content_invoke_tool_text|>",  # its text is nobody's arguments: it stays content
    b"<|content_model_end_sampling|>",
)
_TEXT = Pass(CONTENT, _MARKERS)
_THOUGHTS = Pass(REASONING, _MARKERS)
_NEXT = Match(_MARKERS, skip_space=True)
# White space ends what could be a name.
_NAME = Read((*_MARKERS, b" ", b"\n"), limit=128, peek=True)


def _program(parser: OutputParser, _tools: Tools) -> Program:
    found = 0
    following = _TEXT
    while found >= 0:
        if _MARKERS[found] == _MODEL:
            parser.mark()
            read = yield _NAME
            if read is not None and read[1] < len(_MARKERS):
                parser.accept()
            else:
                parser.reject()
        elif _MARKERS[found] == _THINKING:
            following = _THOUGHTS
        elif _MARKERS[found] == _CALL:
            parser.mark(_CALL)
            outcome, begun = yield from call_object(parser)
            if outcome is not Outcome.CUT and begun:
                yield from drop_strays(parser)
                parser.mark()
                found = yield _NEXT
                if found >= 0:
                    parser.accept()
                    continue
            if parser.ended:
                # All that is left is less than a marker.
                yield DROP_REST
                return
            parser.reject()
        found = yield following
        following = _TEXT


FAMILIES = (
    Family(
        names=("inkling",),
        calls=Format(
            _program,
            tuple(marker.decode() for marker in _MARKERS),
            every_answer=True,
            reasons=True,
        ),
        call_signatures=(Signature((_CALL.decode(),)),),
        tag=CallTag(
            before='<|message_model|>{name}<|content_invoke_tool_json|>{"name":"',
            after='","args":',
            end="}<|end_message|>",
            trigger="<|message_model|>{name}<|content_invoke_tool_json|>",
            json_name=True,
            always=True,
        ),
        reasoning_signatures=(Signature((_THINKING.decode(),)),),
    ),
)
