"""Other forms of a conversation, for a template that refuses the first.

Strategy: a conversation is rendered as the client wrote it; only when the template
raises is it worth guessing why. Some old templates want the bare function where OpenAI
wraps it in a tool, and many refuse a system message that is not the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sglrouter.prompt.messages import Message

Tools = Sequence[Mapping[str, Any]] | None

_INSTRUCTIONS = ("system", "developer")


def second_tries(
    messages: Sequence[Message], tools: Tools
) -> Iterator[tuple[Sequence[Message], Tools]]:
    """Yields messages and tools to try in turn; none where nothing can be changed.

    Args:
        messages: Normalised messages.
        tools: The client's tools, or None.
    """
    bare = _bare(tools) if tools else None
    merged = _merged(messages)
    if bare is not None:
        yield messages, bare
    if merged is not None:
        yield merged, tools
    if merged is not None and bare is not None:
        yield merged, bare


def _bare(tools: Sequence[Mapping[str, Any]]) -> Tools:
    functions = [tool.get("function") for tool in tools]
    return [function for function in functions if isinstance(function, Mapping)] or None


def _merged(messages: Sequence[Message]) -> list[Message] | None:
    """All instructions in one leading message; None where they already are."""
    if all(message["role"] not in _INSTRUCTIONS for message in messages[1:]):
        return None
    instructions = [message for message in messages if message["role"] in _INSTRUCTIONS]
    others = [message for message in messages if message["role"] not in _INSTRUCTIONS]
    first = messages[0] if messages[0] is instructions[0] else {"role": "system"}
    text = "\n\n".join(filter(None, (_text(message["content"]) for message in instructions)))
    return [{**first, "content": text}, *others]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part["text"] for part in content)
