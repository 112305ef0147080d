"""Cohere's Command: calls as JSON in an action."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.reasoning import ReasoningFormat

_OPENERS, _CLOSERS = ("<|START_THINKING|>",), ("<|END_THINKING|>",)

FAMILIES = (
    Family(
        names=("cohere_command4", "cohere"),
        calls=marked(
            (b"<|START_ACTION|>",),
            (b"<|END_ACTION|>",),
            noise=(
                b"<|START_RESPONSE|>",
                b"<|END_RESPONSE|>",
                b"<|START_TEXT|>",
                b"<|END_TEXT|>",
            ),
            ends=(b"<|END_OF_TURN_TOKEN|>",),
        ),
        call_signatures=(
            Signature(("<|START_ACTION|>",)),
            Signature(tokens=("<|START_ACTION|>",)),
        ),
        reasoning=ReasoningFormat(_OPENERS, _CLOSERS, always=True),
        reasoning_names=("cohere_command4",),
        reasoning_signatures=(Signature(_OPENERS),),
    ),
    Family(names=("cohere_cmd",), reasoning=ReasoningFormat(_OPENERS, _CLOSERS)),
)
