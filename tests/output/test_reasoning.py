"""Reasoning split off, however the text is cut."""

from __future__ import annotations

import pytest

from sglrouter.output.formats.forced_calls import FORCED
from sglrouter.output.formats.program import Tools
from sglrouter.output.formats.registry import TOOL_FORMATS
from sglrouter.output.reading import Reading
from sglrouter.output.reasoning import REASONING_FORMATS
from tests.output.formats.reading import read_every_way

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
TOOLS = Tools([{"type": "function", "function": {"name": "f"}}])
SPLIT = sorted(name for name, each in REASONING_FORMATS.items() if each.closers)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", SPLIT)
def test_every_family_is_split_at_its_markers(name: str, inside: bool) -> None:
    reasoning = REASONING_FORMATS[name]
    for opener, closer in zip(reasoning.openers, reasoning.closers, strict=False):
        thought, answer = "So 1 < 2 é🤔,\nand [3] {4}.", "\n\nYes <b>.\n"
        reading = Reading(reasoning=reasoning, inside=inside)
        # A prompt that has opened it does not keep the model from saying so, too.
        for text in [f"{opener}{thought}{closer}{answer}"] + (
            [f"{thought}{closer}{answer}"] if inside else []
        ):
            result = read_every_way(reading, text)
            assert (result.reasoning, result.content) == (thought, answer)


@pytest.mark.parametrize("name", SPLIT)
def test_nothing_is_lost_at_the_end(name: str) -> None:
    reasoning = REASONING_FORMATS[name]
    opener, closer = reasoning.openers[0], reasoning.closers[0]
    reading = Reading(reasoning=reasoning)
    result = read_every_way(reading, f"{opener}cut off {closer[:-1]}")
    assert (result.reasoning, result.content) == (f"cut off {closer[:-1]}", "")
    part = opener[: len(opener) // 2]
    result = read_every_way(reading, part)
    assert (result.reasoning, result.content) == ("", part)
    result = read_every_way(reading, f" \n{opener}x{closer}")
    assert (result.reasoning, result.content) == ("x", "")


@pytest.mark.parametrize("text", ["", " \n", "Hello", "Hello <think>no</think>", "</think>Hello"])
def test_an_answer_that_does_not_begin_with_reasoning_has_none(text: str) -> None:
    result = read_every_way(Reading(reasoning=REASONING_FORMATS["qwen3"]), text)
    assert (result.reasoning, result.content) == ("", text)


def test_once_closed_markers_are_text() -> None:
    result = read_every_way(
        Reading(reasoning=REASONING_FORMATS["qwen3"]), "<think>a</think>b</think>c<think>d"
    )
    assert (result.reasoning, result.content) == ("a", "b</think>c<think>d")


def test_a_call_ends_reasoning_that_was_not_closed() -> None:
    reading = Reading(
        reasoning=REASONING_FORMATS["qwen3"], calls=TOOL_FORMATS["qwen25"], tools=TOOLS
    )
    result = read_every_way(reading, f"<think>Let me call.{CALL}")
    assert result.reasoning == "Let me call."
    assert [call.name for call in result.calls] == ["f"]
    assert result.content == ""


def test_a_call_in_the_reasoning_of_other_families_is_reasoning() -> None:
    reading = Reading(
        reasoning=REASONING_FORMATS["deepseek-r1"], calls=TOOL_FORMATS["qwen25"], tools=TOOLS
    )
    result = read_every_way(reading, f"<think>I could say {CALL}.</think>No.")
    assert result.reasoning == f"I could say {CALL}."
    assert (result.content, result.calls) == ("No.", [])


def test_reasoning_may_be_followed_by_forced_calls() -> None:
    array = '[{"name": "f", "parameters": {"a": 1}}]'
    reading = Reading(
        reasoning=REASONING_FORMATS["qwen3"], calls=FORCED, tools=TOOLS, inside=True, as_json=True
    )
    result = read_every_way(reading, f"Hm.</think>{array}")
    assert (result.reasoning, len(result.calls)) == ("Hm.", 1)
    # An engine may begin with the grammar, whatever the prompt says.
    result = read_every_way(reading, array)
    assert (result.reasoning, len(result.calls)) == ("", 1)


def test_json_after_an_open_prompt_is_the_answer() -> None:
    reading = Reading(reasoning=REASONING_FORMATS["qwen3"], inside=True, as_json=True)
    result = read_every_way(reading, ' {"a": "</think>"}')
    assert (result.reasoning, result.content) == ("", ' {"a": "</think>"}')
    result = read_every_way(reading, 'Hm.</think>{"a": 1}')
    assert (result.reasoning, result.content) == ("Hm.", '{"a": 1}')


def test_reasoning_may_stay_in_the_content_with_the_opener_it_lacks() -> None:
    reasoning = REASONING_FORMATS["minimax-append-think"]
    result = read_every_way(Reading(reasoning=reasoning), "a</think>b")
    assert (result.reasoning, result.content) == ("", "<think>a</think>b")
    reading = Reading(reasoning=reasoning, calls=TOOL_FORMATS["qwen25"], tools=TOOLS)
    result = read_every_way(reading, f"a</think>b{CALL}")
    assert (result.content, len(result.calls)) == ("<think>a</think>b", 1)
