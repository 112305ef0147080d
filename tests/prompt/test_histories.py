"""Histories under real templates: no part is lost, and no answer of ours is refused."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.messages import normalise
from sglrouter.prompt.template import ChatTemplate
from tests.prompt.ample import ample

pytestmark = pytest.mark.corpus

Json = dict[str, Any]


@cache
def _templates(folder: Path) -> dict[str, AdaptedTemplate]:
    manifest = json.loads((folder / "manifest.json").read_bytes())
    return {
        entry["name"]: AdaptedTemplate(
            ChatTemplate(
                (folder / entry["file"]).read_text(encoding="utf-8"), entry["special_tokens"]
            )
        )
        for entry in manifest
    }


@pytest.fixture(scope="module")
def templates(corpus: Path) -> dict[str, AdaptedTemplate]:
    return _templates(corpus / "chat_templates")


def render(template: AdaptedTemplate, *messages: Json, tools: Any = None) -> str:
    normal = normalise(
        messages,
        content_format=template.content_format,
        knows_developer=template.knows_developer,
        knows_thinking=template.knows_thinking,
    )
    return template.render(normal, tools, ample())


# Its sandbox forbids what this one does, and transformers' does, too.
BROKEN = "llamacpp__llama-cpp-deepseek-r1"
# They show neither calls nor results, without a word: what follows was never trained.
NO_RESULTS = {
    "axolotl__alpaca",
    "axolotl__metharme",
    "axolotl__phi_3",
    "axolotl__phi_4",
    "llamacpp__llama-cpp-rwkv-world",
    "llamacpp__microsoft-Phi-3.5-mini-instruct",
    "trl__phi3",
    "vllm__template_alpaca",
    "vllm__template_falcon",
    "vllm__template_inkbot",
    # It knows calls as the text of a turn with `metadata` only.
    "vllm__tool_chat_template_glm4",
}
# They show a result as any other turn, and no calls.
NO_CALLS = NO_RESULTS | {
    "axolotl__chatml",
    "axolotl__qwen2_vl",
    "gguf__SmolLM2-135M-Instruct",
    "llamacpp__HuggingFaceTB-SmolLM3-3B",
    "llamacpp__ibm-granite-granite-3.3-2B-Instruct",
    "trl__qwen2_5_vl",
    "vllm__template_chatml",
}
# They refuse content beside calls, and make one turn of two that follow each other.
NO_PREAMBLE = {
    "mistral_common__v2_spm",
    "mistral_common__v2_tekken",
    "mistral_common__v3_spm",
    "mistral_common__v3_tekken",
}


@pytest.mark.long
def test_every_template_shows_every_part_but_what_it_does_not_know(
    templates: dict[str, AdaptedTemplate],
) -> None:
    kinds: dict[str, set[str]] = {}
    for name, template in templates.items():
        for part in template.hidden:
            conversation, _, mark = part.partition(": ")
            if name != BROKEN and not conversation.startswith("tools"):
                kinds.setdefault(mark, set()).add(name)
    assert kinds.pop("result 1") == kinds.pop("result 2") == NO_RESULTS
    assert kinds.pop("argument 1") == kinds.pop("argument 2") == NO_CALLS
    assert kinds.pop("preamble") == NO_PREAMBLE
    thoughtless = kinds.pop("thoughts")
    assert kinds == {}
    # All that read thoughts show them, but for those that want a switch to do so.
    switched = {
        "llamacpp__Apriel-1.6-15b-Thinker-fixed",
        "llamacpp__deepseek-ai-DeepSeek-V3.2",
        "llamacpp__unsloth-Apriel-1.5",
    }
    assert switched <= thoughtless
    for name in ("Qwen3-0.6B", "gpt-oss", "Ministral", "MiniMax-M2", "GLM-4.6", "Seed-OSS"):
        assert not any(name in template for template in thoughtless)


USER = {"role": "user", "content": "zquser"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def turn(*arguments: Any, ids: str = "call_0123456789abcdef0123{}", **more: Any) -> Json:
    calls = [
        {
            "id": ids.format(i),
            "type": "function",
            "function": {"name": "f", "arguments": value},
        }
        for i, value in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, **more, "tool_calls": calls}


def result(i: int, ids: str = "call_0123456789abcdef0123{}") -> Json:
    return {"role": "tool", "tool_call_id": ids.format(i), "content": f"zqresult{i}"}


ANSWERS: dict[str, list[Json]] = {
    "everything": [turn("{}", content="zqtext", reasoning_content="zqthought"), result(0)],
    "everything, twice": [
        turn("{}", '{"a": 1}', content="zqtext", reasoning="zqthought"),
        result(1),
        result(0),
        turn('{"a": 2}', content="zqtext", thinking="zqthought"),
        result(0),
    ],
    "cut arguments": [turn('{"city": '), result(0)],
    "cut strings": [turn('{"city": "Os'), result(0)],
    "no object": [turn('["a"]', "5", '"hello"', "true", "null", ""), *map(result, range(6))],
    "twice encoded": [turn(json.dumps('{"city": "Oslo"}')), result(0)],
    "halves of pairs": [turn('{"a": "\\ud83d"}'), result(0)],
    "invalid escapes": [turn('{"a": "C:\\Users"}'), result(0)],
    "depth": [turn('{"a": ' + "[" * 60 + "]" * 60 + "}", '{"a":' * 500), result(0), result(1)],
    "numbers": [turn('{"a": NaN, "b": 1e999, "c": -Infinity}'), result(0)],
    "unusual values": [turn('{"": {"": []}, "a": [null, true, 1.5, {"b": {}}]}'), result(0)],
    "ids of a family": [turn("{}", ids="functions.f:{}"), result(0, "functions.f:{}")],
    "no ids": [turn("{}", ids=""), {"role": "tool", "content": "zqresult"}],
    "no result": [turn("{}")],
    "no name": [turn("{}") | {"tool_calls": [{"function": {"arguments": "{}"}}]}, result(0)],
    "old form": [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{"}},
        {"role": "function", "name": "f", "content": "zqresult"},
    ],
    "thoughts only": [{"role": "assistant", "content": None, "reasoning_content": "zqthought"}],
    "nothing": [{"role": "assistant", "content": None}],
    "parts": [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "zqthought"},
                {"type": "output_text", "text": "zqtext"},
            ],
        }
    ],
    "refusal": [{"role": "assistant", "content": None, "refusal": "zqtext"}],
}


@pytest.mark.parametrize("more", [[], [{"role": "user", "content": "zqmore"}]], ids=["", "more"])
@pytest.mark.parametrize("name", ANSWERS)
def test_nothing_that_we_hand_out_is_refused(
    templates: dict[str, AdaptedTemplate], name: str, more: list[Json]
) -> None:
    answers = ANSWERS[name]
    for template_name, template in templates.items():
        if template_name == BROKEN:
            continue
        if answers[-1]["role"] == "assistant" and not more:
            continue  # nothing to answer
        text = render(template, USER, *answers, *more, tools=TOOLS)
        assert "zquser" in text, template_name
        # What was called before the user's last word, some show no more.
        if answers[-1]["role"] == "tool" and not more and template_name not in NO_RESULTS:
            assert "zqresult" in text, template_name


def test_results_come_in_the_order_of_the_calls(templates: dict[str, AdaptedTemplate]) -> None:
    for name, template in templates.items():
        if name not in NO_RESULTS and name != BROKEN:
            text = render(template, USER, turn("{}", "{}"), result(1), result(0), tools=TOOLS)
            assert text.index("zqresult0") < text.index("zqresult1"), name


@pytest.mark.parametrize(
    "function",
    [
        {"name": "zqtool"},
        {"name": "zqtool", "description": None, "parameters": None},
        {"name": "zqtool", "parameters": {}},
        {"name": "zqtool", "parameters": {"type": "object"}},
        {"name": "zqtool", "parameters": {"type": "object", "properties": {"x": {}}}},
        {
            "name": "zqtool",
            "parameters": {"type": "object", "properties": {"x": True, "y": {"type": "null"}}},
        },
        {
            "name": "zqtool",
            "parameters": {"type": "object", "properties": {"x": {"description": None}}},
        },
        {
            "name": "zqtool",
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {
                    "x": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                    "y": {"$ref": "#/$defs/Y"},
                    "z": {"type": ["string", "null"], "enum": ["a", None], "default": None},
                    "l": {"type": "array"},
                    "o": {"type": "object", "properties": {"p": {"enum": [1, 2]}}},
                },
                "$defs": {"Y": {"type": "integer"}},
            },
        },
    ],
)
def test_sparse_tools_are_no_error(templates: dict[str, AdaptedTemplate], function: Json) -> None:
    refused = {}
    for name, template in templates.items():
        if name == BROKEN:
            continue
        try:
            render(template, USER, tools=[{"type": "function", "function": function}])
        except Exception as exc:  # all of them are of interest
            refused[name] = str(exc)
    assert refused == {}
