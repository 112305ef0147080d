"""A family is one object: names, signatures, calls, reasoning, and how a call is forced."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.formats.marked_calls import marked
from sglrouter.families.formats.program import Tools
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.structural_tags import json_tag
from sglrouter.families.reading import Reading
from sglrouter.families.registry import AUTO, KNOWN, Registry
from sglrouter.request.tool_constraints import constraint_of, encode_tools
from tests.families.reading import read_every_way
from tests.families.tag_language import accepts

TOY = Family(
    names=("toy", "toy2"),
    calls=marked((b"<toy>",), (b"</toy>",)),
    call_signatures=(Signature(("<toy>",)), Signature(tokens=("<toy>",))),
    tag=json_tag("<toy>", "</toy>", "<toy>"),
    reasoning=ReasoningFormat(("<hm>",), ("</hm>",)),
    reasoning_names=("toy-thinking",),
    reasoning_signatures=(Signature(("<hm>",)),),
)
TOYS = Registry((*KNOWN.families, TOY))
TEMPLATE = "{{ '<hm>' }} <toy>"
CALL = '<toy>{"name":"f", "arguments":ARGUMENTS}</toy>'
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "parameters": {"title": "strict"}}}
]


def test_it_is_detected() -> None:
    formats = TOYS.choose(AUTO, AUTO, TEMPLATE, ())
    assert (formats.tool_parser, formats.reasoning_parser) == ("toy", "toy-thinking")
    assert formats.family is TOY
    assert formats == TOYS.choose("toy", "toy-thinking", "", ())
    assert TOYS.detect_tool_parser("", {"<toy>"}) == "toy"
    assert TOYS.family("Toy2") is TOY


def test_its_answers_are_read() -> None:
    formats = TOYS.choose(AUTO, AUTO, TEMPLATE, ())
    reading = Reading(calls=formats.calls, reasoning=formats.reasoning, tools=Tools(TOOLS))
    text = f"<hm>What?</hm>This: {CALL.replace('ARGUMENTS', '{}')}"
    result = read_every_way(reading, text)
    assert (result.reasoning, result.content) == ("What?", "This: ")
    assert [(call.name, call.arguments) for call in result.calls] == [("f", "{}")]


def test_its_calls_can_be_forced() -> None:
    constraint = constraint_of(TOY, encode_tools(TOOLS), (0,), "required", True)
    assert constraint is not None
    kind, grammar = constraint
    assert kind == "structural_tag"
    assert accepts(json.loads(grammar), CALL.replace("ARGUMENTS", "<json any>"))
    assert not accepts(json.loads(grammar), "Hello")
    reading = Reading(calls=forced(TOY.calls), tools=Tools(TOOLS))
    result = read_every_way(reading, CALL.replace("ARGUMENTS", '{"a": 1}'))
    assert [(call.name, call.arguments) for call in result.calls] == [("f", '{"a": 1}')]


@pytest.mark.parametrize(
    "other",
    [
        Family(names=("toy2",), calls=TOY.calls),
        Family(names=("toy",), reasoning=TOY.reasoning),
        Family(names=("new",), reasoning=TOY.reasoning, reasoning_names=("toy-thinking",)),
        Family(names=("toy-thinking",), calls=TOY.calls),
    ],
)
def test_two_families_of_one_name_are_refused(other: Family) -> None:
    with pytest.raises(ValueError, match="two families are called 'toy"):
        Registry((TOY, other))


def test_signatures_of_a_low_rank_come_first() -> None:
    shared = Family(
        names=("shared",), calls=TOY.calls, call_signatures=(Signature(("<toy>",), rank=1),)
    )
    own = Family(names=("own",), calls=TOY.calls, call_signatures=(Signature(("<own>",)),))
    families = Registry((shared, own))
    assert families.detect_tool_parser("<toy>", ()) == "shared"
    assert families.detect_tool_parser("<toy> <own>", ()) == "own"
