"""Qwen: calls as JSON in <tool_call>, as Hermes has them; Qwen3-Coder's as function tags.

Others have learned from both: Trinity, Nanbeige, and Step 3.5.
"""

from __future__ import annotations

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.reasoning import THINK_ALWAYS, THINK_UNTIL_CALL, think
from sglrouter.families.formats.structural_tags import CallTag, json_tag
from sglrouter.families.formats.tagged_calls import function_tags

_OPENERS, _CLOSERS = (b"<tool_call>",), (b"</tool_call>",)
_HERMES = marked(_OPENERS, _CLOSERS)
_JSON_TAG = json_tag("<tool_call>\n", "\n</tool_call>", "<tool_call>")

# Its models write null for no value whatever the type is, and its reference parser reads
# that so. They are also known to leave out the opener, and the ends of parameters.
_CODER = function_tags(b"<tool_call>", b"</tool_call>", unwrapped=True, null_text=True)
_CODER_TAG = CallTag(
    before="<tool_call>\n<function=",
    after=">\n",
    end="\n</function>\n</tool_call>",
    trigger="<tool_call>\n<function=",
    style="qwen_xml",
)

FAMILIES = (
    Family(
        names=("hermes",),
        calls=_HERMES,
        call_signatures=(
            Signature(("<tool_call>",), rank=6),
            Signature(tokens=("<tool_call>",), rank=3),
        ),
        tag=json_tag("<tool_call>", "</tool_call>", "<tool_call>"),
    ),
    Family(names=("qwen25", "qwen"), calls=_HERMES, tag=_JSON_TAG),
    Family(
        names=("trinity",),
        # Calls are among the thoughts, too, so there is no telling these from the answer.
        calls=marked(_OPENERS, _CLOSERS, noise=(b"<think>", b"</think>")),
        tag=_JSON_TAG,
    ),
    Family(
        names=("qwen3_coder", "qwen_coder", "qwen_xml"),
        calls=_CODER,
        call_signatures=(Signature(("<function=", "<parameter="), rank=3),),
        tag=_CODER_TAG,
    ),
    Family(names=("step3p5",), calls=_CODER, tag=_CODER_TAG, reasoning=THINK_ALWAYS),
    Family(names=("nanbeige",), calls=_CODER, tag=_CODER_TAG, reasoning=THINK_UNTIL_CALL),
    Family(
        names=("qwen3",),
        reasoning=THINK_UNTIL_CALL,
        reasoning_signatures=(
            Signature(("<think>", "<tool_call>"), rank=4),
            Signature(tokens=("<think>", "<tool_call>"), rank=1),
        ),
    ),
    Family(names=("qwen3-thinking", "qwen3_thinking"), reasoning=think("<tool_call>", always=True)),
)
