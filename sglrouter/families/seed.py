"""Seed-OSS: calls as function tags."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.tagged_calls import function_tags

FAMILIES = (
    Family(
        names=("seed_oss",),
        calls=function_tags(b"<seed:tool_call>", b"</seed:tool_call>"),
        call_signatures=(Signature(("<seed:tool_call>",)),),
        reasoning=ReasoningFormat(("<seed:think>",), ("</seed:think>",), ("<seed:tool_call>",)),
        reasoning_signatures=(Signature(("<seed:think>",)),),
    ),
)
