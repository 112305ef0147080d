"""What is no family's own: calls as bare JSON, thoughts in <think>."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import Bare, marked
from sglrouter.families.formats.reasoning import THINK

FAMILIES = (
    Family(names=("json",), calls=marked(bare=Bare.ANYWHERE)),
    Family(
        names=("base",),
        reasoning=THINK,
        reasoning_signatures=(
            Signature(("</think>",), rank=5),
            Signature(tokens=("<think>", "</think>"), rank=2),
        ),
    ),
)
