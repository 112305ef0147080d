"""An API that is not ours is a renderer and a framer, and nothing else has to know of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.framer import CallDelta, Framer
from sglrouter._fast.sink import TextSink
from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.connect import connector
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.errors import RouterError
from sglrouter.model import load_model
from sglrouter.output.choice import Choice
from sglrouter.output.head import Head
from sglrouter.schema.chat import ChatRequest
from sglrouter.serving.chat import ChatServing
from sglrouter.serving.service import Service
from sglrouter.sim import SimulatedEngine

ANSWER = (
    "<think>Let me see.</think>So: "
    '<tool_call>\n{"name": "f", "arguments": {"city": "Paris"}}\n</tool_call>'
)


class Lines(Framer):
    """A line of JSON for each piece."""

    def content(self, text: bytes, logprobs: bytes | None = None) -> bytes:
        assert logprobs is None
        return line("content", text.decode())

    def reasoning(self, text: bytes, logprobs: bytes | None = None) -> bytes:
        assert logprobs is None
        return line("reasoning", text.decode())

    def call(self, delta: CallDelta, logprobs: bytes | None = None) -> bytes:
        assert logprobs is None
        _, _, name, arguments = delta
        return line("call", (f"{name}:" if name else "") + arguments.decode())

    def finish(self, reason: str, matched_stop: int | str | None = None) -> bytes:
        assert matched_stop is None or isinstance(matched_stop, int)
        return line("finish", reason)


def line(kind: str, text: str) -> bytes:
    return json.dumps([kind, text]).encode() + b"\n"


class LineEvents:
    """The events of a streamed answer."""

    def __init__(self, head: Head, choices: Sequence[Choice]) -> None:
        self._head, self._choices = head, choices
        self.closed = 0

    def begin(self) -> bytes:
        return line("begin", self._head.model)

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        choice, framer = self._choices[index], Lines()
        content, reasoning, calls, _ = choice.feed(messages)
        events = framer.delta(content, reasoning, calls)
        if choice.finish_reason is not None:
            events += framer.finish(choice.finish_reason, choice.matched_stop)
        return events

    def sink(
        self, index: int, writer: BodyWriter, on_trouble: Callable[[], None]
    ) -> TextSink | None:
        return self._choices[index].sink(Lines(), writer, on_trouble)

    def end(self) -> bytes:
        return line("end", "")

    def fail(self, error: RouterError) -> bytes:
        return line("error", error.message)

    def close(self) -> None:
        self.closed += 1


class LineBody:
    """A whole answer: the lines of a stream."""

    def __init__(self, head: Head, choices: Sequence[Choice]) -> None:
        self._events = LineEvents(head, choices)
        self._lines = self._events.begin()

    def feed(self, index: int, messages: Sequence[bytes]) -> None:
        self._lines += self._events.feed(index, messages)

    def body(self) -> bytes:
        return self._lines + self._events.end()

    def close(self) -> None:
        self._events.close()


class LineRenderer:
    """Another API; see ChatRenderer."""

    def events(self, request: ChatRequest, head: Head, choices: Sequence[Choice]) -> LineEvents:
        assert request.stream
        return LineEvents(head, choices)

    def body(self, request: ChatRequest, head: Head, choices: Sequence[Choice]) -> LineBody:
        assert not request.stream
        return LineBody(head, choices)


@pytest.fixture(scope="module")
def serving(engine: SimulatedEngine, tiny_model: Path) -> Iterator[ChatServing]:
    settings = Settings(
        engine=[f"grpc://{engine.address}"],
        tokenizer=str(tiny_model),
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
        channel="grpcio",
    )
    fleet = Fleet([parse_endpoint(text) for text in settings.engine], connector("grpcio"))
    yield ChatServing(Service(settings, load_model(settings, tiny_model), fleet))
    fleet.close()


@pytest.mark.parametrize("stream", [False, True])
def test_another_api_is_a_renderer(
    serving: ChatServing, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script(ANSWER)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    messages = [{"role": "user", "content": "Where?"}]
    body = json.dumps({"model": "m", "messages": messages, "tools": tools, "stream": stream})
    answer = serving.start(serving.read(body.encode()), renderer=LineRenderer())
    lines = answer.begin() if stream else answer.collect()
    while stream and not answer.ended:
        events, error = answer.wait()
        assert error is None
        lines += events
    answer.close()
    pieces: dict[str, str] = {}
    for kind, text in map(json.loads, lines.splitlines()):
        pieces[kind] = pieces.get(kind, "") + text
    assert pieces == {
        "begin": "m",
        "reasoning": "Let me see.",
        "content": "So: ",
        "call": 'f:{"city": "Paris"}',
        "finish": "tool_calls",
        "end": "",
    }
