"""A stream's short way says what its long way says, and leaves all that is not its own."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.detok import Detokenizer
from sglrouter._fast.framer import CallDelta, Framer
from sglrouter._fast.parse import OutputParser
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import ChunkFramer
from sglrouter._fast.wire import GenerateReader
from sglrouter.families.formats.program import Tools
from sglrouter.families.reading import Reading
from sglrouter.families.registry import REASONING_FORMATS, TOOL_FORMATS
from sglrouter.output.chat import ChatStream
from sglrouter.output.choice import Choice
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.output.text import TextChoice, TextStream
from tests.fast import messages
from tests.output import models

TOKENIZER = models.byte_level(("hello", " world", "日本", "\u2028", "stop"))
FACTORY = DetokenizerFactory(TOKENIZER)
EOS = TOKENIZER.get_vocab()[models.EOS]
HEAD = Head(id="chatcmpl-1", created=1_700_000_000, model="m")

tokens = st.integers(0, TOKENIZER.get_vocab_size() + 3)


def new_stream(
    sample: Sample, parser: OutputParser | None = None, *, plain: bool = False
) -> ChatStream | TextStream:
    """A stream of one choice; a plain one is a text completion's."""
    if plain:
        return TextStream(HEAD, [TextChoice(sample)], FACTORY.piece)
    return ChatStream(HEAD, [Choice(sample, parser)], FACTORY.piece)


class Direct:
    """A stream of one choice whose sink writes to a real socket."""

    def __init__(
        self, sample: Sample, parser: OutputParser | None = None, *, plain: bool = False
    ) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.setblocking(False)
        self.writer = BodyWriter(self.ours.fileno(), False)
        self.troubles = 0
        self.sample = sample
        self.stream = new_stream(sample, parser, plain=plain)
        self._sink = self.stream.sink(0, self.writer, self._on_trouble)

    def _on_trouble(self) -> None:
        self.troubles += 1

    @property
    def sink(self) -> TextSink:
        assert self._sink is not None
        return self._sink

    def received(self) -> bytes:
        out = b""
        while True:
            try:
                piece = self.theirs.recv(1 << 20)
            except BlockingIOError:
                return out
            if not piece:
                return out
            out += piece


@contextmanager
def direct(sample: Sample, *, plain: bool = False) -> Iterator[Direct]:
    made = Direct(sample, plain=plain)
    with made.ours, made.theirs:
        yield made


def new_sample(stop: Sequence[str] = (), *, logprobs: bool = False) -> Sample:
    return Sample(FACTORY, eos_ids=[EOS], stop=stop, logprobs=logprobs)


def text_of(events: bytes) -> str:
    """The joined content of a stream's events."""
    parts = events.split(b"\n\n")
    assert parts.pop() == b""
    chunks = [json.loads(part.removeprefix(b"data: ")) for part in parts]
    choices = [chunk["choices"][0] for chunk in chunks]
    return "".join(each.get("text", each.get("delta", {}).get("content", "")) for each in choices)


@given(
    st.lists(st.lists(tokens, max_size=4), max_size=12),
    st.sampled_from([(), ("stop",), ("world日", "o w")]),
    st.sampled_from(list(messages.Style)),
    st.booleans(),
    st.data(),
)
def test_both_ways_say_the_same_in_any_mixture(
    deltas: list[list[int]],
    stop: tuple[str, ...],
    style: messages.Style,
    plain: bool,
    data: st.DataObject,
) -> None:
    sent = messages.sample(deltas, style)
    expected = new_sample(stop)
    whole = new_stream(expected, plain=plain)
    said = b"".join(whole.feed(0, [message]) for message in sent if not expected.finish_reason)
    with direct(new_sample(stop), plain=plain) as made:
        got = b""
        while sent and made.sample.finish_reason is None:
            count = data.draw(st.integers(1, len(sent)))
            batch, sent = sent[:count], sent[count:]
            if not (data.draw(st.booleans()) and made.sink.feed(batch)):
                got += made.stream.feed(0, batch)
            got += made.received()
        assert text_of(got) == text_of(said)
        assert made.sample.finish_reason == expected.finish_reason
        assert made.sample.matched_stop == expected.matched_stop
        assert made.troubles == 0


def test_what_is_no_plain_text_has_no_sink() -> None:
    writer = BodyWriter(0, False)
    stream = ChatStream(HEAD, [Choice(new_sample(logprobs=True))], FACTORY.piece)
    assert stream.sink(0, writer, lambda: None) is None
    stream = ChatStream(HEAD, [Choice(new_sample())], FACTORY.piece, continuous_usage=True)
    assert stream.sink(0, writer, lambda: None) is None
    text = TextStream(HEAD, [TextChoice(new_sample())], FACTORY.piece, continuous_usage=True)
    assert text.sink(0, writer, lambda: None) is None
    by_library = DetokenizerFactory(models.wordpiece())
    stream = ChatStream(HEAD, [Choice(Sample(by_library))], by_library.piece)
    assert stream.sink(0, writer, lambda: None) is None


