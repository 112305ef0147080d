"""How an API shows the answer to a conversation; and OpenAI's way of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sglrouter.output.chat import ChatCompletion, ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.head import Head
from sglrouter.schema.chat import ChatRequest
from sglrouter.serving.answer import BodyRenderer, EventRenderer
from sglrouter.serving.service import Service

# Where reasoning goes, by the setting.
REASONING_FIELDS = {
    "reasoning_content": ("reasoning_content",),
    "reasoning": ("reasoning",),
    "both": ("reasoning_content", "reasoning"),
}


class ChatRenderer(Protocol):
    """What an API is to an answer; what it is to the path of a token is its framer."""

    def events(self, request: ChatRequest, head: Head, choices: Sequence[Choice]) -> EventRenderer:
        """Makes what makes the events of a streamed answer.

        Args:
            request: The request.
            head: The answer's id, time and model.
            choices: What reads each sample.
        """

    def body(self, request: ChatRequest, head: Head, choices: Sequence[Choice]) -> BodyRenderer:
        """Makes what gathers a whole answer; see events()."""


class OpenAIChat:
    """Chat completions; see ChatRenderer.

    Args:
        service: What answers.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reasoning_fields = REASONING_FIELDS[service.settings.reasoning_field]

    def events(self, request: ChatRequest, head: Head, choices: Sequence[Choice]) -> ChatStream:
        """Chunks."""
        options = request.stream_options
        return ChatStream(
            head,
            choices,
            self._service.model.detokenizers.piece,
            include_usage=options is not None and bool(options.include_usage),
            continuous_usage=options is not None and bool(options.continuous_usage_stats),
            reasoning_fields=self._reasoning_fields,
        )

    def body(self, _request: ChatRequest, head: Head, choices: Sequence[Choice]) -> ChatCompletion:
        """One object."""
        return ChatCompletion(
            head,
            choices,
            self._service.model.detokenizers.piece,
            reasoning_fields=self._reasoning_fields,
            pause=self._service.pause,
        )
