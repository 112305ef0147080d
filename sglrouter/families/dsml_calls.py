"""Calls in DeepSeek's markup, DSML, and in GigaChat's, which is built like it.

    <｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="true">

A parameter says itself whether it is a string; one that does not say it is JSON. Instead
of parameters there may be one JSON object. The generations differ in the name of the
block, and V4.1 in a blank before every name.
"""

from __future__ import annotations

from sglrouter.families.program import Format
from sglrouter.families.xml_calls import invoke_tags

_END_OF_SENTENCE = "<｜end▁of▁sentence｜>"


def _markup(name: str, *blocks: str, blank: str = "", noise: tuple[str, ...] = ()) -> Format:
    prefix = f"｜{name}｜{blank}"
    return invoke_tags(
        tuple(f"<{prefix}{block}>".encode() for block in blocks),
        tuple(f"</{prefix}{block}>".encode() for block in blocks),
        prefix=prefix.encode(),
        unwrapped=True,
        noise=tuple(text.encode() for text in noise),
    ).format()


DEEPSEEK = _markup("DSML", "function_calls", "tool_calls", noise=(_END_OF_SENTENCE,))
DEEPSEEK_V41 = _markup("DSML", "calls", blank=" ", noise=(_END_OF_SENTENCE,))
GIGACHAT = _markup("GCML", "tool_calls", noise=("<|message_sep|>", "</s>"))

FORMATS: dict[str, Format] = {
    "deepseek32": DEEPSEEK,
    "deepseekv32": DEEPSEEK,
    "deepseek_v4": DEEPSEEK,
    "deepseekv4": DEEPSEEK,
    "deepseekv41": DEEPSEEK_V41,
    "gigachat35": GIGACHAT,
}
