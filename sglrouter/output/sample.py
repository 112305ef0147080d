"""One sample: the engine's messages in, deltas of text and logprobs out.

Strategy: bytes -> ids -> text -> text before the stop, each step holding back only
what it cannot decide yet. Cutting the same messages or the same ids differently
changes how the deltas are cut and nothing else; a response that is not streamed is
the joined stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.detok import Detokenizer
from sglrouter._fast.parse import OutputParser
from sglrouter._fast.scan import StopMatcher
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import ChunkFramer
from sglrouter._fast.wire import GenerateReader
from sglrouter.errors import EngineError, RouterError, from_engine_response
from sglrouter.output.detokenizer import DetokenizerFactory


class TokenLogprob(NamedTuple):
    """The log probability of one output token, and of the likeliest in its place."""

    token: int
    logprob: float
    top: list[tuple[int, float]]


class Delta(NamedTuple):
    """What is new: UTF-8 text of whole characters, and the tokens it came from."""

    text: bytes
    logprobs: list[TokenLogprob]


class Usage(NamedTuple):
    """Tokens of one sample, as the engine counts them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int


_NOTHING = Delta(b"", [])
# No end yet, no reason given, and the reasons that clients know.
_GOOD_ENDS = frozenset({None, "", "stop", "length"})


class Sample:
    """Follows one sample from its first message to its last.

    Args:
        detokenizers: The model's detokenizers.
        eos_ids: Ids that end a text, unless ignore_eos.
        stop: Stop strings of the request.
        stop_token_ids: Stop ids of the request.
        ignore_eos: Whether ids do not end the text; strings still do.
        keep_stop: Whether what stopped the text stays in it.
        skip_special: Whether special tokens are left out of the text.
        logprobs: Whether to deliver log probabilities.
        shown: Special tokens that are text all the same.

    Attributes:
        wants_logprobs: Whether log probabilities are delivered.
        failure: What went wrong, once the sample cannot be completed.
        finish_reason: "stop" or "length" once the sample is complete.
        matched_stop: The stop token or string that ended it, or None.
    """

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        *,
        eos_ids: Collection[int] = (),
        stop: Sequence[str] = (),
        stop_token_ids: Collection[int] = (),
        ignore_eos: bool = False,
        keep_stop: bool = False,
        skip_special: bool = True,
        logprobs: bool = False,
        shown: Collection[int] = (),
    ) -> None:
        stop_ids: Collection[int] = ()
        if not ignore_eos:
            stop_ids = frozenset(eos_ids) | frozenset(stop_token_ids)
        self._reader = GenerateReader(logprobs)
        self._decoder = detokenizers.new(
            skip_special=skip_special, stop_ids=stop_ids, want_starts=logprobs, shown=shown
        )
        self._matcher = StopMatcher([text.encode() for text in stop], keep_stop) if stop else None
        self._keep_stop = keep_stop
        self.wants_logprobs = logprobs
        self._entries: deque[TokenLogprob] = deque()
        self._starts: deque[int] = deque()
        self._released = 0
        self.failure: RouterError | None = None
        self.finish_reason: str | None = None
        self.matched_stop: int | str | None = None

    def feed(self, messages: Sequence[bytes]) -> Delta:
        """Takes messages as they arrived; returns what they add.

        Look at finish_reason and failure afterwards: what came before the end, good
        or bad, is in the delta.
        """
        reader = self._reader
        try:
            for message in messages:
                reader.feed(message)
        except ValueError as exc:
            self.failure = EngineError(f"The engine sent a message that cannot be read: {exc}")
        if reader.failure is not None:
            detail, status = reader.failure
            self.failure = from_engine_response(status, detail)
        text = self._decoder.feed(reader)
        if self.failure is None and reader.finish_reason not in _GOOD_ENDS:
            self.failure = _bad_end(reader.finish_reason)
        if self.failure is not None:
            delta = _NOTHING if self.stopped else self._pass_on(text)
            if self.stopped:
                # The text was whole before the failure.
                self.failure = None
                self._end_at_stop_string()
            return delta
        if reader.finish_reason is not None:
            return self._finish(text, reader.finish_reason)
        if self.stopped and messages:
            # The engine sees a stop string when we do, and says so at once. This one
            # goes on, so it never will.
            self._end_at_stop_string()
            return _NOTHING
        return self._pass_on(text)

    def cut(self) -> None:
        """Ends it here, as if the model had; does nothing to one that has ended."""
        if self.finish_reason is None:
            self.finish_reason = "stop"

    def note_reasoning(self) -> None:
        """Says that all tokens so far are reasoning; engines do not always count them."""
        self._reader.reasoning_seen = self._reader.completion_tokens

    def sink(
        self,
        parser: OutputParser | None,
        framer: ChunkFramer,
        writer: BodyWriter,
        on_trouble: Callable[[], None],
    ) -> TextSink | None:
        """The short way for its messages; None where only feed() will do.

        What is fed afterwards goes on where the sink has stopped.
        """
        if self.wants_logprobs or not isinstance(self._decoder, Detokenizer):
            return None
        return TextSink(
            self._reader, self._decoder, self._matcher, parser, framer, writer, on_trouble
        )

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found, so that no more text will come."""
        return self._matcher is not None and self._matcher.matched is not None

    def _end_at_stop_string(self) -> None:
        assert self._matcher is not None
        assert self._matcher.matched is not None
        self.finish_reason = "stop"
        self.matched_stop = self._matcher.matched.decode()

    @property
    def engine_goes_on(self) -> bool:
        """Whether the sample was ended here while the engine still generates."""
        return self._reader.finish_reason is None

    @property
    def usage(self) -> Usage:
        """The engine's counts so far."""
        reader = self._reader
        return Usage(
            reader.prompt_tokens,
            reader.completion_tokens,
            reader.cached_tokens,
            max(reader.reasoning_tokens, reader.reasoning_seen),
        )

    def _finish(self, text: bytes, reason: str) -> Delta:
        matched = self._reader.matched_stop
        # A stop token is part of the text only if asked for, or if something else
        # (the length) is what ended the sample.
        text += self._decoder.finish(reason != "length" and not self._keep_stop)
        delta = _NOTHING if self.stopped else self._pass_on(text, last=True)
        if self.stopped:
            self._end_at_stop_string()
        else:
            self.finish_reason = reason or "stop"
            self.matched_stop = matched
        return delta

    def _pass_on(self, text: bytes, *, last: bool = False) -> Delta:
        matcher = self._matcher
        if matcher is not None:
            text = matcher.feed(text) + (matcher.finish() if last else b"")
        if not self.wants_logprobs:
            return Delta(text, [])
        return Delta(text, self._take_logprobs(len(text), last))

    def _take_logprobs(self, text_size: int, last: bool) -> list[TokenLogprob]:
        """The tokens whose text has begun to go out; the rest waits with its text."""
        self._entries.extend(TokenLogprob(*entry) for entry in self._reader.take_logprobs())
        self._starts.extend(self._decoder.take_starts())
        self._released += text_size
        everything = last and not self.stopped
        ready = []
        while self._starts and self._entries:
            if not everything and self._starts[0] >= self._released:
                break
            self._starts.popleft()
            ready.append(self._entries.popleft())
        return ready


def _bad_end(reason: str | None) -> RouterError:
    if reason != "abort":
        return EngineError(f"The engine ended the request for another reason: {reason}")
    # Engines behind servicers older than 0.14 end refused requests this way as well.
    return EngineError(
        "The engine aborted the request: it refused it or is shutting down",
        code="engine_aborted",
    )
