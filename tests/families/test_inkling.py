"""Inkling's blocks; what they have in common with others is in formats/test_json_calls."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import reading_of, reads
from tests.families.reading import read, read_every_way

INKLING = TOOL_FORMATS["inkling"]

MODEL, CALL, TEXT = "<|message_model|>", "<|content_invoke_tool_json|>", "<|content_text|>"
THINKING, END = "<|content_thinking|>", "<|end_message|>"
NOW: tuple[str, dict[str, Any]] = ("now", {})
BLOCK = f'now{CALL}{{"name": "now", "args": {{}}}}{END}'


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"{TEXT}Hi <b>there</b>{END}<|content_model_end_sampling|>", "Hi <b>there</b>", []),
        (f"{BLOCK}{MODEL}{BLOCK}", "", [NOW, NOW]),
        (f"{TEXT}So.{END}{MODEL}{BLOCK}{MODEL}{TEXT}Now.{END}", "So.Now.", [NOW]),
        # Neither a name nor a marker at the start: an answer.
        ("Plain text.", "Plain text.", []),
        (f"{MODEL}Two words{END}", "Two words", []),
        ("x" * 300, "x" * 300, []),
        # Malformed, and no call.
        (f"a{CALL}{{bad}}{END}", f"{CALL}{{bad}}", []),
        (f"a{CALL}[]{END}{MODEL}{BLOCK}", f"{CALL}[]", [NOW]),
        (f"a<|content_invoke_tool_text|>ls -l{END}", "ls -l", []),
        (f'{CALL}{{"name": "now", "args": {{}} }} x{END}', " x", [NOW]),
    ],
)
def test_blocks(text: str, content: str, calls: list[object]) -> None:
    assert reads(INKLING, text) == (content, calls)


def test_thoughts_are_reasoning() -> None:
    text = f"{THINKING}Hm. {END}{MODEL}{TEXT}Yes.{END}{MODEL}{THINKING}More.{END}"
    result = read_every_way(reading_of(INKLING), text)
    assert (result.content, result.reasoning) == ("Yes.", "Hm. More.")


def test_cut_off_before_the_name() -> None:
    for end in range(len(f"now{CALL}"), len(BLOCK)):
        assert read(reading_of(INKLING), [BLOCK[:end]]).content == ""
