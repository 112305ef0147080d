"""Hunyuan: calls as a name and pairs of tags, with a separator in between."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import PairedCalls
from sglrouter.families.formats.reasoning import think

_CALLS = PairedCalls(block="tool_calls", separator="tool_sep", suffixes=("", ":opensource"))

FAMILIES = (
    Family(
        names=("hunyuan",),
        calls=_CALLS.format(),
        call_signatures=(Signature(("<tool_calls", "<tool_sep")),),
        by_training=True,
        reasoning=think("<tool_calls>"),
        reasoning_signatures=(Signature(("think>", "<tool_calls", "<tool_sep"), rank=2),),
    ),
)
