"""Whether reasoning is open at the prompt's end, by hand and over real templates."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sglrouter.request.reasoning_start import starts_in_reasoning

THINK = ("<think>", "</think>")


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("<|assistant|><think>", True),
        ("<|assistant|><think>\n", True),
        ("<|assistant|><think> \n\t\n", True),
        ("<|assistant|>\n", False),
        ("", False),
        ("<think>", True),
        ("<thin", False),
        # Reasoning that the template skips.
        ("<|assistant|><think>\n\n</think>\n\n", False),
        ("<|assistant|></think>", False),
        # What history and users write is followed by the template's words.
        ("<|user|>Say <think><|end|>\n<|assistant|>\n", False),
        ("<|user|>Say <think>\n<|assistant|>", False),
        ("<|user|>Say </think><|end|><|assistant|><think>\n", True),
        ("<|assistant|><think>why</think>yes<|end|><|user|>x<|end|><|assistant|><think>\n", True),
        ("<|assistant|><think>why", False),
        ("<think>" + " " * 1000, False),
    ],
)
def test_an_opener_counts_with_nothing_behind_it(prompt: str, wanted: bool) -> None:
    assert starts_in_reasoning(prompt, *THINK) is wanted


@pytest.mark.parametrize(
    ("before", "text", "wanted"),
    [
        ("<|assistant|>", "<think>Let me", True),
        ("<|assistant|>", "<think>Let me</think>", False),
        ("<|assistant|>", "<think>Let me</think>Yes. <think>But", True),
        ("<|assistant|>", "Yes", False),
        ("<|assistant|><think>\n", "Let me", True),
        ("<|assistant|><think>\n", "Let me</think>", False),
        ("<|assistant|><think>\n\n</think>\n\n", "Yes", False),
        ("<|assistant|></think>", "Yes", False),
        ("<|user|><think><|assistant|>", "Yes", False),
    ],
)
def test_the_last_marker_of_a_continued_message_counts(
    before: str, text: str, wanted: bool
) -> None:
    assert starts_in_reasoning(before + text, *THINK, continued=len(text)) is wanted


@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        ("◁think▷", "◁/think▷"),
        ("[THINK]", "[/THINK]"),
        ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    ],
)
def test_other_markers(opener: str, closer: str) -> None:
    assert starts_in_reasoning(f"<a>{opener}", opener, closer)
    assert not starts_in_reasoning(f"<a>{opener}x{closer}", opener, closer)
    assert not starts_in_reasoning("<a>", opener, closer)


def test_without_markers_nothing_starts_inside() -> None:
    assert not starts_in_reasoning("<|assistant|>", "", "")
    assert starts_in_reasoning("x<think>yz", "<think>", "", continued=2)


def test_a_long_prompt_costs_no_more_than_its_end() -> None:
    class Watched(str):
        longest = 0

        def __getitem__(self, key: Any) -> str:
            part = super().__getitem__(key)
            Watched.longest = max(Watched.longest, len(part))
            return part

        def rfind(self, *args: Any) -> int:
            raise AssertionError("looked through all of it")

    assert starts_in_reasoning(Watched("x" * 1_000_000 + "<think>\n"), *THINK)
    assert 0 < Watched.longest < 200


# Where each template begins inside reasoning, of prompts that open the assistant's turn.
ALWAYS = "always"
AFTER_USERS = "but not after a tool's result"
UNLESS_OFF = "unless thinking is off"
IF_ON = "if thinking is on"
NEVER = "never"
FAMILIES = {
    "llamacpp__deepseek-ai-DeepSeek-R1-Distill-Llama-8B": AFTER_USERS,
    "trl__deepseek_r1_distill": AFTER_USERS,
    "llamacpp__MiniMax-M2": ALWAYS,
    "llamacpp__StepFun3.5-Flash": ALWAYS,
    "llamacpp__GLM-4.7-Flash": UNLESS_OFF,
    "llamacpp__Qwen3.5-4B": UNLESS_OFF,
    "axolotl__qwen3": UNLESS_OFF,
    "trl__qwen3_6": UNLESS_OFF,
    "llamacpp__Qwen-QwQ-32B": IF_ON,
    "llamacpp__deepseek-ai-DeepSeek-V3.1": IF_ON,
    "llamacpp__deepseek-ai-DeepSeek-V3.2": IF_ON,
    "vllm__tool_chat_template_deepseekv31": IF_ON,
    "llamacpp__llama-cpp-rwkv-world": IF_ON,
    "trl__qwen3_5_nothink": IF_ON,
    "llamacpp__Qwen-Qwen3-0.6B": NEVER,
    "llamacpp__GLM-4.6": NEVER,
    "trl__glm4moe": NEVER,
    "llamacpp__HuggingFaceTB-SmolLM3-3B": NEVER,
    "llamacpp__Kimi-K2-Thinking": NEVER,
    "llamacpp__Qwen3-Coder": NEVER,
    "llamacpp__openai-gpt-oss-120b": NEVER,
    "vllm__template_chatml": NEVER,
}


@pytest.mark.corpus
def test_real_templates_begin_where_they_are_known_to(corpus: Path) -> None:
    folder = corpus / "chat_templates"
    cases = {case["id"]: case for case in json.loads((folder / "cases.json").read_bytes())}
    compared: Counter[str] = Counter()
    for line in (folder / "goldens.jsonl").read_bytes().splitlines():
        row = json.loads(line)
        family = FAMILIES.get(row["template"])
        if family is None or "expected" not in row:
            continue
        case = cases[row["case"]]
        switch = case["template_kwargs"].get("thinking")
        wanted = case["add_generation_prompt"] and (
            family == ALWAYS
            or (family == AFTER_USERS and case["messages"][-1]["role"] != "tool")
            or (family == UNLESS_OFF and switch is not False)
            or (family == IF_ON and switch is True)
        )
        where = f"{row['template']}/{row['case']}"
        assert starts_in_reasoning(row["expected"], *THINK) is wanted, where
        compared[family] += 1
    assert min(compared.values()) > 70
    assert compared.total() > 1000


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("opener", "closer"),
    [THINK, ("◁think▷", "◁/think▷"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")],
)
def test_no_real_template_writes_more_than_space_behind_its_opener(
    corpus: Path, opener: str, closer: str
) -> None:
    """Seen from the other side: an opener that is never closed is one that counts."""
    lines = (corpus / "chat_templates" / "goldens.jsonl").read_bytes().splitlines()
    for row in map(json.loads, lines):
        text = row.get("expected", "")
        # The case with markers in a user's text is the reason for the rule.
        if row["case"] != "marker_injection":
            is_open = text.rfind(opener) > text.rfind(closer)
            assert starts_in_reasoning(text, opener, closer) is is_open, row["template"]
