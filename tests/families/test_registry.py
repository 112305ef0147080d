"""What is known by name, and what a model's own files lead to."""

from __future__ import annotations

import pytest

from sglrouter.errors import ConfigError
from sglrouter.families.registry import (
    AUTO,
    KNOWN,
    REASONING_FORMATS,
    TOOL_FORMATS,
    choose_formats,
    tool_format,
)

QWEN = "<think>{{ x }}</think><tool_call>"


def test_every_name_is_there() -> None:
    """The names of SGLang's parsers, of the gateways', and our own."""
    assert set(TOOL_FORMATS) == {
        "apertus", "apertus2509", "cohere", "cohere_command4", "deepseek", "deepseek31",
        "deepseek32", "deepseek_v4", "deepseekv3", "deepseekv31", "deepseekv32", "deepseekv4",
        "deepseekv41", "dots", "gemma4", "gigachat3", "gigachat35", "glm", "glm45", "glm45_moe",
        "glm47", "glm47_moe", "gpt-oss", "granite3", "granite_20b_fc", "hermes", "hunyuan",
        "inkling", "internlm", "interns1", "iquest_q1", "jamba", "json", "k2_horizon", "kimi_k2",
        "kimi_k3", "kimik2", "lfm2", "ling3", "llama", "llama3", "mimo", "minicpm5",
        "minimax-m2", "minimax-m3", "minimax_m2", "minimax_m3", "mistral", "muse", "nanbeige",
        "nemotron_json", "olmo3", "phi4_mini", "poolside_v1", "pythonic", "qwen", "qwen25",
        "qwen3_coder", "qwen_coder", "qwen_xml", "sarashina", "seed_oss", "spark25", "step3",
        "step3p5", "trinity", "xlam",
    }  # fmt: skip
    assert set(REASONING_FORMATS) == {
        "apertus2509", "base", "cohere_cmd", "cohere_command4", "deepseek-r1", "deepseek-v3",
        "deepseek-v4", "deepseek-v41", "deepseek_r1", "deepseek_v31", "dots", "gemma4",
        "gigachat35", "glm45", "granite_thinking_parser", "hunyuan", "interns1", "iquest_q1",
        "k2_horizon", "kimi", "kimi_k2", "kimi_k25", "kimi_k3", "kimi_thinking", "ling3", "mimo",
        "minimax", "minimax-append-think", "minimax-m3", "mistral", "muse", "nanbeige", "nano_v3",
        "nemotron_3", "poolside_v1", "qwen3", "qwen3-thinking", "qwen3_thinking", "seed_oss",
        "step3", "step3p5",
    }  # fmt: skip


def test_some_call_in_their_own_format_by_training_alone() -> None:
    trained = {name for name, family in KNOWN.writers.items() if family.by_training}
    assert trained == {"hunyuan", "spark25", "muse"}
    assert all(KNOWN.writers[name].tag is None for name in trained)


def test_whatever_is_detected_can_be_read() -> None:
    for _, parser in KNOWN.call_signatures:
        assert tool_format(parser) is not None
    for _, parser in KNOWN.reasoning_signatures:
        formats = choose_formats("", parser, "", ())
        assert formats.reasoning is not None or formats.calls is not None


@pytest.mark.parametrize(
    ("family", "token"),
    [
        ("kimi_k2", "<|tool_call_argument_begin|>"),
        ("mistral", "[ARGS]"),
        ("mistral", "[CALL_ID]"),
        ("deepseekv31", "<｜tool▁sep｜>"),
        ("gpt-oss", "<|constrain|>"),
        ("cohere_command4", "<|START_ACTION|>"),
        ("hunyuan", "<tool_sep>"),
        ("gemma4", '<|"|>'),
        ("step3", "<｜tool_sep｜>"),
    ],
)
def test_every_special_token_of_a_format_is_to_be_shown(family: str, token: str) -> None:
    assert any(token in marker for marker in TOOL_FORMATS[family].markers)


def test_a_template_tells_its_formats() -> None:
    formats = choose_formats(AUTO, AUTO, QWEN, ())
    assert (formats.tool_parser, formats.reasoning_parser) == ("hermes", "qwen3")
    assert formats.calls is TOOL_FORMATS["hermes"]
    assert choose_formats(AUTO, AUTO, "{{ messages }}", ()) == choose_formats("", "", "", ())


def test_a_name_counts_more_than_a_template() -> None:
    formats = choose_formats("mistral", "", QWEN, ())
    assert formats.calls is TOOL_FORMATS["mistral"]
    assert formats.reasoning is None


@pytest.mark.parametrize("tool_parser", ["", "gpt-oss"])
def test_one_format_may_be_both(tool_parser: str) -> None:
    formats = choose_formats(tool_parser, "gpt-oss", "", ())
    assert formats.calls is TOOL_FORMATS["gpt-oss"]
    assert formats.reasoning is None


def test_spellings_of_both_gateways_are_known() -> None:
    assert tool_format("Qwen3-Coder") is tool_format("qwen3_coder")
    assert KNOWN.reasoning_format("deepseek_r1") is KNOWN.reasoning_format("deepseek-r1")
    assert tool_format("passthrough") is tool_format("") is None


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(ConfigError, match=r"did you mean .*qwen25"):
        tool_format("qwen2.5")
    with pytest.raises(ConfigError, match=r"there are .*mistral"):
        KNOWN.reasoning_format("xyzzy")
