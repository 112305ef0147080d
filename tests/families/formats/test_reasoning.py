"""Reasoning split off, however the text is cut."""

from __future__ import annotations

import pytest

from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.formats.program import Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import REASONING_FORMATS, TOOL_FORMATS
from tests.families.reading import read_every_way

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
        reasoning=REASONING_FORMATS["qwen3"],
        calls=forced(None),
        tools=TOOLS,
        inside=True,
        as_json=True,
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


@pytest.mark.parametrize("answer", ['{"answer": "17"}', "[1, 2]", '"17"', "17", "true", "null"])
@pytest.mark.parametrize("name", ["qwen3", "deepseek-r1", "gemma4", "kimi_k3"])
def test_under_a_grammar_the_end_of_the_thoughts_tells_them_from_the_answer(
    name: str, answer: str
) -> None:
    reasoning = REASONING_FORMATS[name]
    reading = Reading(reasoning=reasoning, inside=True, as_json=True)
    for thought in (
        "[1] is what I was given.\n",
        '{"a": 1} was the example',
        "{curly} braces",
        '"17", he said',
        "17",
        "17 is prime. é",
        "- so",
        "true or false",
        "not that {",
        '{"a": "b',
        "[[[[[",
    ):
        result = read_every_way(reading, f"{thought}{reasoning.closers[0]}\n\n{answer}")
        assert (result.reasoning, result.content) == (thought, f"\n\n{answer}")
    # An engine that begins with the grammar at once.
    assert read_every_way(reading, answer)[:2] == (answer, "")
    held = f'{{"a": "{"x" * 600}</think>"}}'
    assert read_every_way(reading, held)[:2] == (held, "")


def test_an_answer_under_a_grammar_is_held_back_no_longer_than_it_takes_to_tell() -> None:
    parser = Reading(reasoning=REASONING_FORMATS["qwen3"], inside=True, as_json=True).parser()
    assert parser is not None
    answer = b'{"a": "' + b"x" * 506
    parser.feed(answer[:512])
    assert parser.take() == (b"", b"", [])
    parser.feed(answer[512:])
    assert parser.take() == (answer, b"", [])


K3 = Reading(
    reasoning=REASONING_FORMATS["kimi_k3"], calls=TOOL_FORMATS["kimi_k3"], tools=TOOLS, inside=True
)
K3_END = "<|close|>response<|sep|><|close|>message<|sep|>"
K3_CALL = '<|open|>call tool="f" index="1"<|sep|><|close|>call<|sep|>'


@pytest.mark.parametrize("reading", [K3, Reading(reasoning=K3.reasoning, inside=True)])
@pytest.mark.parametrize("end", [K3_END, "<|close|>response<|sep|>", "<|close|>message<|sep|>"])
def test_an_answer_without_thoughts_is_content(reading: Reading, end: str) -> None:
    result = read_every_way(reading, f"The answer is 4.{end}")
    assert (result.content, result.reasoning) == ("The answer is 4.", "")
    # A long one has begun to go out as reasoning, and stays that, too.
    long = "The answer is é. " * 20
    result = read_every_way(reading, long + end)
    assert (result.content, result.reasoning) == (long, long)


@pytest.mark.parametrize("length", [1, 90, 95, 96, 97, 400])
def test_other_elements_end_the_thoughts_as_well(length: int) -> None:
    thought = "é" * length
    for between in ("<|close|>think<|sep|>", ""):
        for start in ("<|open|>response<|sep|>", "<|open|>message<|sep|><|open|>response<|sep|>"):
            result = read_every_way(K3, f"{thought}{between}{start}Hi.{K3_END}")
            assert (result.content, result.reasoning) == ("Hi.", thought)
        for calls in (f"<|open|>tools<|sep|>{K3_CALL}<|close|>tools<|sep|>", K3_CALL):
            result = read_every_way(K3, f"{thought}{between}{calls}<|close|>message<|sep|>")
            assert (result.content, result.reasoning) == ("", thought)
            assert [call.name for call in result.calls] == ["f"]
    result = read_every_way(K3, thought)
    assert (result.content, result.reasoning) == ("", thought)
