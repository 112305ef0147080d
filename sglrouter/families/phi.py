"""Phi-4-mini: an array of calls as JSON."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked

FAMILIES = (
    Family(
        names=("phi4_mini",),
        calls=marked((b"functools[", b"<|tool_call|>"), (b"<|/tool_call|>",)),
        call_signatures=(
            Signature(("functools",), rank=4),
            Signature(("<|tool_call|>", "<|/tool_call|>"), rank=4),
        ),
    ),
)
