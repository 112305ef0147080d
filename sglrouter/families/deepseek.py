"""DeepSeek: sections of calls up to V3.1, and DSML, its markup, since V3.2.

A call in a section is NAME, a separator, JSON; in V3 "function", a separator, NAME, a fence
with JSON in it.

    <｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="key" string="true">

The generations of DSML differ in the name of the block, and V4.1 in a blank before every name.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from sglrouter._fast.operations import Match, Operation, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.program import PEEK, Tools
from sglrouter.families.formats.reasoning import THINK, THINK_ALWAYS
from sglrouter.families.formats.section_calls import one_word, section
from sglrouter.families.formats.structural_tags import CallTag
from sglrouter.families.formats.tagged_calls import markup

_CALL, _CALL_END = (
    "<｜tool▁call▁begin｜>".encode(),
    "<｜tool▁call▁end｜>".encode(),
)
_SEPARATOR = "<｜tool▁sep｜>".encode()
_HEAD = Read((_SEPARATOR, _CALL_END, _CALL), peek=True)
_NAME = Read((b"\n", b"`", b"{", _CALL_END, _SEPARATOR, _CALL), peek=True)
_SKIP_SEPARATOR = Match((_SEPARATOR,))


def _head(_parser: OutputParser, tools: Tools) -> Generator[Operation, Any, str]:
    read = yield _HEAD
    if read is None:
        return ""
    name, stop = read[0].decode().strip(), read[1]
    if stop == 1:
        # No separator and no arguments: a call only if it is certainly one.
        return name if name in tools else ""
    if stop == 2:
        return ""
    yield _SKIP_SEPARATOR
    if name == "function" and (yield PEEK) not in (b"{", b"`"):
        read = yield _NAME
        if read is None or read[1] > 3:
            return ""
        name = read[0].decode().strip()
    return one_word(name)


_END_OF_SENTENCE = "<｜end▁of▁sentence｜>"
_SECTION, _SECTION_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"

_SECTIONS = section(
    begins=(_SECTION.encode(),),
    ends=(_SECTION_END.encode(),),
    call_begin=_CALL,
    call_end=_CALL_END,
    eos=_END_OF_SENTENCE.encode(),
    head=_head,
    fences=(b"```json", b"```"),
).showing(_SEPARATOR)
_DSML = markup("DSML", "function_calls", "tool_calls", noise=(_END_OF_SENTENCE,))


def _dsml_tag(calls: str, invoke: str, style: str) -> CallTag:
    return CallTag(
        before=f'<｜DSML｜{invoke} name="',
        after='">\n',
        end=f"</｜DSML｜{invoke}>\n",
        trigger=f"<｜DSML｜{calls}>",
        section=(f"<｜DSML｜{calls}>\n", "", f"</｜DSML｜{calls}>"),
        lead="\n\n",
        style=style,
    )


FAMILIES = (
    Family(
        names=("deepseekv41",),
        calls=markup("DSML", "calls", blank=" ", noise=(_END_OF_SENTENCE,)),
        call_signatures=(Signature(("｜DSML｜ ",)),),
        tag=_dsml_tag(" calls", " invoke", "deepseek_v4_1_xml"),
        reasoning=THINK,
        reasoning_names=("deepseek-v41",),
    ),
    Family(
        names=("deepseekv4", "deepseek_v4"),
        calls=_DSML,
        call_signatures=(Signature(("｜DSML｜tool_calls",)),),
        tag=_dsml_tag("tool_calls", "invoke", "deepseek_xml"),
        reasoning=THINK,
        reasoning_names=("deepseek-v4",),
    ),
    Family(
        names=("deepseekv32", "deepseek32"),
        calls=_DSML,
        call_signatures=(Signature(("｜DSML｜",)),),
        tag=_dsml_tag("function_calls", "invoke", "deepseek_xml"),
    ),
    Family(
        names=("deepseekv3", "deepseek"),
        calls=_SECTIONS,
        call_signatures=(
            Signature(("<｜tool▁sep｜>", "```json")),
            Signature(tokens=("<｜tool▁sep｜>",), rank=1),
        ),
        tag=CallTag(
            before="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            after="\n```json\n",
            end="\n```<｜tool▁call▁end｜>",
            trigger=_SECTION,
            section=(_SECTION, "\n", _SECTION_END),
        ),
        reasoning=THINK_ALWAYS,
        reasoning_names=("deepseek-r1", "deepseek_r1"),
        reasoning_signatures=(Signature(("<｜Assistant｜><think>",), rank=3),),
    ),
    Family(
        names=("deepseekv31", "deepseek31"),
        calls=_SECTIONS,
        call_signatures=(
            Signature(("<｜tool▁sep｜>",)),
            Signature(tokens=("<｜tool▁sep｜>", "<think>")),
        ),
        tag=CallTag(
            before="<｜tool▁call▁begin｜>",
            after="<｜tool▁sep｜>",
            end="<｜tool▁call▁end｜>",
            trigger=_SECTION,
            section=(_SECTION, "", _SECTION_END),
        ),
        reasoning=THINK,
        reasoning_names=("deepseek-v3", "deepseek_v31"),
        reasoning_signatures=(
            Signature(("think>", "｜DSML｜"), rank=2),
            Signature(("</think>", "<｜tool▁sep｜>"), code=("thinking",), rank=2),
        ),
    ),
)
