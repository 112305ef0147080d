"""What the built-in encodings have in common.

An encoding stands where a chat template does: it takes the same messages, tools and
variables, and the same budget bounds it. It is strict about nothing that it can show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sglrouter.prompt.budget import Budget
from sglrouter.prompt.messages import Message
from sglrouter.prompt.template import TemplateRefusal


class Encoding(Protocol):
    """A prompt format; see sglrouter.prompt.template.ChatTemplate.

    Attributes:
        source: The markers that it writes, for who wants to know a model by them.
        content_format: See ChatTemplate.
        knows_developer: See ChatTemplate.
        knows_thinking: See ChatTemplate.
        shows_response_format: Whether it has words for the variable response_format.
    """

    @property
    def source(self) -> str:
        """The markers that it writes."""

    @property
    def content_format(self) -> str:
        """See ChatTemplate."""

    @property
    def knows_developer(self) -> bool:
        """See ChatTemplate."""

    @property
    def knows_thinking(self) -> bool:
        """See ChatTemplate."""

    @property
    def shows_response_format(self) -> bool:
        """Whether it has words for the variable response_format."""

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        budget: Budget,
        *,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation; see ChatTemplate.render()."""


class PromptWriter:
    """Gathers a prompt within a budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._room = budget.characters
        self._parts: list[str] = []

    def write(self, *texts: str) -> None:
        """Adds texts.

        Raises:
            BadRequest: The time is used up, or the room.
        """
        self._budget.check()
        for text in texts:
            self._room -= len(text)
            if self._room < 0:
                raise self._budget.too_large()
            self._parts.append(text)

    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)


def as_json(value: object) -> str:
    """A value as Python writes JSON, which is what the models were trained on.

    Raises:
        TemplateRefusal: It is nested too deeply.
    """
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError, TypeError) as exc:
        raise TemplateRefusal(f"A value cannot be shown to the model as JSON: {exc}") from exc


def unknown_role(role: object) -> TemplateRefusal:
    """The refusal of a message that the format has no place for."""
    return TemplateRefusal(f"This model knows no messages of role {role!r}")


def text_of(message: Mapping[str, Any]) -> str:
    """A message's content, which normalising has made a string."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


def reasoning_of(message: Mapping[str, Any]) -> str:
    """What the assistant thought before a message."""
    reasoning = message.get("reasoning_content")
    return reasoning if isinstance(reasoning, str) else ""


def functions_of(tools: Sequence[Mapping[str, Any]] | None) -> list[Any]:
    """The functions of tools, as the client wrote them."""
    return [tool.get("function", tool) for tool in tools or ()]


def thinks(kwargs: Mapping[str, Any]) -> bool:
    """Whether the variables ask for reasoning, under either of the names for it."""
    for name in ("thinking", "enable_thinking"):
        if kwargs.get(name) is not None:
            return bool(kwargs[name])
    return False


def last_question(messages: Sequence[Mapping[str, Any]]) -> int:
    """Where the last user's message is; -1 if there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] == "user":
            return index
    return -1


def in_order_of_calls(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The same messages, each run of results in the order of the calls that it answers.

    Results whose call is not known stay behind those whose call is.
    """
    ordered: list[Message] = []
    places: dict[object, int] = {}
    run: list[Message] = []

    def end_run() -> None:
        run.sort(key=lambda result: places.get(result.get("tool_call_id"), len(places)))
        ordered.extend(run)
        run.clear()

    for message in messages:
        if message["role"] == "tool":
            run.append(dict(message))
            continue
        end_run()
        if message.get("tool_calls"):
            calls = message["tool_calls"]
            places = {call.get("id"): place for place, call in enumerate(calls)}
        ordered.append(dict(message))
    end_run()
    return ordered
