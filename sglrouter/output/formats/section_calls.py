"""Calls with their names in front of the arguments: DeepSeek V3 and V3.1, Kimi K2.

A section holds calls; each is a head, a separator, and the arguments as JSON. The markers
are tokens of their own, which mean nothing else, so that one which is missing or out of
place does no harm: a call may stand outside a section, and the next one ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from sglrouter._fast.operations import CONTENT, Match, Operation, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.output.formats.json_calls import call
from sglrouter.output.formats.marked_calls import DROP_REST
from sglrouter.output.formats.program import PEEK, Format, Outcome, Program, Tools, literal

# Reads the head of a call, after the marker of its beginning, and the separator. Gives the
# function's name; "" if this is no head, or has been cut off.
Head = Callable[[OutputParser, Tools], Generator[Operation, Any, str]]

_CALL_BEGIN, _END, _EOS = 0, 1, 2


def section(
    *,
    begin: bytes,
    end: bytes,
    call_begin: bytes,
    call_end: bytes,
    eos: bytes,
    head: Head,
    fences: tuple[bytes, ...] = (),
    call_id: Callable[[str, int], str] | None = None,
) -> Format:
    """A format of sections of calls.

    Args:
        begin: The marker before a section.
        end: The marker after it.
        call_begin: The marker before a call.
        call_end: The marker after it.
        eos: The end of the output, in case it shows.
        head: Reads what stands before the arguments.
        fences: What may be around the arguments, the longer first.
        call_id: As Format has it.
    """
    markers = (call_begin, end, eos, begin, call_end)
    content = Pass(CONTENT, markers)
    following = Match((*markers, *fences), skip_space=True)
    fence = literal(*fences) if fences else None

    def program(parser: OutputParser, tools: Tools) -> Program:
        in_section = False
        found = -1
        while True:
            if in_section:
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
                in_section = found not in (_END, _EOS)
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

    return Format(program, tuple(text.decode() for text in (*markers[:2], *markers[3:])), call_id)


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
    begin="<｜tool▁calls▁begin｜>".encode(),
    end="<｜tool▁calls▁end｜>".encode(),
    call_begin=_DEEPSEEK_CALL,
    call_end=_DEEPSEEK_CALL_END,
    eos="<｜end▁of▁sentence｜>".encode(),
    head=_deepseek_head,
    fences=(b"```json", b"```"),
).showing(_DEEPSEEK_SEPARATOR)

# Kimi K2: functions.NAME:NUMBER, separator, JSON.

_KIMI_CALL, _KIMI_CALL_END = b"<|tool_call_begin|>", b"<|tool_call_end|>"
_KIMI_SEPARATOR, _KIMI_END = b"<|tool_call_argument_begin|>", b"<|tool_calls_section_end|>"
_KIMI_HEAD = Read((_KIMI_SEPARATOR, _KIMI_CALL_END, _KIMI_END, _KIMI_CALL), peek=True)
_SKIP_KIMI_SEPARATOR = Match((_KIMI_SEPARATOR,))
_KIMI_ARGUMENTS = Read((_KIMI_CALL_END, _KIMI_END, _KIMI_CALL), limit=1024 * 1024, peek=True)


def _kimi_head(parser: OutputParser, tools: Tools) -> Generator[Operation, Any, str]:
    read = yield _KIMI_HEAD
    if read is None or read[1] > 1:
        return ""
    name = _kimi_name(read[0].decode().strip(), tools)
    if read[1] == 1:
        return name if name in tools else ""
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
    """The name in a call's id; "" if that is nothing but a counter."""
    name, colon, number = head.rpartition(":")
    if not colon or not number.isdecimal():
        name = head
    name = name.strip().removeprefix("functions.")
    if name in tools:
        return name
    counter = name.removeprefix("functions").removeprefix("call").strip("_-.: ")
    if not counter or counter.isdecimal():
        return ""
    return name.rpartition(".")[2]


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
    ]
    return able[0] if len(able) == 1 else ""


def _one_word(name: str) -> str:
    return name if len(name.split()) == 1 else ""


def _kimi_id(name: str, number: int) -> str:
    return f"functions.{name}:{number}"


KIMI_K2 = section(
    begin=b"<|tool_calls_section_begin|>",
    end=_KIMI_END,
    call_begin=_KIMI_CALL,
    call_end=_KIMI_CALL_END,
    eos=b"<|im_end|>",
    head=_kimi_head,
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
