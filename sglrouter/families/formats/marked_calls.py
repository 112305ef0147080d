"""Blocks of calls in a text: after a marker, after a code fence, or bare.

A marker says that calls follow, whatever they name. A fence or a bracket says nothing: what
follows is a call only if it is one of the request's tools, and else is content. What a block
turns out not to be is content from its first byte on, markers included.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import Any

from sglrouter._fast.operations import CONTENT, Match, Operation, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.json_calls import QUOTES, Calls, calls
from sglrouter.families.formats.program import DROP_REST, PEEK, Format, Outcome, Program, Tools

Body = Callable[[OutputParser, Tools | None], Calls]

_FENCES = (b"```json", b"```\n")
_FENCE_END = Match((b"```",), skip_space=True)
# Brackets abound in code: only what could be an object of members, or an array of objects,
# is looked at. Each start is brackets and the first byte that has to follow, which may be
# white space; _NEXT is what has to come then.
_SPACES = (b" ", b"\n", b"\r", b"\t")
_BRACES = tuple((b"{", byte) for byte in (*QUOTES, *_SPACES))
_BRACKETS = tuple((b"[", byte) for byte in _SPACES)
_STARTS = (*_BRACES, (b"[{", b""), *_BRACKETS)
_NEXT = {b"{": QUOTES, b"[{": QUOTES, b"[": (b"{",)}


class Bare(Enum):
    """Where calls may be without a marker."""

    NOWHERE = auto()
    AT_START = auto()
    ANYWHERE = auto()


class _After(Enum):
    """Where a block has left the program."""

    OUTSIDE = auto()
    INSIDE = auto()  # a call has begun, and the marker of the block's end has not been seen
    END = auto()  # of the text


def marked(
    openers: tuple[bytes, ...] = (),
    closers: tuple[bytes, ...] = (),
    *,
    body: Body = calls,
    bare: Bare = Bare.NOWHERE,
    noise: tuple[bytes, ...] = (),
    ends: tuple[bytes, ...] = (),
    call_id: Callable[[str, int], str] | None = None,
) -> Format:
    """A format of blocks of calls.

    Args:
        openers: Markers before a block. The bracket that one ends with is the block's first.
        closers: Markers after a block, which may be missing.
        body: Reads the calls of a block; with tools, only calls of these.
        bare: Where there may be calls without a marker.
        noise: Markers that mean nothing and are not shown.
        ends: What may come right after a block and is not shown, either.
        call_id: As Format has it.
    """
    soft = (*_FENCES, *map(b"".join, _STARTS)) if bare is Bare.ANYWHERE else ()
    first_noise = len(openers) + len(soft)
    first_closer = first_noise + len(noise)
    outside = Pass(CONTENT, (*openers, *soft, *noise))
    inside = Pass(CONTENT, (*openers, *soft, *noise, *closers))
    again = Match(openers, skip_space=True)
    closing = Match((*closers, *ends), skip_space=True) if closers or ends else None

    def program(parser: OutputParser, tools: Tools) -> Program:
        after = _After.OUTSIDE
        if bare is Bare.AT_START:
            parser.mark()
            after = yield from block(parser, tools, closing)
        while after is not _After.END:
            found = yield (inside if after is _After.INSIDE else outside)
            if found < 0:
                return
            if found >= first_closer:
                after = _After.OUTSIDE
                parser.accept()
            elif found >= first_noise:
                continue
            elif found < len(openers):
                opener = openers[found]
                if opener.endswith(b"["):
                    parser.push(b"[")
                    opener = opener[:-1]
                parser.mark(opener)
                while (yield again) >= 0:
                    pass
                after = yield from block(parser, None, closing)
            elif (found := found - len(openers)) < len(_FENCES):
                parser.mark(_FENCES[found])
                after = yield from block(parser, tools, _FENCE_END)
            else:
                brackets, follower = _STARTS[found - len(_FENCES)]
                parser.push(follower)
                parser.mark(brackets)
                if (yield PEEK) not in _NEXT[brackets]:
                    parser.reject()
                    continue
                parser.push(brackets)
                after = yield from block(parser, tools, closing)

    def block(
        parser: OutputParser, tools: Tools | None, closing: Match | None
    ) -> Generator[Operation, Any, _After]:
        outcome, begun = yield from body(parser, tools)
        if not begun and (tools is not None or outcome is Outcome.BROKEN):
            parser.reject()
            return _After.OUTSIDE
        if outcome is Outcome.CUT:
            yield DROP_REST
            return _After.END
        if not begun:
            parser.accept()
        after = _After.INSIDE if tools is None and closers else _After.OUTSIDE
        while closing is not None:
            parser.mark()
            found = yield closing
            if found < 0:
                if parser.ended:
                    # All that is left is less than a marker.
                    yield DROP_REST
                    return _After.END
                parser.reject()
                break
            parser.accept()
            after = _After.OUTSIDE
            if closing is _FENCE_END:
                break  # the next one may be an opening one
        return after

    return Format(program, tuple(text.decode() for text in (*openers, *closers)), call_id)
