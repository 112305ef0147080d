"""IQuest: calls as GLM writes them, in a tag of its own."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import PairedCalls
from sglrouter.families.formats.reasoning import think

_SIGNATURES = (Signature(("<|iquest_assistant|>",)),)

FAMILIES = (
    Family(
        names=("iquest_q1",),
        calls=PairedCalls("iquest_tool_call").format(),
        call_signatures=_SIGNATURES,
        reasoning=think("<iquest_tool_call>"),
        reasoning_signatures=_SIGNATURES,
    ),
)
