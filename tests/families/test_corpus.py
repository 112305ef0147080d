"""Every authored case of every family, at every split point, against the expected reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import REASONING_FORMATS, TOOL_FORMATS
from tests.families.reading import read_every_way

# Families that SGLang has no parser for go by their own name.
FAMILIES = {
    name: name
    for name in (
        "granite3",
        "granite_20b_fc",
        "phi4_mini",
        "xlam",
        "jamba",
        "olmo3",
        "seed_oss",
        "nemotron_json",
    )
}

# Cases with more than one defensible answer, where ours is another.
OURS: dict[str, dict[str, Any]] = {
    # Forwarded: agents answer it. `unknown_tools = "drop"` gives the other answer.
    "qwen25-26-unknown_tool": {"tool_calls": [{"name": "no_such_tool", "arguments": {"a": 1}}]},
    # The first call is complete, though its array is not.
    "mistral_v3_array-10-truncated_second": {
        "tool_calls": [{"name": "get_weather", "arguments": {"city": "Tokyo", "unit": "celsius"}}]
    },
    # The model has ended the call and forgotten a bracket: that can be mended.
    "qwen25-27-bad_json": {"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]},
}


def cases(corpus: Path | None) -> list[dict[str, Any]]:
    if corpus is None:
        return []
    path = corpus / "tool_calls" / "cases.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def reading_of(case: dict[str, Any]) -> Reading:
    # A format that splits reasoning off by itself goes by the same name.
    reasoning = REASONING_FORMATS.get(case["reasoning_parser"])
    parser = case["parser"] or FAMILIES.get(case["family"])
    started = bool(case.get("reasoning_started_in_prompt"))
    return Reading(
        calls=TOOL_FORMATS[parser] if parser else None,
        reasoning=reasoning,
        tools=Tools(case["tools"]),
        inside=reasoning is not None and (started or reasoning.always),
    )


@pytest.mark.long
def test_every_case_at_every_split_point(corpus: Path) -> None:
    wrong = []
    for case in cases(corpus):
        expected = {**case["expected"], **OURS.get(case["id"], {})}
        result = read_every_way(reading_of(case), case["text"])
        calls = expected["tool_calls"]
        got = [
            {"name": call.name, "arguments": json.loads(call.arguments)}
            for call in result.calls[: len(calls)]
        ]
        partial = [call.name for call in result.calls[len(calls) :]]
        wanted = [expected["partial_call"]["name"]] if expected.get("partial_call") else []
        if (
            result.content.strip() != expected["content"].strip()
            or result.reasoning.strip() != expected["reasoning"].strip()
            or got != calls
            or partial != wanted
        ):
            wrong.append((case["id"], case["note"], case["text"][:300], expected, result))
    assert not wrong, "\n\n".join(map(str, wrong))
