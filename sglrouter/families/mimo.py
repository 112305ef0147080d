"""MiMo: calls as function tags."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.reasoning import THINK
from sglrouter.families.formats.tagged_calls import function_tags

FAMILIES = (
    Family(
        names=("mimo",),
        calls=function_tags(b"<tool_call>", b"</tool_call>"),
        call_signatures=(
            Signature(
                ("<function=", "<parameter="),
                code=("setenable_thinking=false", "enable_thinking|default(false"),
                rank=2,
            ),
        ),
        reasoning=THINK,
    ),
)
