"""What is known by name, and what a model's own files lead to."""

from __future__ import annotations

import pytest

from sglrouter.errors import ConfigError
from sglrouter.families.detection import REASONING_SIGNATURES, TOOL_SIGNATURES
from sglrouter.families.registry import (
    AUTO,
    TOOL_FORMATS,
    choose_formats,
    reasoning_format,
    tool_format,
)

QWEN = "<think>{{ x }}</think><tool_call>"


def test_whatever_is_detected_can_be_read() -> None:
    for signature in TOOL_SIGNATURES:
        assert tool_format(signature.parser) is not None
    for signature in REASONING_SIGNATURES:
        formats = choose_formats("", signature.parser, "", ())
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
    assert reasoning_format("deepseek_r1") is reasoning_format("deepseek-r1")
    assert tool_format("passthrough") is tool_format("") is None


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    with pytest.raises(ConfigError, match=r"did you mean .*qwen25"):
        tool_format("qwen2.5")
    with pytest.raises(ConfigError, match=r"there are .*mistral"):
        reasoning_format("xyzzy")
