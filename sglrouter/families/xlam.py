"""xLAM: calls as JSON, bare, in a fence, or after another family's marker."""

from __future__ import annotations

from sglrouter._fast.operations import REASONING, Match, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import Bare, marked
from sglrouter.families.formats.program import Format, Program, Tools

_THINK, _THINK_END = b"<think>", b"</think>"
_CALLS = marked((b"[TOOL_CALLS]", b"<tool_call>"), (b"</tool_call>",), bare=Bare.ANYWHERE)
_THOUGHTS = Match((_THINK,), skip_space=True)
_TO_THOUGHTS_END = Pass(REASONING, (_THINK_END,))


def _xlam(parser: OutputParser, tools: Tools) -> Program:
    parser.mark()
    if (yield _THOUGHTS) >= 0:
        parser.accept()
        yield _TO_THOUGHTS_END
    else:
        parser.reject()
    yield from _CALLS.program(parser, tools)


_MARKERS = (*_CALLS.markers, _THINK.decode(), _THINK_END.decode())

FAMILIES = (
    Family(
        names=("xlam",),
        calls=Format(_xlam, _MARKERS, reasons=True),
        call_signatures=(Signature(('[{"name": "tool_call_name"',), rank=8),),
    ),
)
