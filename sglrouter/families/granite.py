"""Granite: calls as JSON after a marker."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.reasoning import THINK_UNTIL_CALL

FAMILIES = (
    Family(
        names=("granite_20b_fc",),
        calls=marked((b"<function_call>",), (b"</function_call>",)),
        call_signatures=(Signature(("<function_call>",), rank=4),),
    ),
    Family(
        names=("granite3",),
        calls=marked((b"<|tool_call|>", b"<tool_call>"), (b"<|/tool_call|>", b"</tool_call>")),
        call_signatures=(Signature(("<|tool_call|>",), rank=5),),
    ),
    Family(names=("granite_thinking_parser",), reasoning=THINK_UNTIL_CALL),
)
