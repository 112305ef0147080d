"""Thoughts of earlier answers, in all that clients write them in."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.prompt.messages import normalise

Json = dict[str, Any]
NAMES = ("reasoning_content", "thinking", "reasoning", "thought")
TEXT = {"type": "text", "text": "yes"}


def normalised(
    message: Json, content_format: str = "string", *, knows_thinking: bool = False
) -> Json:
    (out,) = normalise(
        [message],
        content_format=content_format,
        knows_developer=False,
        knows_thinking=knows_thinking,
    )
    return out


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "r"},
        {"reasoning": "r"},
        {"thinking": "r"},
        {"thought": "r"},
        {"reasoning_content": "r", "reasoning": "other"},
        {"reasoning_content": None, "thinking": "r"},
        {"reasoning_content": "", "thinking": "r"},
        {"reasoning": {"text": "r"}},
        {"reasoning_details": [{"type": "reasoning.text", "text": "r", "signature": "x"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "r"}]},
        {"reasoning": "r", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
        {"content": [{"type": "thinking", "thinking": "r", "signature": "x"}, TEXT]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, TEXT]},
        {"content": [{"type": "reasoning", "text": "r"}, TEXT]},
        {"content": [{"type": "reasoning", "reasoning": "r"}, TEXT]},
        {"content": [{"type": "reasoning", "content": [{"type": "text", "text": "r"}]}, TEXT]},
        {
            "content": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r"}]},
                TEXT,
            ]
        },
        {"content": [{"type": "redacted_thinking", "data": "x"}, TEXT], "reasoning": "r"},
        {"content": [TEXT, {"type": "thinking", "thinking": "r"}], "reasoning": "r"},
    ],
)
@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_thoughts_get_the_names_that_templates_read(fields: Json, content_format: str) -> None:
    out = normalised({"role": "assistant", "content": "yes", **fields}, content_format)
    assert [out[name] for name in NAMES] == ["r"] * 4
    assert out["content"] in ("yes", [TEXT])
    assert "reasoning_details" not in out


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": None},
        {"content": [TEXT, {"type": "redacted_thinking", "data": "x"}]},
        {"reasoning_details": None},
    ],
)
def test_no_thoughts_are_never_made_up(fields: Json) -> None:
    out = normalised({"role": "assistant", "content": "yes", **fields})
    assert out["content"] == "yes"
    assert not any(out.get(name) for name in NAMES)


def test_several_thoughts_of_one_answer_are_kept() -> None:
    parts = [{"type": "thinking", "thinking": "a"}, TEXT, {"type": "thinking", "thinking": "b"}]
    assert normalised({"role": "assistant", "content": parts})["thinking"] == "a\nb"


def test_instructions_keep_their_example_of_thoughts_in_place() -> None:
    """Mistral's own system prompt for reasoning has one."""
    parts = [TEXT, {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}]
    message = {"role": "system", "content": parts}
    assert normalised(message)["content"] == "yes so"
    assert normalised(message, "openai", knows_thinking=True)["content"] == [
        TEXT,
        {"type": "thinking", "thinking": "so"},
    ]


def test_a_refusal_is_what_the_assistant_said() -> None:
    assert normalised({"role": "assistant", "content": None, "refusal": "no"})["content"] == "no"
    assert normalised({"role": "assistant", "content": "x", "refusal": "no"})["content"] == "x"
