"""LFM: calls as Python, or as JSON."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.pythonic_calls import calls

FAMILIES = (
    Family(
        names=("lfm2",),
        calls=marked((b"<|tool_call_start|>",), (b"<|tool_call_end|>",), body=calls),
        call_signatures=(
            Signature(("<|tool_call_start|>",)),
            Signature(("List of tools: ",), tokens=("<|tool_call_start|>",)),
            Signature(tokens=("<|tool_call_start|>", "<|tool_call_end|>")),
        ),
    ),
)
