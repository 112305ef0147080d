"""Samples as chat completions: server-sent chunks, or one object.

Both are made from the same samples, so they say the same. A stream tells the role
first, then text, then for each choice why it ended; usage only where asked for, in a
chunk without choices; `[DONE]` always last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import ChunkFramer
from sglrouter.errors import RouterError
from sglrouter.output.choice import Choice, Piece
from sglrouter.output.events import DONE, error_events, usage_event, with_usage
from sglrouter.output.head import Head
from sglrouter.output.json_array import JsonArray
from sglrouter.output.logprobs import chat_logprobs
from sglrouter.output.sample import TokenLogprob
from sglrouter.output.usage import usage_of
from sglrouter.turns import Pause, in_slices, no_pause, taking_turns

REASONING_FIELDS = ("reasoning_content",)

_encode = msgspec.json.Encoder().encode


class ChatStream:
    """Turns the messages of a completion's samples into server-sent events.

    Args:
        head: What every chunk repeats.
        choices: One for each sample.
        piece: Gives the bytes of a token id, for logprobs.
        include_usage: Whether to end with a chunk of token counts; the others then say null.
        continuous_usage: Whether every chunk has the counts so far.
        reasoning_fields: The names of the fields that reasoning goes into.
    """

    def __init__(
        self,
        head: Head,
        choices: Sequence[Choice],
        piece: Callable[[int], bytes],
        *,
        include_usage: bool = False,
        continuous_usage: bool = False,
        reasoning_fields: Sequence[str] = REASONING_FIELDS,
    ) -> None:
        self._head = head
        self._choices = choices
        self._piece = piece
        self._include_usage = include_usage
        self._continuous_usage = continuous_usage
        self._framers = [
            ChunkFramer(
                head.id,
                head.created,
                head.model,
                index,
                reasoning_fields,
                usage=include_usage and not continuous_usage,
            )
            for index in range(len(choices))
        ]

    def begin(self) -> bytes:
        """The first chunk of every choice."""
        return self._counted(b"".join([framer.role() for framer in self._framers]))

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        """Takes messages of one sample; returns the events they make, maybe none."""
        choice, framer = self._choices[index], self._framers[index]
        content, reasoning, calls, entries = choice.feed(messages)
        # They go with whatever their tokens have come to, even if that is nothing yet.
        logprobs = _encode(_logprobs(entries, self._piece)) if entries else None
        events = framer.delta(content, reasoning, calls, logprobs)
        reason = choice.finish_reason
        if reason is not None:
            events += framer.finish(reason, choice.matched_stop)
        return self._counted(events)

    def _counted(self, events: bytes) -> bytes:
        if self._continuous_usage:
            return with_usage(events, _usage(self._choices))
        return events

    def sink(
        self, index: int, writer: BodyWriter, on_trouble: Callable[[], None]
    ) -> TextSink | None:
        """Writes most of a choice without feed(), which takes what it leaves.

        None where all has to go through feed().
        """
        if self._continuous_usage:
            return None
        return self._choices[index].sink(self._framers[index], writer, on_trouble)

    def end(self) -> bytes:
        """The last events of a completion whose samples are complete."""
        if not self._include_usage:
            return DONE
        return usage_event(self._head.of("chat.completion.chunk"), _usage(self._choices)) + DONE

    @staticmethod
    def fail(error: RouterError) -> bytes:
        """The last events of a completion that broke: clients look for `error`."""
        return error_events(error)

    def close(self) -> None:
        """Lets go of what its choices hold."""
        for choice in self._choices:
            choice.close()


class _Gathered:
    """All pieces of one choice."""

    def __init__(self) -> None:
        self.content: list[bytes] = []
        self.reasoning: list[bytes] = []
        self.calls: list[dict[str, Any]] = []
        self.arguments: list[list[bytes]] = []
        self.logprobs = JsonArray()

    def add(self, piece: Piece) -> None:
        self.content.append(piece.content)
        self.reasoning.append(piece.reasoning)
        for number, call_id, name, arguments in piece.calls:
            if call_id is not None:
                self.calls.append({"index": number, "id": call_id, "name": name})
                self.arguments.append([])
            self.arguments[number].append(arguments)

    def tool_calls(self) -> list[dict[str, Any]]:
        return [
            {
                "index": call["index"],
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": b"".join(arguments).decode()},
            }
            for call, arguments in zip(self.calls, self.arguments, strict=True)
        ]


class ChatCompletion:
    """Gathers a completion's samples into one response; see ChatStream."""

    def __init__(
        self,
        head: Head,
        choices: Sequence[Choice],
        piece: Callable[[int], bytes],
        *,
        reasoning_fields: Sequence[str] = REASONING_FIELDS,
        pause: Pause = no_pause,
    ) -> None:
        self._pause = pause
        self._head = head
        self._choices = choices
        self._piece = piece
        self._reasoning_fields = reasoning_fields
        self._gathered = [_Gathered() for _ in choices]

    def feed(self, index: int, messages: Sequence[bytes]) -> None:
        """Takes messages of one sample."""
        piece, gathered = self._choices[index].feed(messages), self._gathered[index]
        gathered.add(piece)
        if piece.logprobs:
            for some in in_slices(piece.logprobs, self._pause):
                gathered.logprobs.extend(chat_logprobs(some, self._piece))

    def body(self) -> bytes:
        """The response, once every sample is complete."""
        return _encode(
            {
                **self._head.of("chat.completion"),
                "choices": [
                    msgspec.Raw(_encode(self._choice(index)))
                    for index in taking_turns(range(len(self._choices)), self._pause)
                ],
                "usage": _usage(self._choices),
            }
        )

    def close(self) -> None:
        """Lets go of what its choices hold."""
        for choice in self._choices:
            choice.close()

    def _choice(self, index: int) -> dict[str, Any]:
        choice, gathered = self._choices[index], self._gathered[index]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": b"".join(gathered.content).decode(),
        }
        reasoning = b"".join(gathered.reasoning).decode()
        if reasoning:
            message.update(dict.fromkeys(self._reasoning_fields, reasoning))
        if gathered.calls:
            message["content"] = message["content"] or None
            message["tool_calls"] = gathered.tool_calls()
        return {
            "index": index,
            "message": message,
            "logprobs": {"content": gathered.logprobs.json(), "refusal": None}
            if choice.sample.wants_logprobs
            else None,
            "finish_reason": choice.finish_reason,
            "matched_stop": choice.matched_stop,
        }


def _logprobs(entries: Sequence[TokenLogprob], piece: Callable[[int], bytes]) -> dict[str, Any]:
    return {"content": chat_logprobs(entries, piece), "refusal": None}


def _usage(choices: Sequence[Choice]) -> dict[str, Any]:
    return usage_of([choice.sample.usage for choice in choices])
