"""Messages as agents send them, in the shape that templates expect.

Strategy: each message stays the client's own object, fields we do not know included;
only what templates commonly stumble over is changed, on a copy. What an answer of ours
can hold is never refused, however the client writes it back. What is refused says which
message and which part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglrouter.errors import BadRequest
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.past_calls import past_calls, past_function
from sglrouter.prompt.results import put_results_in_order
from sglrouter.prompt.thoughts import THOUGHT_PARTS, join_thoughts, take_thoughts, thought_text

Message = dict[str, Any]

# Whose messages hold no thoughts.
_WITHOUT_THOUGHTS = frozenset({"user", "system", "developer", "tool", "function"})

_TEXT_PARTS = ("text", "input_text", "output_text")


def normalise(
    messages: Sequence[Mapping[str, Any]],
    *,
    content_format: str,
    knows_developer: bool,
    knows_thinking: bool = False,
    budget: Budget | None = None,
) -> list[Message]:
    """Returns messages that the template can render.

    Args:
        messages: As the client sent them.
        content_format: "openai" to keep content parts as a list, "string" to join
            them with a space.
        knows_developer: Whether the template has a developer role; else it is system.
        knows_thinking: Whether the template takes content parts of type thinking.
        budget: The time for it.

    Raises:
        BadRequest: A message is malformed, or holds media, or there are too many.
    """
    if not messages:
        raise BadRequest("messages must not be empty", param="messages")
    normal = []
    old_call = ""
    has_calls = False
    for i, message in enumerate(messages):
        if budget is not None:
            budget.check()
        out = _normalise_one(message, i, content_format, knows_developer, knows_thinking)
        # Calls and results of the time before tools have no ids. Mistral's templates
        # want one of nine letters and digits.
        if "function_call" in out:
            old_call = f"call{i % 100_000:05}"
            out["tool_calls"] = [
                {"id": old_call, "type": "function", "function": out.pop("function_call")}
            ]
        elif out["role"] == "function":
            out["role"] = "tool"
            if old_call:
                out.setdefault("tool_call_id", old_call)
        has_calls = has_calls or "tool_calls" in out
        normal.append(out)
    if has_calls:
        put_results_in_order(normal)
    return normal


def _normalise_one(
    message: Mapping[str, Any],
    index: int,
    content_format: str,
    knows_developer: bool,
    knows_thinking: bool,
) -> Message:
    where = f"messages[{index}]"
    # SDKs write out the fields that a message has not; templates test for presence.
    out = {key: value for key, value in message.items() if value is not None}
    role = out.get("role")
    if not isinstance(role, str) or not role:
        raise BadRequest(f"{where}.role must be a non-empty string", param=f"{where}.role")
    if role == "developer" and not knows_developer:
        out["role"] = "system"
    content = out.get("content")
    thoughts: list[str] = []
    if role == "assistant":
        if isinstance(content, list):
            content, thoughts = take_thoughts(content)
        if not content and isinstance(out.get("refusal"), str):
            content = out["refusal"]
    if isinstance(content, str):
        out["content"] = content
    else:
        out["content"] = _content(content, f"{where}.content", role, content_format, knows_thinking)
    calls = out.pop("tool_calls", None)
    if calls:
        calls = past_calls(calls, f"{where}.tool_calls", index)
    if calls:
        out["tool_calls"] = calls
        out.pop("function_call", None)
    elif "function_call" in out:
        out["function_call"] = past_function(out["function_call"], f"{where}.function_call")
    if role not in _WITHOUT_THOUGHTS:
        join_thoughts(out, thoughts)
    return out


def _content(
    content: Any, where: str, role: str, content_format: str, knows_thinking: bool
) -> str | list[dict[str, str]]:
    if content is None:
        return ""
    if not isinstance(content, list):
        raise BadRequest(f"{where} must be a string or a list of parts", param=where)
    parts = [_part(part, f"{where}[{i}]") for i, part in enumerate(content) if part is not None]
    # A tool's result is text wherever templates read it.
    if content_format == "openai" and role not in ("tool", "function"):
        return [
            {"type": "thinking", "thinking": text}
            if kind == "thinking" and knows_thinking
            else {"type": "text", "text": text}
            for kind, text in parts
        ]
    return " ".join(text for _, text in parts)


def _part(part: Any, where: str) -> tuple[str, str]:
    """The type and the text of a part."""
    if isinstance(part, str):
        return "text", part
    if not isinstance(part, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    kind = part.get("type")
    if not isinstance(kind, str):
        kind = None
    if kind in THOUGHT_PARTS:
        return "thinking", thought_text(part)
    if kind in _TEXT_PARTS:
        text = part.get("text")
        if isinstance(text, str):
            return "text", text
        raise BadRequest(f"{where}.text must be a string", param=f"{where}.text")
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return "text", part["refusal"]
    raise BadRequest(
        f"{where} is of type {part.get('type')!r}; this server takes text only",
        code="unsupported_content",
        param=where,
    )
