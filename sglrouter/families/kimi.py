"""Kimi up to K2.5: sections of calls that are named by their ids.

A call is functions.NAME:NUMBER, a separator, JSON. Models that have seen the ids of other
servers imitate them: then the request's tools tell which function is meant.
"""

from __future__ import annotations

import string
from collections.abc import Generator
from typing import Any

import msgspec

from sglrouter._fast.operations import Match, Operation, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.program import Tools
from sglrouter.families.formats.reasoning import ReasoningFormat, think
from sglrouter.families.formats.section_calls import one_word, section
from sglrouter.families.formats.structural_tags import CallTag

_CALL, _CALL_END = b"<|tool_call_begin|>", b"<|tool_call_end|>"
_SEPARATOR = b"<|tool_call_argument_begin|>"
_BEGINS = (b"<|tool_calls_section_begin|>", b"<|tool_call_section_begin|>")
_ENDS = (b"<|tool_calls_section_end|>", b"<|tool_call_section_end|>")
_HEAD = Read((_SEPARATOR, _CALL_END, *_ENDS, _CALL), peek=True)
# How ids begin that other servers make up; or they are hexadecimal.
_ID_PREFIXES = ("call_", "call-", "tool_call_", "toolcall_", "toolu_", "chatcmpl-")
_SHORTEST_HEX = 16
_SKIP_SEPARATOR = Match((_SEPARATOR,))
_ARGUMENTS = Read((_CALL_END, *_ENDS, _CALL), limit=1024 * 1024, peek=True)


def _head(parser: OutputParser, tools: Tools) -> Generator[Operation, Any, str]:
    read = yield _HEAD
    if read is None or read[1] > 1:
        return ""
    # The separator may be missing.
    head, brace, arguments = read[0].partition(b"{")
    name = _name(head.decode().strip(), tools)
    if brace:
        parser.push(brace + arguments)
    elif read[1] == 1:
        return name if name in tools else ""
    else:
        yield _SKIP_SEPARATOR
    if name:
        return one_word(name)
    if len(tools.names) == 1:
        return tools.names[0]
    read = yield _ARGUMENTS
    if read is None:
        return ""
    parser.push(read[0])
    return _named_by(read[0], tools)


def _name(head: str, tools: Tools) -> str:
    """The function that a call's id names: functions.NAME:NUMBER, as it should be.

    Of an id that lacks a dot, a colon or the number, the request's tools tell which part is
    the name. Empty for an id without a name: its arguments have to tell.
    """
    name, colon, number = head.rpartition(":")
    if not colon or not number.isdecimal():
        name = head
    name = name.strip().removeprefix("functions.")
    if name in tools:
        return name
    rests = {head.removeprefix("functions").lstrip("._:-/ "), head}
    known = [
        name
        for name in tools.names
        for rest in rests
        if rest.startswith(name) and _is_counter(rest[len(name) :])
    ]
    if known:
        return max(known, key=len)
    if _is_id(head):
        return ""
    return name.rpartition(".")[2]


def _is_counter(text: str) -> bool:
    """Whether a text is a number, if anything, and what joins it to a name."""
    digits = text.lstrip("_-.:# ")
    return not digits or digits.isdecimal()


def _is_id(head: str) -> bool:
    """Whether it is an id as other servers make them, or nothing but a counter."""
    counter = head.removeprefix("functions").removeprefix("call")
    if _is_counter(counter):
        return True
    word = head.rpartition(":")[0] or head
    if word.startswith(_ID_PREFIXES):
        return True
    digits = word.replace("-", "")
    return len(digits) >= _SHORTEST_HEX and all(digit in string.hexdigits for digit in digits)


def _named_by(arguments: bytes, tools: Tools) -> str:
    """The one function whose parameters these arguments are; "" if it is not one."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return ""
    able = [
        name
        for name in tools.names
        if all(tools.schema(name, parameter) is not None for parameter in given)
        and tools.required(name) <= given.keys()
    ]
    return able[0] if len(able) == 1 else ""


def _id(name: str, number: int) -> str:
    return f"functions.{name}:{number}"


_INTERRUPTS = ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")

FAMILIES = (
    Family(
        names=("kimi_k2", "kimik2"),
        calls=section(
            begins=_BEGINS,
            ends=_ENDS,
            call_begin=_CALL,
            call_end=_CALL_END,
            eos=b"<|im_end|>",
            head=_head,
            fences=(b"```json", b"```"),
            call_id=_id,
        ).showing(_SEPARATOR),
        call_signatures=(
            Signature(("<|tool_calls_section_begin|>",), rank=1),
            Signature(tokens=("<|tool_calls_section_begin|>",)),
        ),
        tag=CallTag(
            before="<|tool_call_begin|>functions.",
            numbered=":",
            after="<|tool_call_argument_begin|>",
            end="<|tool_call_end|>",
            trigger="<|tool_calls_section_begin|>",
            section=("<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>"),
            excludes=("<|tool_call_begin|>",),
        ),
        reasoning=think(*_INTERRUPTS),
        reasoning_names=("kimi_k2", "kimi_k25"),
        reasoning_signatures=(Signature(("think>", "<|tool_calls_section_begin|>"), rank=2),),
    ),
    Family(names=("kimi_thinking",), reasoning=think(*_INTERRUPTS, always=True)),
    Family(
        names=("kimi",),
        reasoning=ReasoningFormat(("◁think▷",), ("◁/think▷",)),
        reasoning_signatures=(Signature(("◁think▷",)),),
    ),
)
