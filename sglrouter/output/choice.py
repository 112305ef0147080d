"""One choice of a completion: its sample's text, read as reasoning, content and calls.

Streams and whole responses are made of the same pieces, so they say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.framer import CallDelta, Framer
from sglrouter._fast.parse import OutputParser
from sglrouter._fast.sink import TextSink
from sglrouter.output.sample import Sample, TokenLogprob


class Piece(NamedTuple):
    """What is new in a choice: text in UTF-8, pieces of calls, and the tokens it came from."""

    content: bytes
    reasoning: bytes
    calls: list[CallDelta]
    logprobs: list[TokenLogprob]


class Choice:
    """Reads one sample.

    Args:
        sample: The sample.
        parser: Splits its text; None if all of it is content.
        first_call_only: Whether the choice ends with its first call.
        stream_reasoning: Whether reasoning is passed on while it arrives, and not all at
            its end.
        never_empty: Whether an answer of nothing but reasoning becomes content.

    Attributes:
        sample: The sample.
    """

    def __init__(
        self,
        sample: Sample,
        parser: OutputParser | None = None,
        *,
        first_call_only: bool = False,
        stream_reasoning: bool = True,
        never_empty: bool = False,
    ) -> None:
        self.sample = sample
        self._parser = parser
        self._first_call_only = first_call_only
        self._stream_reasoning = stream_reasoning
        self._never_empty = never_empty
        self._kept: list[bytes] = []  # reasoning that waits, or may become content
        self._spoken = False
        sample.by_token = parser is not None and not parser.settled

    def feed(self, messages: Sequence[bytes]) -> Piece:
        """Takes messages of the sample; see Sample.feed()."""
        sample, parser = self.sample, self._parser
        text, logprobs = sample.feed(messages)
        if parser is None:
            return Piece(text, b"", [], logprobs)
        if self._first_call_only:
            self._read_to_first_call(parser, text)
        elif sample.by_token:
            self._read_tokens(parser, sample.texts)
        else:
            parser.feed(text)
        if (sample.finish_reason is not None or sample.failure is not None) and parser.finish():
            sample.note_reasoning()
        content, reasoning, calls = parser.take()
        if self._first_call_only and parser.completed:
            calls = [call for call in calls if call[0] == 0]
            sample.cut()
        if not self._stream_reasoning or self._never_empty:
            content, reasoning = self._keep(content, reasoning, parser, calls)
        return Piece(content, reasoning, calls, logprobs)

    def _read_tokens(self, parser: OutputParser, texts: list[bytes]) -> None:
        count = parser.feed_tokens(texts)
        if count:
            self.sample.note_reasoning(count)
        self.sample.by_token = not parser.settled

    def _read_to_first_call(self, parser: OutputParser, text: bytes) -> None:
        """Has no more read than up to the end of the first call, wherever messages are cut."""
        if self.sample.by_token:
            texts = self.sample.texts
            for place, piece in enumerate(texts):
                if not self.sample.by_token:
                    text = b"".join(texts[place:])
                    break
                self._read_tokens(parser, [piece])
            else:
                return
        for at in range(len(text)):
            if parser.completed:
                return
            parser.feed(text[at : at + 1])

    def _keep(
        self, content: bytes, reasoning: bytes, parser: OutputParser, calls: list[CallDelta]
    ) -> tuple[bytes, bytes]:
        over = parser.ended or self.finish_reason is not None
        self._kept.append(reasoning)
        self._spoken = self._spoken or bool(content.strip()) or bool(calls)
        if self._never_empty and over and not self._spoken:
            content = b"".join(self._kept).strip() + content
        if not self._stream_reasoning:
            reasoning = b""
            if over or not parser.in_reasoning:
                reasoning = b"".join(self._kept)
                if not self._never_empty:
                    self._kept.clear()
                else:
                    self._kept, self._stream_reasoning = [reasoning], True
        return content, reasoning

    def close(self) -> None:
        """Lets go of what it holds: of an answer that is not seen to its end."""
        if self._parser is not None:
            self._parser.close()

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, once it has: a call that was delivered is why, one that was cut is not."""
        reason = self.sample.finish_reason
        if reason == "stop" and self._parser is not None and self._parser.completed:
            return "tool_calls"
        return reason

    @property
    def matched_stop(self) -> int | str | None:
        """The stop token or string that ended it, if that is why it ended."""
        return None if self.finish_reason == "tool_calls" else self.sample.matched_stop

    def sink(
        self, framer: Framer, writer: BodyWriter, on_trouble: Callable[[], None]
    ) -> TextSink | None:
        """The short way for most of its messages; None where all have to go through feed()."""
        if self._first_call_only or self._never_empty or not self._stream_reasoning:
            return None
        return self.sample.sink(self._parser, framer, writer, on_trouble)
