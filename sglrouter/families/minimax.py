"""MiniMax up to M2: calls in invoke tags."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.reasoning import THINK_ALWAYS, ReasoningFormat
from sglrouter.families.formats.tagged_calls import invoke_tags

FAMILIES = (
    Family(
        names=("minimax-m2", "minimax_m2"),
        # The template writes values as they are, so entities in them are the value's own.
        calls=invoke_tags((b"<minimax:tool_call>",), (b"</minimax:tool_call>",)).format(),
        call_signatures=(Signature(("<minimax:tool_call>",), rank=1),),
        reasoning=THINK_ALWAYS,
        reasoning_names=("minimax",),
        reasoning_signatures=(Signature(("think>", "<minimax:tool_call>"), rank=2),),
    ),
    Family(names=("minimax-append-think",), reasoning=ReasoningFormat((), (), prefix="<think>")),
)
