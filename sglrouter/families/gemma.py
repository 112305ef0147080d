"""Gemma 4: <|tool_call>call:f{city:<|"|>Paris<|"|>,days:3}<tool_call|>.

The arguments are like JSON, but keys are bare, and strings stand between markers of
their own, without escapes.
"""

from __future__ import annotations

from sglrouter._fast.operations import Read, Value
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import Calls, mend
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.program import PEEK, Outcome, Tools, broken_or_cut, literal
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.strays import drop_strays

_CLOSER = b"<tool_call|>"
_QUOTE = b'<|"|>'
_CLOSE = literal(_CLOSER)
_CALL = literal(b"call:")
_NAME = Read((b"{", b"<", b"}", b"\n"), limit=256, peek=True)
_ARGUMENTS = Value(quote=_QUOTE)


def _call(parser: OutputParser, _tools: Tools | None) -> Calls:
    """Reads a call between its markers; returns how that went and whether it has begun."""
    if (yield _CALL) >= 0:
        word = yield _NAME
        name = word[0].decode().strip() if word is not None else ""
        # What stands without arguments is a call all the same.
        bare = bool(name) and (yield _CLOSE) >= 0
        if name and (bare or (yield PEEK) == b"{"):
            parser.begin_call(name)
            whole = bare or (yield _ARGUMENTS)
            if whole is None:
                return Outcome.CUT, True
            if not whole:
                yield from mend(parser)
            parser.end_call()
            yield from drop_strays(parser)
            return Outcome.DONE if whole else Outcome.BROKEN, True
    return broken_or_cut(parser), False


FAMILIES = (
    Family(
        names=("gemma4",),
        calls=marked((b"<|tool_call>",), (_CLOSER,), body=_call).showing(_QUOTE),
        call_signatures=(Signature(("<|tool_call>",)), Signature(("<|channel>",))),
        reasoning=ReasoningFormat(("<|channel>thought\n", "<|channel>thought"), ("<channel|>",)),
        reasoning_signatures=(Signature(("<|channel>",)),),
    ),
)
