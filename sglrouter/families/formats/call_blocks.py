"""Blocks of calls, each between tags, whatever the calls look like.

A block is an opener, calls, and a closer, with nothing but white space between them. What
goes wrong in it does not last: what is no call is content, and the next call is a call.
Tags that have lost their place do not show, nor does a brace too many after a call, nor
the code fence that a model has put around it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any

from sglrouter._fast.guard import ENDS, ENDS_ON_LINE, Guard
from sglrouter._fast.operations import CONTENT, Match, Operation, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats import json_calls
from sglrouter.families.formats.program import (
    DROP_REST,
    PEEK,
    Format,
    Outcome,
    Program,
    Tools,
    broken_or_cut,
)
from sglrouter.families.formats.strays import TagStrays

# How reading a call went, whether it has begun, and the tag that came in place of its end.
ReadCall = Generator[Operation, Any, tuple[Outcome, bool, bytes | None]]

# Before a call, a fence is around it if the call is all that follows; the longer ones first.
_FENCES = (b"```xml", b"```json", b"```tool_call", b"```")


class CallBlocks(ABC):
    """What surrounds the calls of a family.

    Args:
        openers: What a block begins with; none if the calls stand alone.
        closers: What it ends with.
        calls: What a call begins with.
        call_ends: What it ends with.
        parts: What else there is within a call.
        strays: Those of the parts that are whole tags. They do not show where they have
            lost their place.
        unwrapped: Whether a call may come without an opener.
        unknown: Whether such a call may be to a function that the request does not have.
        noise: Tags around calls that mean nothing.
    """

    def __init__(
        self,
        *,
        openers: tuple[bytes, ...] = (),
        closers: tuple[bytes, ...] = (),
        calls: tuple[bytes, ...],
        call_ends: tuple[bytes, ...],
        parts: tuple[bytes, ...],
        strays: tuple[bytes, ...],
        unwrapped: bool = False,
        unknown: bool = False,
        noise: tuple[bytes, ...] = (),
    ) -> None:
        self.openers = openers
        self.closers = closers
        self.calls = calls
        self.call_ends = call_ends
        self._parts = parts
        self._unknown = unknown
        self.outside_tags = (*openers, *(calls if unwrapped else ()), *noise)
        self._inside_tags = (*openers, *calls, *closers, *call_ends, *noise)
        self.stray_tags = (*self._inside_tags, *strays)
        self.silent = frozenset({*closers, *call_ends, *noise, *strays})
        free = ((ENDS, None, None),) * len(self.outside_tags)
        fences = ((ENDS_ON_LINE, "call", None),) * len(_FENCES)
        self._outside = Pass(
            CONTENT,
            (*self.outside_tags, *_FENCES),
            guard=Guard(
                (*free, *fences), {"call": (dict.fromkeys(self.outside_tags), False, False, False)}
            ),
        )
        self._fenced = Match(self.outside_tags, skip_space=True)
        self._strays = TagStrays(self.outside_tags)
        self._inside = Match(self._inside_tags, skip_space=True)
        self._astray = Pass(CONTENT, self.stray_tags)

    @abstractmethod
    def read_call(self, parser: OutputParser, tools: Tools, *, wrapped: bool) -> ReadCall:
        """Reads a call after its first tag; DONE means up to the end of its last.

        The caller has marked where it begins, and makes content of what is BROKEN before
        a call has begun.
        """

    def function(self, name: str, tools: Tools, *, wrapped: bool) -> str:
        """The function that a name means; empty if it means none.

        Args:
            name: As it is written.
            tools: The request's.
            wrapped: Whether the call is in a block.
        """
        return name if wrapped or self._unknown or name in tools else ""

    def format(self) -> Format:
        """The format of this family."""
        markers = (*self._inside_tags, *self._parts)
        return Format(self.program, tuple(tag.decode() for tag in markers))

    def program(self, parser: OutputParser, tools: Tools) -> Program:
        """Reads a whole output."""
        astray = False  # whether we are in a block, at what does not belong there
        while True:
            found = yield self._astray if astray else self._outside
            if found < 0:
                return
            fenced = not astray and found >= len(self.outside_tags)
            if fenced:
                parser.mark(_FENCES[found - len(self.outside_tags)])
                found = yield self._fenced
                if found < 0:
                    parser.reject()
                    continue
            tag = (self.stray_tags if astray else self.outside_tags)[found]
            if tag in self.silent:
                parser.reject()
                astray = astray and tag not in self.closers
                continue
            outcome, left = yield from self.block(parser, tools, tag, fenced=fenced)
            if outcome is Outcome.CUT:
                yield DROP_REST
                return
            astray = left or (astray and outcome is Outcome.BROKEN)

    def block(
        self, parser: OutputParser, tools: Tools, tag: bytes, *, fenced: bool = False
    ) -> Generator[Operation, Any, tuple[Outcome, bool]]:
        """Reads a block after its first tag.

        Args:
            parser: After the tag.
            tools: The request's.
            tag: The tag.
            fenced: Whether a code fence is before it, and all that is marked already.

        Returns:
            How it went, and whether more of its tags may follow.
        """
        if not fenced:
            parser.mark(tag)
        wrapped = False
        begun = False
        astray = False
        while True:
            following: bytes | None = None
            outcome = Outcome.DONE
            if tag in self.calls:
                outcome, called, following = yield from self.read_call(
                    parser, tools, wrapped=wrapped
                )
                if called:
                    begun = True
                    astray = outcome is Outcome.BROKEN
                    if outcome is not Outcome.CUT:
                        outcome = Outcome.DONE
                        parser.mark()
            elif tag in self.openers:
                if begun:
                    # The block before this one has no end.
                    parser.mark(tag)
                    begun = False
                wrapped = True
                if (yield PEEK) == b"{":
                    outcome, called = yield from json_calls.calls(parser)
                    if called:
                        begun = True
                        if outcome is not Outcome.CUT:
                            outcome = Outcome.DONE
                            parser.mark()
            elif tag in self.closers:
                if begun:
                    parser.accept()
                    yield from self._strays.drop(parser, fenced=fenced)
                    return Outcome.DONE, False
                outcome = Outcome.BROKEN
            elif begun:
                astray = astray and tag not in self.call_ends
                parser.mark()
            if outcome is Outcome.DONE and following is None:
                found = yield self._inside
                if found >= 0:
                    following = self._inside_tags[found]
                else:
                    outcome = broken_or_cut(parser)
            if outcome is not Outcome.DONE or following is None:
                if outcome is Outcome.BROKEN:
                    parser.reject()
                    if begun:
                        yield from self._strays.drop(parser, fenced=fenced)
                return outcome, begun and (wrapped or astray)
            tag = following
