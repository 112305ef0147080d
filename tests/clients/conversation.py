"""The conversation that every client holds: what the user says, and what the engine answers.

The engine's side is a model's raw text, markers and all, in the formats of Qwen. The call is
written as the tiny model's template writes calls of earlier turns. A client that has read it
right, and sends it back, therefore has exactly this text in the next prompt.
"""

from __future__ import annotations

import json
from typing import Any

from sglrouter.sim import SimulatedEngine

QUESTION = "What is the weather in São Paulo?"
# Line ends that JSON need not escape, and characters of two to four bytes.
ANSWER = "It rains 🌧 in São Paulo,\u2028 今日 and\x85 tomorrow.\nTake a coat."

ARGUMENTS = {"city": "São Paulo 🌧", "days": 2}
OTHER_ARGUMENTS = {"city": "Zürich"}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "description": "How many days ahead."},
    },
    "required": ["city"],
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": PARAMETERS,
    },
}
RESULT = "18 °C and rain 🌧"
OTHER_RESULT = "3 °C and fog"


def written_call(arguments: object, name: str = "weather") -> str:
    """A call of a function as the model writes it."""
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{text}\n</tool_call>"


CALL = written_call(ARGUMENTS)
OTHER_CALL = written_call(OTHER_ARGUMENTS)

THOUGHT = "The user asks about the weather 🤔."
THINKS = f"<think>\n{THOUGHT}\n</think>\n\n"

REPORT = {"city": "São Paulo 🌧", "celsius": 18, "rain": True}
REPORT_TEXT = json.dumps(REPORT, ensure_ascii=False)


def last_prompt(engine: SimulatedEngine) -> str:
    """The text of the latest prompt that the engine was sent."""
    text: str = engine.requests[-1].tokenized.original_text
    return text


def assert_results_went_back(engine: SimulatedEngine, *, parallel: bool = False) -> None:
    """Checks that the latest prompt has the model's calls, and their results behind them."""
    prompt = last_prompt(engine)
    pieces = [CALL, OTHER_CALL, RESULT, OTHER_RESULT] if parallel else [CALL, RESULT]
    assert [prompt.count(piece) for piece in pieces] == [1] * len(pieces), prompt
    places = [prompt.index(piece) for piece in pieces]
    assert places == sorted(places), prompt


def schema_sent(engine: SimulatedEngine) -> dict[str, Any]:
    """The JSON schema that the latest answer was held to."""
    schema: dict[str, Any] = json.loads(engine.requests[-1].sampling_params.json_schema)
    return schema
