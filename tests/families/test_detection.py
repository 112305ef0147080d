"""Parsers told from templates: small ones of our own, and all that the corpus has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglrouter.families.detection import Signature, detect
from sglrouter.families.registry import KNOWN

# What each template of the corpus asks for, by reading it. All others have no markers.
# llamacpp__meetkai-functionary-* write calls in ways that no parser here reads.
TEMPLATES: dict[str, tuple[str | None, str | None]] = {
    "axolotl__mistral_v2v3": ("mistral", None),
    "axolotl__mistral_v3_tekken": ("mistral", None),
    "axolotl__phi_4": (None, "base"),
    "axolotl__qwen3": ("hermes", "qwen3"),
    "axolotl__qwen3_5": ("hermes", "qwen3"),
    "lenml__deepseek_v3": ("deepseekv3", None),
    "llamacpp__Apertus-8B-Instruct": ("apertus2509", "apertus2509"),
    "llamacpp__Apriel-1.6-15b-Thinker-fixed": ("jamba", None),
    "llamacpp__Bielik-11B-v3.0-Instruct": ("hermes", "qwen3"),
    "llamacpp__ByteDance-Seed-OSS": ("seed_oss", "seed_oss"),
    "llamacpp__GLM-4.6": ("glm45", "glm45"),
    "llamacpp__GLM-4.7-Flash": ("glm47", "glm45"),
    "llamacpp__GigaChat3-10B-A1.8B": ("gigachat3", None),
    "llamacpp__GigaChat3.1-10B-A1.8B": ("gigachat3", None),
    "llamacpp__HuggingFaceTB-SmolLM3-3B": (None, "base"),
    "llamacpp__Kimi-K2-Instruct": ("kimi_k2", None),
    "llamacpp__Kimi-K2-Thinking": ("kimi_k2", "kimi_k2"),
    "llamacpp__MiMo-VL": ("hermes", None),
    "llamacpp__MiniMax-M1": ("jamba", None),
    "llamacpp__MiniMax-M2": ("minimax-m2", "minimax"),
    "llamacpp__Mistral-Small-3.2-24B-Instruct-2506": ("mistral", None),
    "llamacpp__Qwen-QwQ-32B": ("hermes", "qwen3"),
    "llamacpp__Qwen-Qwen2.5-7B-Instruct": ("hermes", None),
    "llamacpp__Qwen-Qwen3-0.6B": ("hermes", "qwen3"),
    "llamacpp__Qwen3-Coder": ("qwen3_coder", None),
    "llamacpp__Qwen3.5-4B": ("qwen3_coder", "qwen3"),
    "llamacpp__StepFun3.5-Flash": ("qwen3_coder", "qwen3"),
    "llamacpp__deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("deepseekv3", "deepseek-r1"),
    "llamacpp__deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseekv3", "deepseek-v3"),
    "llamacpp__deepseek-ai-DeepSeek-V3.1": ("deepseekv31", "deepseek-v3"),
    "llamacpp__deepseek-ai-DeepSeek-V3.2": ("deepseekv32", "deepseek-v3"),
    "llamacpp__ibm-granite-granite-3.3-2B-Instruct": ("granite3", "base"),
    "llamacpp__ibm-granite-granite-4.0": ("hermes", None),
    "llamacpp__ibm-granite-granite-4.1": ("hermes", None),
    "llamacpp__llama-cpp-deepseek-r1": ("deepseekv3", "deepseek-r1"),
    "llamacpp__llama-cpp-rwkv-world": (None, "base"),
    "llamacpp__mistralai-Ministral-3-14B-Reasoning-2512": ("mistral", "mistral"),
    "llamacpp__mistralai-Mistral-Nemo-Instruct-2407": ("mistral", None),
    "llamacpp__moonshotai-Kimi-K2": ("kimi_k2", None),
    "llamacpp__openai-gpt-oss-120b": ("gpt-oss", "gpt-oss"),
    "llamacpp__unsloth-Apriel-1.5": ("jamba", None),
    "llamacpp__unsloth-mistral-Devstral-Small-2507": ("mistral", None),
    "mistral_common__v11_tekken": ("mistral", None),
    "mistral_common__v13_tekken_image": ("mistral", None),
    "mistral_common__v13_tekken_image_think": ("mistral", "mistral"),
    "mistral_common__v2_spm": ("mistral", None),
    "mistral_common__v2_tekken": ("mistral", None),
    "mistral_common__v3_spm": ("mistral", None),
    "mistral_common__v3_tekken": ("mistral", None),
    "mistral_common__v7_spm": ("mistral", None),
    "mistral_common__v7_tekken_image": ("mistral", None),
    "trl__deepseek_r1_distill": ("deepseekv3", "deepseek-r1"),
    "trl__deepseekv3": ("deepseekv3", "deepseek-r1"),
    "trl__glm4moe": ("glm45", "glm45"),
    "trl__glm4moe_training": ("glm45", "glm45"),
    "trl__qwen3": ("hermes", "qwen3"),
    "trl__qwen3_5_nothink": ("qwen3_coder", "qwen3"),
    "trl__qwen3_6": ("qwen3_coder", "qwen3"),
    "trl__qwen3_instruct_2507": ("hermes", None),
    "trl__qwen3_training": ("hermes", "qwen3"),
    "trl__qwen3_vl": ("hermes", None),
    "vllm__tool_chat_template_apertus": ("apertus2509", "apertus2509"),
    "vllm__tool_chat_template_deepseekr1": ("deepseekv3", "base"),
    "vllm__tool_chat_template_deepseekv3": ("deepseekv3", None),
    "vllm__tool_chat_template_deepseekv31": ("deepseekv31", "deepseek-v3"),
    "vllm__tool_chat_template_glm4": ("glm45", None),
    "vllm__tool_chat_template_granite": ("granite3", None),
    "vllm__tool_chat_template_granite_20b_fc": ("granite_20b_fc", None),
    "vllm__tool_chat_template_hermes": ("hermes", None),
    "vllm__tool_chat_template_internlm2_tool": ("interns1", None),
    "vllm__tool_chat_template_mistral": ("mistral", None),
    "vllm__tool_chat_template_mistral3": ("mistral", None),
    "vllm__tool_chat_template_mistral_parallel": ("mistral", None),
    "vllm__tool_chat_template_phi4_mini": ("phi4_mini", None),
    "vllm__tool_chat_template_qwen3coder": ("qwen3_coder", None),
    "vllm__tool_chat_template_xlam_qwen": ("xlam", None),
}

# By the vocabulary alone, and with the model's own template.
TOKENIZERS: dict[str, tuple[tuple[str | None, str | None], tuple[str | None, str | None]]] = {
    "deepseek-v3": (("deepseekv3", None), ("deepseekv3", None)),
    "gpt-oss": (("gpt-oss", "gpt-oss"), ("gpt-oss", "gpt-oss")),
    "mistral-spm-v3": (("mistral", None), ("mistral", None)),
    "mistral-tekken-240911": (("mistral", None), ("mistral", None)),
    "qwen3": (("hermes", "qwen3"), ("hermes", "qwen3")),
    "smollm2-135m-instruct": ((None, None), (None, None)),
}


def test_every_template_of_the_corpus(corpus: Path) -> None:
    wrong = {}
    paths = sorted((corpus / "chat_templates" / "templates").glob("*.jinja"))
    assert {path.stem for path in paths} >= set(TEMPLATES)
    for path in paths:
        source = path.read_text()
        found = KNOWN.detect_tool_parser(source, ()), KNOWN.detect_reasoning_parser(source, ())
        if found != TEMPLATES.get(path.stem, (None, None)):
            wrong[path.stem] = found
    assert not wrong


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_tokenizer_of_the_corpus(corpus: Path, name: str) -> None:
    folder = corpus / "tokenizers" / name
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokens = {token["content"] for token in tokenizer["added_tokens"]}
    template = json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template", "")
    if (folder / "chat_template.jinja").exists():
        template = (folder / "chat_template.jinja").read_text()
    alone, with_template = TOKENIZERS[name]
    assert (
        KNOWN.detect_tool_parser("", tokens),
        KNOWN.detect_reasoning_parser("", tokens),
    ) == alone
    assert (
        KNOWN.detect_tool_parser(template, tokens),
        KNOWN.detect_reasoning_parser(template, tokens),
    ) == with_template


@pytest.mark.parametrize(
    "signatures",
    [KNOWN.call_signatures, KNOWN.reasoning_signatures],
    ids=["calls", "reasoning"],
)
def test_every_signature_is_the_first_for_what_has_only_its_marks(
    signatures: list[tuple[Signature, str]],
) -> None:
    for signature, parser in signatures:
        template = " | ".join((*signature.texts, *signature.code[:1]))
        assert detect(signatures, template, set(signature.tokens)) == parser, signature


@pytest.mark.parametrize(
    ("template", "parser"),
    [
        ("{{ '<tool_call>{\"name\": ' }}", "hermes"),
        ("{{ '<tool_call>\\n<function=' }} <parameter=", "qwen3_coder"),
        ("<tool_call><function= <parameter= {% set enable_thinking = false %}", "mimo"),
        (
            "{%- set enable_thinking = enable_thinking | default(False) %}<function=<parameter=",
            "mimo",
        ),
        ("[gMASK]<sop> <arg_key> {{- '<tool_call>' + tc.name -}}", "glm47"),
        ("[gMASK]<sop> <arg_key> {{ '\\n<tool_call>' + tc.name }}", "glm45"),
        ("{% set d = '｜DSML｜' %}{{ '<' + d + 'function_calls>' }}", "deepseekv32"),
        ("<｜DSML｜tool_calls>", "deepseekv4"),
        ("<｜DSML｜ calls>", "deepseekv41"),
        ("<｜tool▁sep｜>{{ name }}\n```json", "deepseekv3"),
        ('<|start_header_id|> tools {"name": f, "parameters": p}', "llama3"),
        ("<|header_start|> tools", "pythonic"),
        ("<|channel|> <rfl:parameter", None),
        ("<tool_calls>[", "jamba"),
        ("<tool_calls> <tool_sep>", "hunyuan"),
        ("<tool_calls:opensource> <tool_sep:opensource>", "hunyuan"),
        ("{{ message.content }}", None),
        ("", None),
    ],
)
def test_calls(template: str, parser: str | None) -> None:
    assert KNOWN.detect_tool_parser(template, ()) == parser


@pytest.mark.parametrize(
    ("template", "parser"),
    [
        ("<think>", None),  # a model that only must not see it
        ("content.split('</think>')", "base"),
        ("<think></think><tool_call>", "qwen3"),
        ("<think></think><tool_call><arg_key>", "glm45"),
        ("<｜Assistant｜><think>\n", "deepseek-r1"),
        ("<｜Assistant｜></think> <｜tool▁sep｜> {% if thinking %}", "deepseek-v3"),
        ("<｜Assistant｜> </think>", "base"),
        ("<|tool_calls_section_begin|>", None),
        ("<think> <|tool_calls_section_begin|>", "kimi_k2"),
        ("", None),
    ],
)
def test_reasoning(template: str, parser: str | None) -> None:
    assert KNOWN.detect_reasoning_parser(template, ()) == parser


def test_a_template_counts_more_than_the_vocabulary() -> None:
    tokens = {"<tool_call>", "<think>", "[TOOL_CALLS]"}
    assert KNOWN.detect_tool_parser("{{ message.content }}", tokens) is None
    assert KNOWN.detect_reasoning_parser("{{ message.content }}", tokens) is None
    assert KNOWN.detect_tool_parser("", tokens) == "mistral"
