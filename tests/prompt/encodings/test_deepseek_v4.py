"""DeepSeek V4's and V4.1's prompts, as their own encoders write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglrouter.prompt.conversation import PromptBuilder
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.model_files import read_model_files
from tests.prompt.encodings.conversations import (
    ASKED,
    BOS,
    BOT,
    CALLED,
    EOS,
    ONLY_JSON,
    SCHEMA,
    STRICTLY,
    TOOL,
    TWICE,
    USER,
    V4,
    folder,
    message,
    render,
    with_markers,
)


@pytest.mark.parametrize("name", V4)
def test_with_tools_v4_keeps_all_thoughts(name: str) -> None:
    prompt = render(name, TWICE, [TOOL], thinking=True)
    assert prompt.endswith(f"{USER}hi{BOT}<think>why</think>yo{EOS}{USER}more{BOT}<think>")
    prompt = render(name, TWICE, [TOOL])
    assert prompt.endswith(f"{USER}hi{BOT}</think>yo{EOS}{USER}more{BOT}</think>")


@pytest.mark.parametrize(
    ("name", "prefix", "block"),
    [("deepseek_v4", "｜DSML｜", "tool_calls"), ("deepseek_v41", "｜DSML｜ ", "calls")],
)
def test_calls_and_results_of_v4(name: str, prefix: str, block: str) -> None:
    calls = (
        f"\n\n<{prefix}{block}>\n"
        f'<{prefix}invoke name="get">\n'
        f'<{prefix}parameter name="city" string="true">Köln</{prefix}parameter>\n'
        f'<{prefix}parameter name="n" string="false">[1, 2.0, {{"x": null}}]</{prefix}parameter>\n'
        f'<{prefix}parameter name="on" string="false">true</{prefix}parameter>\n'
        f"</{prefix}invoke>\n"
        f'<{prefix}invoke name="get">\n\n</{prefix}invoke>\n'
        f"</{prefix}{block}>"
    )
    results = "<tool_result>first</tool_result>\n\n<tool_result>second</tool_result>"
    quick = render(name, CALLED)
    assert quick.endswith(
        f"{USER}hi{BOT}</think>Let me see.{calls}{EOS}{USER}{results}{BOT}</think>"
    )
    slow = render(name, CALLED, [TOOL], thinking=True)
    assert slow.endswith(
        f"{USER}hi{BOT}<think>hm</think>Let me see.{calls}{EOS}{USER}{results}{BOT}<think>"
    )
    # A question behind results is part of their turn.
    more = render(name, [*CALLED, message("user", "so?")])
    assert more.endswith(f"{results}\n\nso?{BOT}</think>")


@pytest.mark.parametrize(
    ("name", "effort", "words"),
    [
        ("deepseek_v32", "max", ""),
        ("deepseek_v4_preview", None, ""),
        ("deepseek_v4_preview", "high", ""),
        ("deepseek_v4_preview", "max", "Absolute maximum"),
        ("deepseek_v4", None, ""),
        ("deepseek_v4", "low", ""),
        ("deepseek_v4", "high", "Absolute maximum"),
        ("deepseek_v4", "max", "Beyond maximum"),
        ("deepseek_v41", None, "75 (range"),
        ("deepseek_v41", "low", "50 (range"),
        ("deepseek_v41", "max", "100 (range"),
        ("deepseek_v41", 30, "30 (range"),
        ("deepseek_v41", 0.3, "30 (range"),
        ("deepseek_v41", 1000, "100 (range"),
    ],
)
def test_how_hard_to_think_is_said_first(name: str, effort: Any, words: str) -> None:
    for messages in (ASKED, ASKED[1:]):
        prompt = render(name, messages, thinking=True, reasoning_effort=effort)
        assert ("Reasoning Effort: " in prompt) is bool(words)
        if words:
            system = "<｜System｜>" if name == "deepseek_v41" else ""
            assert prompt.startswith(f"{BOS}{system}Reasoning Effort: {words}")
            text = messages[0]["content"] if len(messages) > 1 else ""
            assert f"\n\n{text}{USER}hi" in prompt
        assert "Effort" not in render(name, messages, reasoning_effort=effort)


@pytest.mark.parametrize("name", V4)
def test_reminders_and_formats(name: str) -> None:
    asked = [
        message("system", "S", response_format={"type": "object"}),
        message("user", "q"),
        message("latest_reminder", "r"),
    ]
    prompt = render(name, asked)
    assert prompt.endswith(
        "S\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
        f'{{"type": "object"}}{USER}q<｜latest_reminder｜>r{BOT}</think>'
    )


@pytest.mark.parametrize(
    ("name", "wanted", "words"),
    [
        ("deepseek_v4", SCHEMA, f'{STRICTLY}{{"type": "object"}}'),
        ("deepseek_v41", SCHEMA, f'{STRICTLY}{{"type": "object"}}'),
        ("deepseek_v4", {"type": "json_object"}, ONLY_JSON),
        ("deepseek_v41", {"type": "json_object"}, f'{STRICTLY}{{"type": "json_object"}}'),
    ],
)
def test_the_requests_format_is_told_once(name: str, wanted: Any, words: str) -> None:
    more = [*ASKED, message("system", "late"), message("user", "more")]
    for messages in (ASKED, ASKED[1:], more):
        prompt = render(name, messages, response_format=wanted)
        assert prompt.count("## Response Format") == 1
        assert f"\n\n{words}{USER}hi" in prompt
        assert f"\n\n\n{words}{USER}hi" in render(name, messages, [TOOL], response_format=wanted)
    for other in ({"type": "text"}, {"type": "structural_tag"}, None, {"type": "json_schema"}):
        assert render(name, ASKED, response_format=other) == render(name, ASKED)


def test_a_request_says_its_format_to_v4_only(tmp_path: Path) -> None:
    tokenizer = reference_encoder(with_markers())
    for model_type, shows in (("deepseek_v4", True), ("deepseek_v32", False), ("other", False)):
        files = read_model_files(folder(tmp_path, {"model_type": model_type}))
        assert PromptBuilder(files, tokenizer).shows_response_format is shows


@pytest.mark.parametrize("name", V4)
def test_users_and_results_in_a_row_are_one_turn(name: str) -> None:
    asked = [
        *CALLED,
        message("user", "so?"),
        message("user", ""),
        message("tool", "late", tool_call_id="z"),
    ]
    prompt = render(name, asked)
    one = "<tool_result>first</tool_result>\n\n<tool_result>second</tool_result>\n\nso?"
    assert prompt.endswith(f"{USER}{one}\n\n\n\n<tool_result>late</tool_result>{BOT}</think>")


@pytest.mark.parametrize("effort", [True, "thirty", -5, 0, 1e9, [1]])
def test_an_odd_effort_is_the_usual_one_or_the_nearest(effort: Any) -> None:
    prompt = render("deepseek_v41", ASKED, thinking=True, reasoning_effort=effort)
    usual = not isinstance(effort, int | float) or effort is True
    wanted = 75 if usual else 1 if effort < 1 else 100
    assert f"Reasoning Effort: {wanted} (range" in prompt
    # The other versions have words for theirs alone.
    for name in ("deepseek_v4_preview", "deepseek_v4"):
        assert "Effort" not in render(name, ASKED, thinking=True, reasoning_effort=effort)


def test_late_instructions_are_marked_where_the_version_does() -> None:
    late = [*ASKED, message("system", "Late."), message("user", "more")]
    assert f"hi<｜System｜>Late.{USER}more" in render("deepseek_v41", late)
    assert f"hiLate.{USER}more" in render("deepseek_v4", late)
    # Empty ones leave no mark.
    empty = [message("system", ""), message("user", "hi")]
    assert render("deepseek_v41", empty) == f"{BOS}{USER}hi{BOT}</think>"
