"""Messages as agents send them, in the shape that templates expect.

Strategy: each message stays the client's own object, fields we do not know included;
only what templates commonly stumble over is changed, on a copy. What is refused says
which message and which part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sglrouter.errors import BadRequest
from sglrouter.prompt.budget import Budget

Message = dict[str, Any]

_TEXT_PARTS = ("text", "input_text")

# What a turn's reasoning is called by clients, the name that templates read first.
_REASONING = ("reasoning_content", "thinking", "reasoning")


def normalise(
    messages: Sequence[Mapping[str, Any]],
    *,
    content_format: str,
    knows_developer: bool,
    budget: Budget | None = None,
) -> list[Message]:
    """Returns messages that the template can render.

    Args:
        messages: As the client sent them.
        content_format: "openai" to keep content parts as a list, "string" to join
            them with a space.
        knows_developer: Whether the template has a developer role; else it is system.
        budget: The time for it.

    Raises:
        BadRequest: A message is malformed, or holds media, or there are too many.
    """
    if not messages:
        raise BadRequest("messages must not be empty", param="messages")
    normal = []
    old_call = ""
    for i, message in enumerate(messages):
        if budget is not None:
            budget.check()
        out = _normalise_one(message, f"messages[{i}]", content_format, knows_developer)
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
        normal.append(out)
    return normal


def _normalise_one(
    message: Mapping[str, Any], where: str, content_format: str, knows_developer: bool
) -> Message:
    # SDKs write out the fields that a message has not; templates test for presence.
    out = {key: value for key, value in message.items() if value is not None}
    role = out.get("role")
    if not isinstance(role, str) or not role:
        raise BadRequest(f"{where}.role must be a non-empty string", param=f"{where}.role")
    if role == "developer" and not knows_developer:
        out["role"] = "system"
    out["content"] = _content(out.get("content"), f"{where}.content", role, content_format)
    if out.get("tool_calls"):
        out["tool_calls"] = _tool_calls(out["tool_calls"], f"{where}.tool_calls")
        out.pop("function_call", None)
    else:
        out.pop("tool_calls", None)
        if "function_call" in out:
            out["function_call"] = _function(out["function_call"], f"{where}.function_call")
    reasoning = next((out[name] for name in _REASONING if name in out), None)
    if reasoning is not None:
        # gpt-oss reads thinking, all others reasoning_content.
        out.setdefault("thinking", reasoning)
        out["reasoning_content"] = reasoning
    return out


def _content(content: Any, where: str, role: str, content_format: str) -> Any:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadRequest(f"{where} must be a string or a list of parts", param=where)
    texts = [_part_text(part, f"{where}[{i}]") for i, part in enumerate(content)]
    # A tool's result is text wherever templates read it.
    if content_format == "openai" and role not in ("tool", "function"):
        return [{"type": "text", "text": text} for text in texts]
    return " ".join(texts)


def _part_text(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    kind = part.get("type")
    if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        refusal: str = part["refusal"]
        return refusal
    if kind in _TEXT_PARTS:
        raise BadRequest(f"{where}.text must be a string", param=f"{where}.text")
    raise BadRequest(
        f"{where} is of type {kind!r}; this server takes text only",
        code="unsupported_content",
        param=where,
    )


def _tool_calls(calls: Any, where: str) -> list[Any]:
    if not isinstance(calls, list):
        raise BadRequest(f"{where} must be a list", param=where)
    return [_tool_call(call, f"{where}[{i}]") for i, call in enumerate(calls)]


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    return {**call, "function": _function(call.get("function"), f"{where}.function")}


def _function(function: Any, where: str) -> dict[str, Any]:
    """A past call with its arguments as an object: templates print them with tojson."""
    if not isinstance(function, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    arguments = function.get("arguments")
    where = f"{where}.arguments"
    if arguments is None or arguments == "":
        arguments = {}
    elif isinstance(arguments, str):
        try:
            arguments = msgspec.json.decode(arguments)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise BadRequest(f"{where} is not valid JSON: {exc}", param=where) from exc
        if arguments is None:
            arguments = {}
    if not isinstance(arguments, dict):
        raise BadRequest(f"{where} must be a JSON object", param=where)
    return {**function, "arguments": arguments}
