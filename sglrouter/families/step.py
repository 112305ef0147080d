"""Step 3: calls in invoke tags, in a section."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.reasoning import THINK_ALWAYS
from sglrouter.families.formats.tagged_calls import invoke_tags

_CALLS = invoke_tags(
    (
        "<｜tool_calls_begin｜>".encode(),
        "<｜tool_call_begin｜>function<｜tool_sep｜>".encode(),
    ),
    ("<｜tool_calls_end｜>".encode(),),
    prefix=b"steptml:",
    noise=("<｜tool_call_end｜>".encode(),),
)

FAMILIES = (
    Family(
        names=("step3",),
        calls=_CALLS.format(),
        call_signatures=(Signature(("<steptml:",)), Signature(("<｜tool_calls_begin｜>",))),
        reasoning=THINK_ALWAYS,
        reasoning_signatures=(Signature(("think>", "<steptml:"), rank=2),),
    ),
)