@pytest.mark.parametrize(
    "last",
    [
        messages.complete([40], 2),
        messages.failure("no", "500"),
        messages.chunk([40], 2)[:-1],
        messages.field(2, messages.field(3, 2) + b"\xff"),
        b"\xff",
        b"",
    ],
    ids=["end", "failure", "cut", "spoiled", "noise", "empty"],
)
def test_a_batch_that_is_not_all_text_is_left_whole(last: bytes) -> None:
    with direct(new_sample()) as made:
        assert made.sink.feed([messages.chunk([40], 1)])
        assert made.sink.heard_at > 0
        before = made.received()
        assert text_of(before) == FACTORY.piece(40).decode()
        assert not made.sink.feed([messages.chunk([41], 2), last])
        assert made.received() == b""
        # Whoever reads it now finds every token once.
        assert made.sink.feed([messages.chunk([41], 2), messages.chunk([42], 3)])
        assert text_of(made.received()) == (FACTORY.piece(41) + FACTORY.piece(42)).decode()


class Toy(Framer):
    """Another API: a line for each piece."""

    def content(self, text: bytes, logprobs: bytes | None = None) -> bytes:
        assert logprobs is None
        return b"content %b\n" % text.hex().encode()

    def reasoning(self, text: bytes, logprobs: bytes | None = None) -> bytes:
        assert logprobs is None
        return b"reasoning %b\n" % text.hex().encode()

    def call(self, delta: CallDelta, logprobs: bytes | None = None) -> bytes:
        assert logprobs is None
        return b"arguments-%d %b\n" % (delta[0], delta[3].hex().encode())


def by_kind(lines: bytes) -> dict[str, bytes]:
    """The pieces of each kind, joined."""
    pieces: dict[str, bytes] = {}
    for line in lines.decode().splitlines():
        kind, piece = line.split(" ")
        pieces[kind] = pieces.get(kind, b"") + bytes.fromhex(piece)
    return pieces


TOY_ANSWER = (
    '<think>hello</think>\n\n world <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_framer_of_another_api_gets_what_ours_get(size: int) -> None:
    ids = TOKENIZER.encode(TOY_ANSWER, add_special_tokens=False).ids
    tools = Tools([{"type": "function", "function": {"name": "f", "parameters": {}}}])
    reading = Reading(
        reasoning=REASONING_FORMATS["qwen3"],
        calls=TOOL_FORMATS["hermes"],
        tools=tools,
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        decoder = FACTORY.new(skip_special=True, stop_ids=())
        assert isinstance(decoder, Detokenizer)
        writer = BodyWriter(ours.fileno(), False)
        parser = reading.parser()
        sink = TextSink(GenerateReader(), decoder, None, parser, Toy(), writer, lambda: None)
        for start in range(0, len(ids), size):
            cut = ids[start : start + size]
            assert sink.feed([messages.chunk(cut, start + len(cut))])
        assert sink.failure is None
        written = by_kind(theirs.recv(1 << 20))
    assert written == {"reasoning": b"hello", "content": b"\n\n world ", "arguments-0": b'{"a": 1}'}


def test_after_a_stop_string_nothing_is_taken() -> None:
    with direct(new_sample(["stop"])) as made:
        (stop,) = models.ids_of(TOKENIZER, "stop")
        assert made.sink.feed([messages.chunk([40, stop], 2)])
        assert text_of(made.received()) == FACTORY.piece(40).decode()
        assert not made.sink.feed([messages.chunk([41], 3)])


def test_a_client_that_does_not_take_stops_its_sink() -> None:
    with direct(new_sample()) as made:
        made.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        fed = 0
        while made.sink.feed([messages.chunk([40], fed + 1)]):
            fed += 1
            assert fed < 10_000
        assert made.troubles == 1
        assert made.writer.kept
        assert made.sink.failure is None
        rest = made.received() + made.writer.take_kept()
        assert text_of(rest) == FACTORY.piece(40).decode() * fed
        assert made.sink.feed([messages.chunk([40], fed + 1)])


def test_a_client_that_is_gone_is_a_failure() -> None:
    with direct(new_sample()) as made:
        made.theirs.close()
        before = time.monotonic()
        assert made.sink.feed([messages.chunk([40], 1)])
        assert isinstance(made.sink.failure, BrokenPipeError)
        assert made.troubles == 1
        assert before <= made.sink.heard_at <= time.monotonic()
        assert not made.sink.feed([messages.chunk([40], 2)])


@pytest.mark.parametrize(
    "wanted", ["want_logprobs", "keep_ids", "want_input_logprobs", "want_selected"]
)
def test_a_reader_that_gathers_more_than_ids_is_left_alone(wanted: str) -> None:
    reader = GenerateReader(**{wanted: True})
    decoder = FACTORY.new(skip_special=True, stop_ids=())
    assert isinstance(decoder, Detokenizer)
    framer, writer = ChunkFramer("id", 0, "m", 0), BodyWriter(0, False)
    sink = TextSink(reader, decoder, None, None, framer, writer, lambda: None)
    message = messages.chunk([1], 1, top=0)
    assert not sink.feed([message])
    assert not any([reader.take_ids(), reader.take_logprobs(), reader.output_ids])
