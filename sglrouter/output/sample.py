"""One sample: the engine's messages in, deltas of text and logprobs out.

Strategy: bytes -> ids -> text -> text before the stop, each step holding back only
what it cannot decide yet. Cutting the same messages or the same ids differently
changes how the deltas are cut and nothing else; a response that is not streamed is
the joined stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.detok import Detokenizer
from sglrouter._fast.framer import Framer
from sglrouter._fast.parse import OutputParser
from sglrouter._fast.scan import StopMatcher
from sglrouter._fast.sink import TextSink
from sglrouter._fast.wire import GenerateReader
from sglrouter.errors import EngineError, RouterError, from_engine_response
from sglrouter.output.detokenizer import DetokenizerFactory

T = TypeVar("T")


class TokenLogprob(NamedTuple):
    """The log probability of one output token, and of the likeliest in its place."""

    token: int
    logprob: float
    top: list[tuple[int, float]]


class PromptLogprob(NamedTuple):
    """The log probability of one prompt token, None for the first; see TokenLogprob."""

    token: int
    logprob: float | None
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


class Speculation(NamedTuple):
    """How many tokens speculative decoding drafted for a sample, and how many were right."""

    draft_tokens: int
    accepted_tokens: int


_NOTHING = Delta(b"", [])
# No end yet, no reason given, and the reasons that clients know.
_GOOD_ENDS = frozenset({None, "", "stop", "length"})


class Sample:
    """Follows one sample from its first message to its last.

    Args:
        detokenizers: The model's detokenizers.
        prompt: The ids that the sample goes on with.
        eos_ids: Ids that end a text, unless ignore_eos.
        stop: Stop strings of the request.
        stop_token_ids: Stop ids of the request.
        ignore_eos: Whether ids do not end the text; strings still do.
        keep_stop: Whether what stopped the text stays in it.
        skip_special: Whether special tokens are left out of the text.
        logprobs: Whether to deliver log probabilities.
        shown: Special tokens that are text all the same.
        keep_ids: Whether to gather output_ids, and with `logprobs` output_logprobs.
        input_logprobs: Whether to gather input_logprobs.
        selected_logprobs: Whether to gather selected_logprobs.

    Log probabilities are the engine's: any of them may be infinite or NaN.

    Attributes:
        wants_logprobs: Whether log probabilities are delivered.
        starts: Where each token of the last delta's logprobs begins: in which byte of all
            text so far.
        by_token: Whether `texts` has to say what each token has come to.
        texts: With `by_token` the last delta's text in pieces: one for each token, then what
            the end has added.
        failure: What went wrong, once the sample cannot be completed.
        finish_reason: "stop" or "length" once the sample is complete, "abort" if it was
            ended by abort().
        matched_stop: The stop token or string that ended it, or None.
    """

    def __init__(
        self,
        detokenizers: DetokenizerFactory,
        *,
        prompt: Sequence[int] = (),
        eos_ids: Collection[int] = (),
        stop: Sequence[str] = (),
        stop_token_ids: Collection[int] = (),
        ignore_eos: bool = False,
        keep_stop: bool = False,
        skip_special: bool = True,
        logprobs: bool = False,
        shown: Collection[int] = (),
        keep_ids: bool = False,
        input_logprobs: bool = False,
        selected_logprobs: bool = False,
    ) -> None:
        stop_ids: Collection[int] = ()
        if not ignore_eos:
            stop_ids = frozenset(eos_ids) | frozenset(stop_token_ids)
        self._reader = GenerateReader(
            logprobs,
            keep_ids=keep_ids,
            want_input_logprobs=input_logprobs,
            want_selected=selected_logprobs,
        )
        # What is kept by position ends with the text, wherever a stop string ends that.
        self._by_position = keep_ids or selected_logprobs
        self._decoder = detokenizers.new(
            skip_special=skip_special,
            stop_ids=stop_ids,
            want_starts=logprobs or self._by_position,
            shown=shown,
            prompt=prompt,
        )
        self._matcher = StopMatcher([text.encode() for text in stop], keep_stop) if stop else None
        self._keep_stop = keep_stop
        self.wants_logprobs = logprobs
        self.starts: list[int] = []
        self.by_token = False
        self.texts: list[bytes] = []
        self._entries: deque[TokenLogprob] = deque()
        self._starts: deque[int] = deque()
        self._released = 0
        self._keeps_logprobs = keep_ids and logprobs
        self._kept_logprobs: list[TokenLogprob] = []
        self._kept_starts: list[int] = []
        self._input_logprobs: list[PromptLogprob] | None = None
        self._gathers = self._by_position or input_logprobs or logprobs
        self._fresh: list[bytes] = []  # what each token of the last delta has been decoded to
        self._aborted = False
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
        if self.by_token:
            text = b""
            self.texts = []
            self._fresh = self._decoder.feed_each(reader)
        else:
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
        if self._aborted:
            return self._finish(text, "abort")
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

    def abort(self) -> None:
        """Has it end with the next feed(), unless the engine has ended it by then."""
        self._aborted = True

    def note_reasoning(self, count: int | None = None) -> None:
        """Says up to which token reasoning goes; engines do not always count them.

        Args:
            count: How many of the last delta's tokens, which is `by_token`, belong to it;
                None for all tokens so far.
        """
        reader = self._reader
        if count is None:
            reader.reasoning_seen = reader.completion_tokens
        else:
            reader.reasoning_seen = reader.received - max(len(self._fresh) - count, 0)

    def sink(
        self,
        parser: OutputParser | None,
        framer: Framer,
        writer: BodyWriter,
        on_trouble: Callable[[], None],
    ) -> TextSink | None:
        """The short way for its messages; None where only feed() will do.

        What is fed afterwards goes on where the sink has stopped.
        """
        if self._gathers or not isinstance(self._decoder, Detokenizer):
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

    @property
    def speculation(self) -> Speculation:
        """What speculative decoding came to; zeros where the engine does not say."""
        return Speculation(self._reader.spec_draft_tokens, self._reader.spec_accepted_tokens)

    @property
    def output_ids(self) -> list[int]:
        """All ids so far, one that stopped the sample included; see `keep_ids`.

        Unlike text, ids are there as soon as the engine has sent them. A stop string is
        among them, and what its last token holds behind it. The list is the sample's own
        and grows, as are those below.
        """
        return self._before_stop(self._reader.output_ids)

    @property
    def output_logprobs(self) -> list[TokenLogprob]:
        """The log probabilities of output_ids, one for each."""
        return self._before_stop(self._kept_logprobs)

    @property
    def selected_logprobs(self) -> list[list[tuple[int, float]]]:
        """(id, log probability) of the tokens that the request selected, for each id.

        With no token to be made it is one row, for the one that would have come.
        """
        return self._before_stop(self._reader.selected_logprobs)

    @property
    def input_logprobs(self) -> list[PromptLogprob] | None:
        """The prompt's tokens from where the request says; None until they have come."""
        found = self._reader.input_logprobs
        if self._input_logprobs is None and found is not None:
            self._input_logprobs = [PromptLogprob(*entry) for entry in found]
        return self._input_logprobs

    @property
    def next_top(self) -> list[tuple[int, float]] | None:
        """The likeliest tokens after the prompt, if there was no token to be made."""
        return self._reader.next_top

    def _before_stop(self, gathered: list[T]) -> list[T]:
        """What belongs to tokens up to the stop string, if one was found.

        An engine that has found it, too, sends no more. Others go on for a while, and how
        far depends on when we have seen it.
        """
        matcher = self._matcher
        if matcher is None or matcher.matched is None:
            # No copy: whoever looks at it after every message would copy it that often.
            return gathered
        end = self._released + (0 if self._keep_stop else len(matcher.matched))
        return gathered[: bisect_left(self._kept_starts, end)]

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
        if self.by_token:
            text = self._pass_on_each(text, last)
        elif matcher is not None:
            text = matcher.feed(text) + (matcher.finish() if last else b"")
        if not self._gathers:
            return Delta(text, [])
        return Delta(text, self._gather(len(text), last))

    def _pass_on_each(self, rest: bytes, last: bool) -> bytes:
        """Passes on what each token has come to, and what the end has added."""
        texts, matcher = [*self._fresh, rest], self._matcher
        if matcher is not None:
            texts = [matcher.feed(text) for text in texts]
            if last:
                texts.append(matcher.finish())
        self.texts = texts
        return b"".join(texts)

    def _gather(self, text_size: int, last: bool) -> list[TokenLogprob]:
        """The tokens whose text has begun to go out; the rest waits with its text."""
        self._released += text_size
        entries = [TokenLogprob(*entry) for entry in self._reader.take_logprobs()]
        starts = self._decoder.take_starts()
        if self._by_position:
            self._kept_starts.extend(starts)
        if self._keeps_logprobs:
            self._kept_logprobs.extend(entries)
        self._entries.extend(entries)
        self._starts.extend(starts)
        everything = last and not self.stopped
        ready = []
        self.starts = []
        while self._starts and self._entries:
            if not everything and self._starts[0] >= self._released:
                break
            self.starts.append(self._starts.popleft())
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
