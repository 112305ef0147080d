"""A conversation that ends within the assistant's message, for the model to go on with.

Strategy: as Hugging Face does it. The final message gets a mark at its end, the
template renders it like any other, and the prompt is cut at the mark: what the template
writes after a message is gone, what it writes before is there. The mark ends in a
space; where that is missing, the template trims messages, and the message's own
trailing space is cut, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglrouter.errors import BadRequest
from sglrouter.prompt.messages import Message

_MARK = "SGLROUTER_CUTS_HERE"


def mark_end(messages: Sequence[Message]) -> tuple[list[Message], str]:
    """Returns normalised messages with the mark, and the text that it follows.

    Raises:
        BadRequest: The final message is not one to go on with.
    """
    final = messages[-1]
    if final["role"] != "assistant":
        raise BadRequest(
            "continue_final_message needs the final message to be the assistant's, "
            f"not of role {final['role']!r}",
            param="continue_final_message",
        )
    if final.get("tool_calls"):
        raise BadRequest(
            "continue_final_message cannot continue a message with tool_calls: "
            "leave it out, or answer the calls",
            param="continue_final_message",
        )
    content = final["content"]
    marked: object
    if isinstance(content, str):
        text = content
        marked = f"{text}{_MARK} "
    else:
        text = content[-1]["text"] if content else ""
        marked = [*content[:-1], {"type": "text", "text": f"{text}{_MARK} "}]
    return [*messages[:-1], {**final, "content": marked}], text


def cut_at_mark(rendered: str, text: str) -> tuple[str, int]:
    """Returns the prompt up to the mark, and how much of its end is the message's text.

    Args:
        rendered: What the template made of the marked messages.
        text: What the mark followed.

    Raises:
        BadRequest: The template does not show the final message as it is.
    """
    end = rendered.rfind(_MARK)
    if end < 0 or text.strip() not in rendered:
        raise BadRequest(
            "continue_final_message: the chat template does not show the final message as it is "
            "written, so it cannot be continued",
            code="chat_template_error",
            param="continue_final_message",
        )
    if not rendered.startswith(" ", end + len(_MARK)):
        trimmed = text.rstrip()
        # Where there is nothing but space, the template has trimmed it already.
        end -= len(text) - len(trimmed) if trimmed else 0
        text = trimmed
    prompt = rendered[:end]
    return prompt, _common_end(prompt, text)


def _common_end(prompt: str, text: str) -> int:
    """The length of the longest end that both have: templates rewrite beginnings."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if prompt.endswith(text[-middle:]):
            low = middle
        else:
            high = middle - 1
    return low
