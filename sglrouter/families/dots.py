"""dots: calls in invoke tags."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.reasoning import THINK_UNTIL_CALL
from sglrouter.families.formats.tagged_calls import invoke_tags

FAMILIES = (
    Family(
        names=("dots",),
        calls=invoke_tags((b"<dots_function_call>",), (b"</dots_function_call>",)).format(),
        call_signatures=(Signature(("<dots_function_call>",)),),
        reasoning=THINK_UNTIL_CALL,
    ),
)
