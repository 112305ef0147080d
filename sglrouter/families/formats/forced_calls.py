"""An answer that must be a call: a JSON array of calls, or what its family writes.

    [{"name": "f", "parameters": {...}}, ...]

A grammar sees to the one or the other; not every engine enforces what it was sent. Which
one it was shows in the first characters: families may begin with a bracket, too. Text that
is neither is content from where that shows.
"""

from __future__ import annotations

from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.json_calls import calls
from sglrouter.families.formats.program import PEEK, REST, Format, Outcome, Program, Tools


def forced(own: Format | None) -> Format:
    """The format of such an answer.

    Args:
        own: The family's own format, if it may write calls in that, too.
    """

    def program(parser: OutputParser, tools: Tools) -> Program:
        parser.mark()
        if (yield PEEK) != b"[" and own is not None:
            parser.reject()
            yield from own.program(parser, tools)
            return
        outcome, begun = yield from calls(parser)
        if own is not None and outcome is Outcome.BROKEN and not begun:
            parser.rewind()
            yield from own.program(parser, tools)
            return
        if not begun:
            parser.reject()
        if outcome is not Outcome.CUT:
            yield REST

    if own is None:
        return Format(program, ())
    return own._replace(program=program)
