"""GLM: calls as a name and pairs of tags."""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.paired_calls import GLM_CALLS
from sglrouter.families.formats.reasoning import THINK_UNTIL_CALL
from sglrouter.families.formats.structural_tags import CallTag

FAMILIES = (
    Family(
        names=("glm47", "glm47_moe"),
        calls=GLM_CALLS,
        call_signatures=(
            Signature(("<arg_key>", "[gMASK]"), code=("{{-'<tool_call>'+tc.name",), rank=1),
        ),
        tag=CallTag(
            before="<tool_call>",
            after="",
            end="</tool_call>",
            trigger="<tool_call>",
            style="glm_xml",
            excludes=(
                "</tool_call>",
                "<arg_key>",
                "</arg_key>",
                "<arg_value>",
                "</arg_value>",
            ),
        ),
    ),
    Family(
        names=("glm45", "glm", "glm45_moe"),
        calls=GLM_CALLS,
        call_signatures=(
            Signature(("<arg_key>", "[gMASK]"), rank=1),
            Signature(("<arg_key>", "<arg_value>"), rank=2),
            Signature(tokens=("<arg_key>", "<arg_value>")),
        ),
        reasoning=THINK_UNTIL_CALL,
        reasoning_names=("glm45",),
        reasoning_signatures=(Signature(("think>", "<arg_key>"), rank=3),),
    ),
)
