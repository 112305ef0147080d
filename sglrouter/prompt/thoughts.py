"""The thoughts of earlier answers, in whichever field or part a client keeps them.

Strategy: clients name them as the server they were written for did, and templates read
the name of their own model's training. So all forms are read, and the text is written
under every name that templates know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# The types of content parts that hold thoughts. Those of "redacted_thinking" are unreadable.
THOUGHT_PARTS = frozenset({"thinking", "reasoning", "redacted_thinking"})

# What templates call a turn's thoughts. Clients use the same names, the first first.
_NAMES = ("reasoning_content", "thinking", "reasoning", "thought")
# OpenRouter's list of parts.
_DETAILS = "reasoning_details"

# Where a part holds its text, which may be parts again.
_TEXTS = ("thinking", "text", "reasoning", "reasoning_content", "summary", "content")
_DEPTH = 4


def take_thoughts(parts: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Takes the thoughts out of an answer's content.

    Returns:
        The parts that are no thoughts, and the texts of those that are.
    """
    others: list[Any] = []
    thoughts = []
    for part in parts:
        if isinstance(part, dict) and _is_thought(part.get("type")):
            thoughts.append(thought_text(part))
        else:
            others.append(part)
    return others, thoughts


def _is_thought(kind: object) -> bool:
    return isinstance(kind, str) and kind in THOUGHT_PARTS


def join_thoughts(message: dict[str, Any], thoughts: Sequence[str]) -> None:
    """Writes an answer's thoughts where templates look for them.

    Args:
        message: The message, which is changed.
        thoughts: Those of its content, which count if no field has any.
    """
    texts = [thought_text(message[name]) for name in _NAMES if name in message]
    details = message.pop(_DETAILS, None)
    if not texts and not thoughts and details is None:
        return
    text = next(filter(None, texts), "") or "\n".join(filter(None, thoughts))
    text = text or thought_text(details)
    for name in _NAMES:
        message[name] = text


def thought_text(value: Any, depth: int = _DEPTH) -> str:
    """The text of a part of thoughts, of a list of them, or of a field."""
    if isinstance(value, str):
        return value
    if depth:
        if isinstance(value, list):
            texts = (thought_text(item, depth - 1) for item in value)
            return "\n".join(filter(None, texts))
        if isinstance(value, dict):
            texts = (thought_text(value.get(key), depth - 1) for key in _TEXTS)
            return next(filter(None, texts), "")
    return ""
