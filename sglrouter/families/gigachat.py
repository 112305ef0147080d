"""GigaChat: calls as JSON after a role, and since 3.5 in GCML, its markup."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.reasoning import THINK_ALWAYS
from sglrouter.families.formats.tagged_calls import markup

FAMILIES = (
    Family(
        names=("gigachat35",),
        calls=markup("GCML", "tool_calls", noise=("<|message_sep|>", "</s>")),
        call_signatures=(Signature(("｜GCML｜",)),),
        reasoning=THINK_ALWAYS,
        reasoning_signatures=(Signature(("think>", "｜GCML｜"), rank=2),),
    ),
    Family(
        names=("gigachat3",),
        calls=marked(
            (b"function call<|role_sep|>", b"<|function_call|>"),
            ends=(b"<|message_sep|>", b"</s>"),
        ),
        call_signatures=(
            Signature(("<|function_call|>",)),
            Signature(("<|role_sep|>", "function call")),
            Signature(("'function call'",), tokens=("<|role_sep|>",)),
        ),
    ),
)
