"""Muse: calls in ATEM, its markup, in messages to a recipient.

    <|start|>assistant to=functions<|message|><atem:function_calls>...<|eom|>

The header says whom a message is for; the first one has none of it but what follows the
role. What is for the user, or for the model itself, is text, whatever it looks like.
"""

from __future__ import annotations

from sglrouter._fast.operations import CONTENT, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.program import DROP_REST, Format, Outcome, Program, Tools, literal
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.tagged_calls import TaggedCalls

_START = b"<|start|>"
_MESSAGE = b"<|message|>"
_FRAME = (_START, _MESSAGE, b"<|eom|>", b"<|eot|>")
_READERS = frozenset({"self", "user"})

_FIRST_HEADER = literal(b"to=")
_HEADER = Read((_MESSAGE,), limit=256)
_PROSE = Pass(CONTENT, _FRAME)


class MuseCalls(TaggedCalls):
    """The grammar of ATEM, and the program for messages of it."""

    def __init__(self) -> None:
        super().__init__(
            openers=(b"<atem:function_calls>",),
            closers=(b"</atem:function_calls>",),
            call=b"<atem:invoke ",
            call_end=b"</atem:invoke>",
            parameter=b"<atem:parameter ",
            parameter_end=b"</atem:parameter>",
            unwrapped=True,
            following=_FRAME,
        )
        self._between = Pass(CONTENT, (*_FRAME, *self.outside_tags))
        self._lost = Pass(CONTENT, (*_FRAME, *self.stray_tags))

    def format(self) -> Format:
        """The format of this family."""
        blocks = super().format()
        return blocks._replace(markers=(*(tag.decode() for tag in _FRAME), *blocks.markers))

    def program(self, parser: OutputParser, tools: Tools) -> Program:
        """Reads a whole output."""
        reader = ""
        parser.mark()
        if (yield _FIRST_HEADER) >= 0 and (read := (yield _HEADER)) is not None:
            parser.accept()
            reader = _recipient(b"to=" + read[0])
        else:
            parser.reject()
        astray = False
        while True:
            is_text = reader in _READERS
            found = yield _PROSE if is_text else self._lost if astray else self._between
            if found < 0:
                return
            if found < len(_FRAME):
                astray = False
                if _FRAME[found] == _START:
                    parser.mark(_START)
                    read = yield _HEADER
                    if read is None and parser.ended:
                        return
                    if read is None:
                        parser.reject()
                    else:
                        parser.accept()
                        reader = _recipient(read[0])
                continue
            tag = (self.stray_tags if astray else self.outside_tags)[found - len(_FRAME)]
            if tag in self.silent:
                astray = tag not in self.closers
                continue
            outcome, left = yield from self.block(parser, tools, tag)
            if outcome is Outcome.CUT:
                yield DROP_REST
                return
            astray = left or (astray and outcome is Outcome.BROKEN)

    def function(self, name: str, tools: Tools, *, wrapped: bool) -> str:
        """The function that a name means: its template puts a namespace before some."""
        if name not in tools and "." in name:
            last = name.rpartition(".")[2]
            known = [known for known in tools.names if known.rpartition(".")[2] == last]
            name = known[0] if len(known) == 1 else name
        return super().function(name, tools, wrapped=wrapped)


def _recipient(header: bytes) -> str:
    """Whom a message is for, by its header; the user if it does not say."""
    _, found, after = header.decode("utf-8", "replace").partition("to=")
    words = after.split()
    return words[0] if found and words else "user"


_SIGNATURES = (Signature(("<atem:",)),)

FAMILIES = (
    Family(
        names=("muse",),
        calls=MuseCalls().format(),
        call_signatures=_SIGNATURES,
        by_training=True,
        reasoning=ReasoningFormat(("to=self<|message|>",), ("<|eom|>",)),
        reasoning_signatures=_SIGNATURES,
    ),
)
