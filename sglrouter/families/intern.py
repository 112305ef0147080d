"""InternLM and Intern-S1: calls as JSON to a plugin."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.reasoning import THINK_UNTIL_CALL
from sglrouter.families.formats.structural_tags import CallTag

_CALLS = marked(
    (b"<|action_start|> <|plugin|>", b"<|action_start|><|plugin|>"), (b"<|action_end|>",)
)

FAMILIES = (
    Family(
        names=("interns1",),
        calls=_CALLS,
        call_signatures=(Signature(("<|plugin|>",)), Signature(("default_thinking_sys",))),
        tag=CallTag(
            before='<|action_start|> <|plugin|>\n{"name": "',
            after='", "parameters": ',
            end="}<|action_end|>",
            trigger="<|action_start|> <|plugin|>",
            json_name=True,
        ),
        reasoning=THINK_UNTIL_CALL,
    ),
    # InternLM's, which forces calls as an array.
    Family(names=("internlm",), calls=_CALLS),
)
