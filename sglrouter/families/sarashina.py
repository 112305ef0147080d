"""Sarashina: an array of calls as JSON, or as Python writes it."""

from __future__ import annotations

from sglrouter._fast.parse import OutputParser
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import Calls, calls
from sglrouter.families.formats.marked_calls import Bare, marked
from sglrouter.families.formats.program import PYTHON, Tools


def _python_calls(parser: OutputParser, tools: Tools | None) -> Calls:
    return calls(parser, tools, PYTHON)


FAMILIES = (
    Family(
        names=("sarashina",),
        calls=marked(
            (b"<|tool_calls|>",),
            (b"<|/tool_calls|>",),
            body=_python_calls,
            bare=Bare.AT_START,
        ),
    ),
)
