"""Ling: calls as GLM writes them."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import GLM_CALLS
from sglrouter.families.formats.reasoning import THINK_UNTIL_CALL

FAMILIES = (
    Family(
        names=("ling3",),
        calls=GLM_CALLS,
        call_signatures=(Signature(("<arg_key>", "<role>ASSISTANT</role>"), rank=1),),
        reasoning=THINK_UNTIL_CALL,
    ),
)
