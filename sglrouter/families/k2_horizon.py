"""K2 Horizon: calls as pairs of tags, with types, and three depths of thought."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import PairedCalls
from sglrouter.families.formats.reasoning import ReasoningFormat

FAMILIES = (
    Family(
        names=("k2_horizon",),
        calls=PairedCalls(block="tool_calls", prefix="ifm|", typed=True).format(),
        call_signatures=(Signature(("<ifm|tool_call>",)),),
        reasoning=ReasoningFormat(
            ("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"),
            ("</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"),
        ),
        reasoning_signatures=(Signature(("<ifm|think>",)),),
    ),
)
