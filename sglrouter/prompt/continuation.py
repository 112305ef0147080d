"""A conversation that ends within the assistant's message, for the model to go on with.

Strategy: as Hugging Face does it. The final message gets a mark at the end of its
content, or of its thoughts; the template renders it like any other, and the prompt is cut
at the mark: what the template writes after it is gone, what it writes before is there. The
mark ends in a space; where that is missing, the template trims messages, and the
message's own trailing space is cut, too.

A message that is only thoughts so far is one whose thoughts go on, if the template shows
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from sglrouter.errors import BadRequest
from sglrouter.prompt.messages import Message
from sglrouter.prompt.template import TemplateRefusal

Continue = bool | Literal["content", "reasoning_content"]

_MARK = "SGLROUTER_CUTS_HERE"

# What thoughts are called in a normalised message; templates read either.
_THOUGHTS = ("reasoning_content", "thinking", "reasoning", "thought")


class Continuation(NamedTuple):
    """A prompt that ends within a message.

    Attributes:
        prompt: The text.
        own: How much of its end is the message's.
        in_thoughts: Whether that is the message's thoughts.
    """

    prompt: str
    own: int
    in_thoughts: bool


def continuation(
    messages: Sequence[Message], field: Continue, render: Callable[[Sequence[Message]], str]
) -> Continuation:
    """Renders messages up to where the final one goes on.

    Args:
        messages: Normalised messages.
        field: Which field of the final one goes on; True for the last that it has.
        render: Renders messages with the template.

    Raises:
        BadRequest: The final message is not one to go on with, or the template does not
            show it as it is.
    """
    final = messages[-1]
    _check(final)
    thoughts = _thoughts(final)
    if field == "reasoning_content" or (field is True and thoughts and not _last_text(final)):
        marked = f"{thoughts}{_MARK} "
        changed = dict.fromkeys(_names_of_thoughts(final), marked)
        try:
            found = _cut(render([*messages[:-1], {**final, **changed}]), thoughts)
        except TemplateRefusal:
            found = None
        if found is not None:
            return Continuation(*found, in_thoughts=True)
        if field == "reasoning_content":
            raise _not_shown("the reasoning of the final message")
    text = _last_text(final)
    found = _cut(render([*messages[:-1], _with_marked_content(final, text)]), text)
    if found is None:
        raise _not_shown("the final message")
    return Continuation(*found, in_thoughts=False)


def _check(final: Message) -> None:
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


def _names_of_thoughts(final: Message) -> Sequence[str]:
    return [name for name in _THOUGHTS if name in final] or _THOUGHTS


def _thoughts(final: Message) -> str:
    for name in _THOUGHTS:
        if isinstance(final.get(name), str):
            thoughts: str = final[name]
            return thoughts
    return ""


def _last_text(final: Message) -> str:
    content = final["content"]
    if isinstance(content, str):
        return content
    text: str = content[-1]["text"] if content else ""
    return text


def _with_marked_content(final: Message, text: str) -> Message:
    content = final["content"]
    marked: object = f"{text}{_MARK} "
    if not isinstance(content, str):
        marked = [*content[:-1], {"type": "text", "text": marked}]
    return {**final, "content": marked}


def _not_shown(what: str) -> BadRequest:
    return BadRequest(
        f"continue_final_message: the chat template does not show {what} as it is written, so "
        "it cannot be continued",
        code="chat_template_error",
        param="continue_final_message",
    )


def _cut(rendered: str, text: str) -> tuple[str, int] | None:
    """The prompt up to the mark, and how much of its end is the message's text.

    None if the template does not show the text as it is.

    Args:
        rendered: What the template made of the marked messages.
        text: What the mark followed.
    """
    end = rendered.rfind(_MARK)
    if end < 0 or text.strip() not in rendered:
        return None
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
