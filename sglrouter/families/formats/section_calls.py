"""Calls with their names in front of the arguments, as DeepSeek and Kimi write them.

A section holds calls; each is a head, a separator, and the arguments as JSON. The markers
are tokens of their own, which mean nothing else, so that one which is missing or out of
place does no harm: a call may stand outside a section, and the next one ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from sglrouter._fast.operations import CONTENT, Match, Operation, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.json_calls import call
from sglrouter.families.formats.program import DROP_REST, Format, Outcome, Program, Tools, literal
from sglrouter.families.formats.strays import drop_strays

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


def one_word(name: str) -> str:
    """The name, if it is one word; else it is none."""
    return name if len(name.split()) == 1 else ""
