"""Nemotron: an array of calls as JSON."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.reasoning import THINK_UNTIL_CALL

FAMILIES = (
    Family(
        names=("nemotron_json",),
        calls=marked((b"<TOOLCALL>",), (b"</TOOLCALL>",)),
        call_signatures=(Signature(("<TOOLCALL>",)),),
    ),
    Family(names=("nemotron_3", "nano_v3"), reasoning=THINK_UNTIL_CALL),
)
