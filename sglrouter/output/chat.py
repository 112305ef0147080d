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
from sglrouter._fast.sse import ChunkFramer, escape_line_ends
from sglrouter.errors import RouterError
from sglrouter.output.logprobs import chat_logprobs
from sglrouter.output.sample import Sample, TokenLogprob
from sglrouter.output.tools.calls import CallDelta
from sglrouter.output.tools.json_array import JsonArrayCalls

DONE = b"data: [DONE]\n\n"
HEARTBEAT = b": ping\n\n"

_encode = msgspec.json.Encoder().encode


class ChatHead(msgspec.Struct, frozen=True):
    """What every part of one completion repeats.

    Attributes:
        id: The completion's id.
        created: Unix time in seconds.
        model: The model name, as the client wrote it.
    """

    id: str
    created: int
    model: str


class ChatStream:
    """Turns the messages of a completion's samples into server-sent events.

    Args:
        head: What every chunk repeats.
        samples: One for each choice.
        piece: Gives the bytes of a token id, for logprobs.
        include_usage: Whether to end with a chunk of token counts.
        forced_calls: Whether the answers are tool calls by constraint.
    """

    def __init__(
        self,
        head: ChatHead,
        samples: Sequence[Sample],
        piece: Callable[[int], bytes],
        *,
        include_usage: bool,
        forced_calls: bool = False,
    ) -> None:
        self._head = head
        self._samples = samples
        self._piece = piece
        self._include_usage = include_usage
        self._framers = [
            ChunkFramer(head.id, head.created, head.model, index) for index in range(len(samples))
        ]
        self._parsers = [JsonArrayCalls() if forced_calls else None for _ in samples]

    def begin(self) -> bytes:
        """The first chunk of every choice."""
        return b"".join(framer.role() for framer in self._framers)

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        """Takes messages of one sample; returns the events they make, maybe none."""
        sample, framer, parser = self._samples[index], self._framers[index], self._parsers[index]
        text, logprobs = sample.feed(messages)
        done = sample.finish_reason is not None
        calls: list[CallDelta] = []
        if parser is not None:
            text, calls = _parse(parser, text, last=done)
        events = b""
        if logprobs:
            events = framer.content(text, _encode(_logprobs(logprobs, self._piece)))
        elif text:
            events = framer.content(text)
        for call in calls:
            events += framer.tool_calls(_encode([_call_delta(call)]))
        if done:
            events += framer.finish(_finish_reason(sample, parser), sample.matched_stop)
        return events

    def sink(
        self, index: int, writer: BodyWriter, on_trouble: Callable[[], None]
    ) -> TextSink | None:
        """Writes a choice's text without feed(), which takes what it leaves.

        None where all has to go through feed().
        """
        if self._parsers[index] is not None:
            return None
        return self._samples[index].sink(self._framers[index], writer, on_trouble)

    def end(self) -> bytes:
        """The last events of a completion whose samples are complete."""
        if not self._include_usage:
            return DONE
        chunk = {
            "id": self._head.id,
            "object": "chat.completion.chunk",
            "created": self._head.created,
            "model": self._head.model,
            "choices": [],
            "usage": usage(self._samples),
        }
        return b"data: " + escape_line_ends(_encode(chunk)) + b"\n\n" + DONE

    @staticmethod
    def fail(error: RouterError) -> bytes:
        """The last events of a completion that broke: clients look for `error`."""
        return b"data: " + escape_line_ends(error.body()) + b"\n\n" + DONE


class ChatCompletion:
    """Gathers a completion's samples into one response.

    Args:
        head: Id, time and model of the response.
        samples: One for each choice.
        piece: Gives the bytes of a token id, for logprobs.
    """

    def __init__(
        self,
        head: ChatHead,
        samples: Sequence[Sample],
        piece: Callable[[int], bytes],
        *,
        forced_calls: bool = False,
    ) -> None:
        self._head = head
        self._samples = samples
        self._piece = piece
        self._texts: list[list[bytes]] = [[] for _ in samples]
        self._calls: list[list[CallDelta]] = [[] for _ in samples]
        self._logprobs: list[list[TokenLogprob]] = [[] for _ in samples]
        self._parsers = [JsonArrayCalls() if forced_calls else None for _ in samples]

    def feed(self, index: int, messages: Sequence[bytes]) -> None:
        """Takes messages of one sample."""
        sample, parser = self._samples[index], self._parsers[index]
        text, logprobs = sample.feed(messages)
        if parser is not None:
            text, calls = _parse(parser, text, last=sample.finish_reason is not None)
            self._calls[index] += calls
        if text:
            self._texts[index].append(text)
        self._logprobs[index] += logprobs

    def body(self) -> bytes:
        """The response, once every sample is complete."""
        return _encode(
            {
                "id": self._head.id,
                "object": "chat.completion",
                "created": self._head.created,
                "model": self._head.model,
                "choices": [self._choice(index) for index in range(len(self._samples))],
                "usage": usage(self._samples),
            }
        )

    def _choice(self, index: int) -> dict[str, Any]:
        sample, parser = self._samples[index], self._parsers[index]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": b"".join(self._texts[index]).decode(),
        }
        if self._calls[index]:
            message["content"] = message["content"] or None
            message["tool_calls"] = _whole_calls(self._calls[index])
        return {
            "index": index,
            "message": message,
            "logprobs": _logprobs(self._logprobs[index], self._piece)
            if sample.wants_logprobs
            else None,
            "finish_reason": _finish_reason(sample, parser),
            "matched_stop": sample.matched_stop,
        }


def _parse(parser: JsonArrayCalls, text: bytes, *, last: bool) -> tuple[bytes, list[CallDelta]]:
    content, calls = parser.feed(text.decode())
    if last:
        rest = parser.finish()
        content += rest.content
        calls += rest.calls
    return content.encode(), calls


def _finish_reason(sample: Sample, parser: JsonArrayCalls | None) -> str:
    """A call that was delivered is why a sample stopped; one that was cut is not."""
    assert sample.finish_reason is not None
    if parser is not None and parser.called and sample.finish_reason == "stop":
        return "tool_calls"
    return sample.finish_reason


def _logprobs(entries: Sequence[TokenLogprob], piece: Callable[[int], bytes]) -> dict[str, Any]:
    return {"content": chat_logprobs(entries, piece), "refusal": None}


def _call_delta(call: CallDelta) -> dict[str, Any]:
    """Id, type and name come once, with the first piece: clients join the pieces."""
    if call.id is None:
        return {"index": call.index, "function": {"arguments": call.arguments}}
    return {
        "index": call.index,
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _whole_calls(deltas: Sequence[CallDelta]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for delta in deltas:
        if delta.id is not None:
            calls.append(_call_delta(delta))
        else:
            calls[delta.index]["function"]["arguments"] += delta.arguments
    return calls


def usage(samples: Sequence[Sample]) -> dict[str, Any]:
    """OpenAI's usage object: the prompt counts once, however many choices."""
    counts = [sample.usage for sample in samples]
    prompt = max(count.prompt_tokens for count in counts)
    completion = sum(count.completion_tokens for count in counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": max(count.cached_tokens for count in counts)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(count.reasoning_tokens for count in counts)
        },
    }
