"""How families of models write their reasoning, and the program that splits it off.

Strategy: reasoning comes first, so one small program reads it and hands on to whatever
reads the rest. Where it begins is decided by the prompt, whose last words may have
opened it; else by the output's first word. Once closed it is not opened again: later
markers are text. Some families may leave it unclosed before a tool call, whose marker
then ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from sglrouter._fast.operations import CONTENT, REASONING, Match, Operation, Pass, Read, Value
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.program import PEEK, REST, Program, literal

# How many bytes are held back where reasoning may turn out to be the answer. If it was longer
# than this, it becomes content as well: what has gone out as reasoning is not taken back.
_DOUBTFUL = 96

# How many bytes tell JSON from thoughts. An answer under a grammar is held back as long.
_TELLING = 512
_JSON_STARTS = frozenset(bytes((byte,)) for byte in b'{["-0123456789tfn')
_SKIP_BEGINNING = Value(drop=True, limit=_TELLING)


class ReasoningFormat(NamedTuple):
    """A way of writing reasoning.

    Attributes:
        openers: What begins it; the first is what prompts end with.
        closers: What ends it.
        interrupts: Markers of tool calls that end it as well.
        always: Whether an output is reasoning from its first word although the prompt
            has neither opened nor closed it.
        answers: Markers that say that what seemed to be reasoning was the answer: its model
            has skipped the reasoning.
        prefix: Put before an answer whose reasoning stays in the content: the opener that
            the prompt has and the answer lacks.
    """

    openers: tuple[str, ...]
    closers: tuple[str, ...]
    interrupts: tuple[str, ...] = ()
    always: bool = False
    prefix: str = ""
    answers: tuple[str, ...] = ()

    @property
    def markers(self) -> tuple[str, ...]:
        """What has to be visible in the text."""
        return self.openers + self.closers + self.interrupts + self.answers


def reasoning_program(
    reasoning: ReasoningFormat,
    rest: Callable[[OutputParser], Program] | None,
    *,
    inside: bool,
    as_json: bool = False,
    only: bool = True,
) -> Callable[[OutputParser], Program]:
    """Makes the program that splits reasoning off, then reads `rest`.

    Args:
        reasoning: The format.
        rest: Reads what follows; None if that is content to the end.
        inside: Whether the output begins inside the reasoning.
        as_json: Whether what follows is JSON. An output that is JSON has no reasoning.
        only: Whether `rest` has none.
    """
    closers = tuple(text.encode() for text in reasoning.closers)
    interrupts = tuple(text.encode() for text in reasoning.interrupts)
    answers = tuple(text.encode() for text in reasoning.answers)
    opening = literal(*(text.encode() for text in reasoning.openers))
    stops = (*closers, *interrupts, *answers)
    first_answer = len(closers) + len(interrupts)
    # What may have to be said again is recorded.
    until_closed = Pass(REASONING, stops, recorded=bool(answers))
    beginning = Read(stops, limit=_DOUBTFUL, peek=True) if answers else None
    stop = Match(stops)
    closer = Read(closers, limit=_TELLING) if closers else None
    remainder = Pass(CONTENT, (*closers, *interrupts, *answers)) if answers else REST

    def thoughts(parser: OutputParser) -> Program:
        """Reads the reasoning from behind its opener on."""
        if beginning is None:
            parser.accept()
            found = yield until_closed
        else:
            parser.mark()
            read = yield beginning
            if read is None:
                parser.reason()
                found = yield until_closed
            else:
                found = read[1]
            if found >= first_answer:
                parser.reject()
            elif read is not None:
                parser.reason()
            parser.accept()
            if read is not None:
                yield stop
        if found >= len(closers):
            parser.push(stops[found])

    def answer(parser: OutputParser) -> Program:
        """Reads what follows the reasoning."""
        if only:
            parser.settle()
        if rest is not None:
            yield from rest(parser)
            return
        while (yield remainder) >= 0:
            pass

    def program(parser: OutputParser) -> Program:
        if reasoning.prefix:
            parser.say(reasoning.prefix.encode())
            yield from answer(parser)
            return
        parser.mark()
        # A model may repeat what the prompt has said.
        opened = (yield opening) >= 0
        if not opened and inside:
            opened = True
            if as_json:
                opened = not (yield from _is_json(parser, closer))
                parser.rewind()
            if opened:
                yield PEEK
        if opened:
            yield from thoughts(parser)
        else:
            parser.reject()
        yield from answer(parser)

    return program


def _is_json(parser: OutputParser, closer: Read | None) -> Generator[Operation, Any, bool]:
    """Whether the text is JSON, as far as it is looked at: thoughts soon are not.

    Engines differ: some begin with the grammar at once, whatever the prompt has opened, and
    others wait for the reasoning to end. So thoughts may begin with a bracket or a number,
    and an answer may hold the marker that ends them.

    Args:
        parser: At the beginning, which is marked.
        closer: Looks for what ends reasoning.
    """
    if (yield PEEK) not in _JSON_STARTS:
        return False
    whole = yield _SKIP_BEGINNING
    if whole is None and parser.ended and closer is not None:
        # Either an answer or the thoughts were cut off in a string.
        parser.rewind()
        parser.mark()
        return (yield closer) is None
    return whole is None or (whole and (yield PEEK) == b"")


def think(*interrupts: str, always: bool = False) -> ReasoningFormat:
    """The format of the families that write <think>...</think>.

    Args:
        interrupts: As ReasoningFormat has it.
        always: As ReasoningFormat has it.
    """
    return ReasoningFormat(("<think>",), ("</think>",), interrupts, always)


# What most of them write. Some of their models begin without the opener.
THINK = think()
THINK_ALWAYS = think(always=True)
THINK_UNTIL_CALL = think("<tool_call>")
