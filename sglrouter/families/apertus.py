"""Apertus: an array of objects whose members are calls, [{name: arguments}]."""

from __future__ import annotations

from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import Calls, calls, keyed_object
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.program import Tools
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.structural_tags import CallTag


def _keyed_calls(parser: OutputParser, tools: Tools | None) -> Calls:
    return calls(parser, tools, read=keyed_object)


_CALLS = marked((b"<|tools_prefix|>",), (b"<|tools_suffix|>",), body=_keyed_calls)

FAMILIES = (
    Family(
        names=("apertus2509",),
        calls=_CALLS,
        call_signatures=(
            Signature(("<|tools_prefix|>",)),
            Signature(tokens=("<|tools_prefix|>",)),
        ),
        tag=CallTag(
            before='{"',
            after='": ',
            end="}",
            trigger="<|tools_prefix|>",
            section=("<|tools_prefix|>[", ", ", "]<|tools_suffix|>"),
            json_name=True,
        ),
        reasoning=ReasoningFormat(("<|inner_prefix|>",), ("<|inner_suffix|>",)),
        reasoning_signatures=(
            Signature(("<|inner_prefix|>",)),
            Signature(tokens=("<|inner_prefix|>",)),
        ),
    ),
    # The gateway's name, which forces calls as an array.
    Family(names=("apertus",), calls=_CALLS),
)
