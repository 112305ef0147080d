"""How the outputs of one request are to be read: which formats, which tools, from where.

Strategy: reasoning first, then calls, in one program over one parser. A forced answer is
an array of calls by grammar unless its family writes such answers in its own way.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.program import Format, Program, Tools
from sglrouter.families.formats.reasoning import ReasoningFormat, reasoning_program


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a parser for one output needs to know.

    Attributes:
        calls: The format of calls; None if there are none to read.
        reasoning: The format of reasoning; None if it is not split off.
        tools: The request's tools.
        inside: Whether the output begins inside the reasoning.
        calls_before: How many calls the conversation's earlier turns have made.
        drop_unknown: Whether calls of functions that are not in `tools` are dropped.
        as_json: Whether a grammar makes the answer JSON. Not every engine lets a model
            reason before it, whatever the prompt says.
        lead: What comes before the output, of the message that the output goes on with;
            for formats that read whole messages.
    """

    calls: Format | None = None
    reasoning: ReasoningFormat | None = None
    tools: Tools = Tools()
    inside: bool = False
    calls_before: int = 0
    drop_unknown: bool = False
    as_json: bool = False
    lead: str = ""

    @property
    def markers(self) -> frozenset[str]:
        """The markers that have to be visible in the text."""
        found: tuple[str, ...] = ()
        if self.calls is not None:
            found += self.calls.markers
        if self.reasoning is not None:
            found += self.reasoning.markers
        return frozenset(found)

    def parser(self) -> OutputParser | None:
        """A parser for one output; None if all of it is content."""
        program = self._program()
        if program is None:
            return None
        accepts = self.tools.__contains__ if self.drop_unknown else None
        parser = OutputParser(program, self._new_id, accepts)
        if self.reasoning is None and not self._calls_reason:
            parser.settle()
        if self.lead:
            parser.feed(self.lead.encode())
        return parser

    @property
    def _calls_reason(self) -> bool:
        return self.calls is not None and self.calls.reasons

    def _program(self) -> Callable[[OutputParser], Program] | None:
        calls, tools = self.calls, self.tools

        def read_calls(parser: OutputParser) -> Program:
            assert calls is not None
            return calls.program(parser, tools)

        rest = None if calls is None else read_calls
        if self.reasoning is None:
            return rest
        return reasoning_program(
            self.reasoning,
            rest,
            inside=self.inside,
            as_json=self.as_json,
            only=not self._calls_reason,
        )

    def _new_id(self, name: str, number: int) -> str:
        if self.calls is not None and self.calls.call_id is not None:
            return self.calls.call_id(name, self.calls_before + number)
        return f"call_{secrets.token_hex(12)}"
