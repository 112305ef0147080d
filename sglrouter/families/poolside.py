"""Poolside's models: calls as GLM writes them."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import GLM_CALLS
from sglrouter.families.formats.reasoning import THINK

FAMILIES = (
    Family(
        names=("poolside_v1",),
        calls=GLM_CALLS,
        call_signatures=(
            Signature(("<arg_key>", "unescaped XML-like object"), rank=1),
            Signature(("<arg_key>", "All available function signatures are listed below"), rank=1),
        ),
        reasoning=THINK,
    ),
)
