"""Tries at start whether a chat template leaves the letters of control tokens alone.

Stand-ins (sglrouter.prompt.control_text) must come out where their letters would. A
template that escapes "<", or writes JSON in ASCII, changes them into something that
cannot be put back; it does so for every message, so a few samples show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.control_text import ControlText
from sglrouter.prompt.encodings.encoding import Encoding
from sglrouter.prompt.messages import Message

# Seconds and characters for a sample.
_ENOUGH = (10.0, 1_000_000)


def check_template(template: AdaptedTemplate | Encoding, control: ControlText) -> None:
    """Renders samples with and without stand-ins.

    Raises:
        ConfigError: They come out differently.
    """
    for messages, tools in _samples(control.letters, template.content_format):
        try:
            plain = _render(template, messages, tools)
        except BadRequest:
            continue  # not every template takes every conversation
        try:
            same = control.restore(_render(template, *control.mark((messages, tools)))) == plain
        except BadRequest:
            same = False
        if not same:
            raise ConfigError(
                "control_tokens: this chat template rewrites the letters of control tokens, so "
                "they cannot be kept apart; set control_tokens to allow"
            )


def _render(
    template: AdaptedTemplate | Encoding,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
) -> str:
    return template.render(messages, tools, Budget(*_ENOUGH))


def _samples(
    letters: str, content_format: str
) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None]]:
    text = " ".join(f"a {letter} b{letter}c" for letter in letters)

    def message(role: str, **fields: Any) -> dict[str, Any]:
        parts = content_format == "openai" and role != "tool"
        return {
            "role": role,
            "content": [{"type": "text", "text": text}] if parts else text,
        } | fields

    call = {
        "id": "abcdefghi",
        "type": "function",
        "function": {"name": "f", "arguments": {"x": text, "y": [text]}},
    }
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "description": text,
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "string", "description": text}},
            },
        },
    }
    turns = [message("user"), message("assistant"), message("user")]
    calls = [
        message("user"),
        message("assistant", content="", tool_calls=[call]),
        message("tool", tool_call_id="abcdefghi", name="f"),
        message("assistant"),
        message("user"),
    ]
    return [
        (turns, None),
        ([message("system"), *turns], None),
        (turns, [tool]),
        (calls, [tool]),
        ([message("system"), *calls], [tool]),
    ]
