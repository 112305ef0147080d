"""Mistral: an array of calls as JSON, or a name in front of the arguments.

Since the eleventh tokenizer a call is NAME[CALL_ID]ID[ARGS]{...}, with or without the two
markers, and [TOOL_CALLS] comes once for each call.
"""

from __future__ import annotations

import secrets
import string

from sglrouter._fast.operations import Match, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import Calls, call, calls
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.program import PEEK, Outcome, Tools, broken_or_cut
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.strays import drop_strays
from sglrouter.families.formats.structural_tags import json_tag

_TOOL_CALLS, _CALL_ID, _ARGS = b"[TOOL_CALLS]", b"[CALL_ID]", b"[ARGS]"
_NAME = Read((_ARGS, b"{", _CALL_ID, _TOOL_CALLS), limit=256, peek=True)
_ID = Read((_ARGS, b"{", _TOOL_CALLS), limit=256, peek=True)
_AT_ID, _AT_NEXT_CALL = 2, 3
_SKIP_ID, _SKIP_ARGS = Match((_CALL_ID,)), Match((_ARGS,))


def _calls(parser: OutputParser, tools: Tools | None) -> Calls:
    if (yield PEEK) in (b"[", b"{"):
        return (yield from calls(parser, tools))
    header = yield _NAME
    name = header[0].decode().strip() if header is not None else ""
    if not name or header[1] == _AT_NEXT_CALL or len(name.split()) > 1:
        return broken_or_cut(parser), False
    if header[1] == _AT_ID:
        yield _SKIP_ID
        if (yield _ID) is None:
            return broken_or_cut(parser), False
    yield _SKIP_ARGS
    outcome = yield from call(parser, name)
    if outcome is Outcome.DONE:
        yield from drop_strays(parser)
    return outcome, True


_ALPHANUMERIC = string.ascii_letters + string.digits


def _new_id(_name: str, _number: int) -> str:
    """Nine letters and digits: Mistral's templates refuse all else in the history."""
    return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(9))


FAMILIES = (
    Family(
        names=("mistral",),
        calls=marked(
            (_TOOL_CALLS,), (b"[/TOOL_CALLS]",), body=_calls, ends=(b"</s>",), call_id=_new_id
        ).showing(_CALL_ID, _ARGS),
        call_signatures=(
            Signature(("[TOOL_CALLS]",), rank=7),
            Signature(tokens=("[TOOL_CALLS]",), rank=2),
        ),
        tag=json_tag("", "", "[TOOL_CALLS]", section=("[TOOL_CALLS] [", ", ", "]")),
        reasoning=ReasoningFormat(("[THINK]",), ("[/THINK]",)),
        reasoning_signatures=(Signature(("[THINK]",)), Signature(tokens=("[THINK]",))),
    ),
)
