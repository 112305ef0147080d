"""Calls with their names in front of the arguments: DeepSeek V3 and V3.1, Kimi K2.

A section holds calls; each is a head, a separator, and the arguments as JSON. The markers
are tokens of their own, which mean nothing else, so that one which is missing or out of
place does no harm: a call may stand outside a section, and the next one ends it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from sglrouter._fast.operations import CONTENT, Match, Operation, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.json_calls import call, drop_strays
from sglrouter.families.marked_calls import DROP_REST
from sglrouter.families.program import PEEK, Format, Outcome, Program, Tools, literal

# Reads the head of a call, after the marker of its beginning, and the separator. Gives the
# function's name; "" if this is no head, or has been cut off.
Head = Callable[[OutputParser, Tools], Generator[Operation, Any, str]]

_CALL_BEGIN = 0


def section(
    *,
    begins: tuple[bytes, ...],
    ends: tuple[bytes, ...],
    call_begin: bytes,
    call_end: bytes,
    eos: bytes,
    head: Head,
    fences: tuple[bytes, ...] = (),
    call_id: Callable[[str, int], str] | None = None,
) -> Format:
    """A format of sections of calls.

    Args:
        begins: The marker before a section, in every spelling.
        ends: The marker after it.
        call_begin: The marker before a call.
        call_end: The marker after it.
        eos: The end of the output, in case it shows.
        head: Reads what stands before the arguments.
        fences: What may be around the arguments, the longer first.
        call_id: As Format has it.
    """
    markers = (call_begin, *ends, eos, *begins, call_end)
    over = frozenset(range(_CALL_BEGIN + 1, len(ends) + 2))
    content = Pass(CONTENT, markers)
    following = Match((*markers, *fences), skip_space=True)
    fence = literal(*fences) if fences else None

    def program(parser: OutputParser, tools: Tools) -> Program:
        in_section = False
        found = -1
        while True:
            if in_section:
                yield from drop_strays(parser)
                parser.mark()
                found = yield following
                if found < 0 and parser.ended:
                    break
                if found < 0:
                    parser.reject()
            if not in_section or found < 0:
                found = yield content
                if found < 0:
                    return
            if found != _CALL_BEGIN:
                parser.accept()
                in_section = found not in over
                continue
            in_section = True
            parser.mark(call_begin)
            name = yield from head(parser, tools)
            if not name and parser.ended:
                break
            if not name:
                parser.reject()
                continue
            if fence is not None:
                yield fence
            if (yield from call(parser, name)) is Outcome.CUT:
                break
        # All that is left is less than a marker.
        yield DROP_REST

    return Format(program, tuple(text.decode() for text in markers if text != eos), call_id)


# DeepSeek: NAME, separator, JSON; in V3 "function", separator, NAME, a fence with JSON in it.

_DEEPSEEK_CALL, _DEEPSEEK_CALL_END = (
    "<｜tool▁call▁begin｜>".encode(),
    "<｜tool▁call▁end｜>".encode(),
)
_DEEPSEEK_SEPARATOR = "<｜tool▁sep｜>".encode()
_DEEPSEEK_HEAD = Read((_DEEPSEEK_SEPARATOR, _DEEPSEEK_CALL_END, _DEEPSEEK_CALL), peek=True)
_DEEPSEEK_NAME = Read(
    (b"\n", b"`", b"{", _DEEPSEEK_CALL_END, _DEEPSEEK_SEPARATOR, _DEEPSEEK_CALL), peek=True
)
_SKIP_DEEPSEEK_SEPARATOR = Match((_DEEPSEEK_SEPARATOR,))


def _deepseek_head(_parser: OutputParser, tools: Tools) -> Generator[Operation, Any, str]:
    read = yield _DEEPSEEK_HEAD
    if read is None:
        return ""
    name, stop = read[0].decode().strip(), read[1]
    if stop == 1:
        # No separator and no arguments: a call only if it is certainly one.
        return name if name in tools else ""
    if stop == 2:
        return ""
    yield _SKIP_DEEPSEEK_SEPARATOR
    if name == "function" and (yield PEEK) not in (b"{", b"`"):
        read = yield _DEEPSEEK_NAME
        if read is None or read[1] > 3:
            return ""
        name = read[0].decode().strip()
    return _one_word(name)


DEEPSEEK = section(
    begins=("<｜tool▁calls▁begin｜>".encode(),),
    ends=("<｜tool▁calls▁end｜>".encode(),),
    call_begin=_DEEPSEEK_CALL,
    call_end=_DEEPSEEK_CALL_END,
    eos="<｜end▁of▁sentence｜>".encode(),
    head=_deepseek_head,
    fences=(b"```json", b"```"),
).showing(_DEEPSEEK_SEPARATOR)

# Kimi K2: functions.NAME:NUMBER, separator, JSON.

_KIMI_CALL, _KIMI_CALL_END = b"<|tool_call_begin|>", b"<|tool_call_end|>"
_KIMI_SEPARATOR = b"<|tool_call_argument_begin|>"
_KIMI_BEGINS = (b"<|tool_calls_section_begin|>", b"<|tool_call_section_begin|>")
_KIMI_ENDS = (b"<|tool_calls_section_end|>", b"<|tool_call_section_end|>")
_KIMI_HEAD = Read((_KIMI_SEPARATOR, _KIMI_CALL_END, *_KIMI_ENDS, _KIMI_CALL), peek=True)
# How ids begin that other servers make up; or they are hexadecimal.
_ID_PREFIXES = ("call_", "call-", "tool_call_", "toolcall_", "toolu_", "chatcmpl-")
_SHORTEST_HEX = 16
_SKIP_KIMI_SEPARATOR = Match((_KIMI_SEPARATOR,))
_KIMI_ARGUMENTS = Read((_KIMI_CALL_END, *_KIMI_ENDS, _KIMI_CALL), limit=1024 * 1024, peek=True)


def _kimi_head(parser: OutputParser, tools: Tools) -> Generator[Operation, Any, str]:
    read = yield _KIMI_HEAD
    if read is None or read[1] > 1:
        return ""
    # The separator may be missing.
    head, brace, arguments = read[0].partition(b"{")
    name = _kimi_name(head.decode().strip(), tools)
    if brace:
        parser.push(brace + arguments)
    elif read[1] == 1:
        return name if name in tools else ""
    else:
        yield _SKIP_KIMI_SEPARATOR
    if name:
        return _one_word(name)
    if len(tools.names) == 1:
        return tools.names[0]
    read = yield _KIMI_ARGUMENTS
    if read is None:
        return ""
    parser.push(read[0])
    return _named_by(read[0], tools)


def _kimi_name(head: str, tools: Tools) -> str:
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
    return len(digits) >= _SHORTEST_HEX and all(each in string.hexdigits for each in digits)


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


def _one_word(name: str) -> str:
    return name if len(name.split()) == 1 else ""


def _kimi_id(name: str, number: int) -> str:
    return f"functions.{name}:{number}"


KIMI_K2 = section(
    begins=_KIMI_BEGINS,
    ends=_KIMI_ENDS,
    call_begin=_KIMI_CALL,
    call_end=_KIMI_CALL_END,
    eos=b"<|im_end|>",
    head=_kimi_head,
    fences=(b"```json", b"```"),
    call_id=_kimi_id,
).showing(_KIMI_SEPARATOR)

FORMATS = {
    "deepseek": DEEPSEEK,
    "deepseekv3": DEEPSEEK,
    "deepseek31": DEEPSEEK,
    "deepseekv31": DEEPSEEK,
    "kimi_k2": KIMI_K2,
    "kimik2": KIMI_K2,
}
