"""Jamba: an array of calls as JSON."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked

FAMILIES = (
    Family(
        names=("jamba",),
        calls=marked((b"<tool_calls>",), (b"</tool_calls>",)),
        call_signatures=(Signature(("<tool_calls>",), rank=5),),
    ),
)
