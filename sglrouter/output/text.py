"""Samples as text completions: server-sent chunks, or one object.

Both are made from the same samples, so they say the same. The choices of a request with
several prompts are in the prompts' order, those of one prompt after another. An echoed
prompt is text before the answer: it goes out first, with its log probabilities where
those are wanted, which the engine sends with its first message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import TextFramer
from sglrouter.errors import EngineError, RouterError
from sglrouter.output.events import DONE, error_events, usage_event, with_usage
from sglrouter.output.head import Head
from sglrouter.output.prompt_text import PromptText, character_offsets, count_characters
from sglrouter.output.sample import Sample, TokenLogprob
from sglrouter.output.text_logprobs import LogprobColumns, PlacedLogprob, finite, text_logprobs
from sglrouter.output.usage import usage_of
from sglrouter.turns import Pause, in_slices, no_pause, taking_turns

T = TypeVar("T")

_KIND = "text_completion"

_encode = msgspec.json.Encoder().encode


class TextPiece(NamedTuple):
    """What is new in a choice: text in UTF-8, and the tokens it came from."""

    text: bytes
    logprobs: list[PlacedLogprob]


class TextChoice:
    """Reads one sample.

    Args:
        sample: The sample; with log probabilities if those are shown or scored.
        prompt: Its prompt as the client sees it; only where it is echoed or tokens are
            placed.
        echo: Whether the prompt's text comes first; with `logprobs` its tokens' do, too.
        logprobs: Whether log probabilities are shown.

    Attributes:
        sample: The sample.
        shows_logprobs: As given.
    """

    def __init__(
        self,
        sample: Sample,
        prompt: PromptText | None = None,
        *,
        echo: bool = False,
        logprobs: bool = False,
    ) -> None:
        self.sample = sample
        self.shows_logprobs = logprobs
        self._prompt = prompt or PromptText(b"")
        self._echo = echo
        self._size = 0
        self._characters = self._prompt.characters if logprobs else 0
        self._score = 0.0
        self._scored = 0

    def begin(self) -> bytes:
        """The text that is known before the engine says anything."""
        if not self._echo or self.shows_logprobs:
            return b""
        self._echo = False
        return self._prompt.text

    def feed(self, messages: Sequence[bytes]) -> TextPiece:
        """Takes messages of the sample; see Sample.feed()."""
        text, logprobs = self.sample.feed(messages)
        if logprobs:
            self._score += sum(finite(entry.logprob) for entry in logprobs)
            self._scored += len(logprobs)
        if not self.shows_logprobs:
            return TextPiece(text, [])
        piece = TextPiece(text, self._placed(text, logprobs))
        return self._after_prompt(piece) if self._echo else piece

    @property
    def score(self) -> float:
        """The mean log probability of its tokens; the least of all if it has none."""
        return self._score / self._scored if self._scored else float("-inf")

    def sink(
        self, framer: TextFramer, writer: BodyWriter, on_trouble: Callable[[], None]
    ) -> TextSink | None:
        """The short way for most of its messages; None where all have to go through feed()."""
        return self.sample.sink(None, framer, writer, on_trouble)

    def _placed(self, text: bytes, logprobs: list[TokenLogprob]) -> list[PlacedLogprob]:
        placed = []
        if logprobs:
            places = (min(start - self._size, len(text)) for start in self.sample.starts)
            placed = [
                PlacedLogprob(*entry, self._characters + offset)
                for entry, offset in zip(logprobs, character_offsets(text, places), strict=True)
            ]
        self._size += len(text)
        self._characters += count_characters(text)
        return placed

    def _after_prompt(self, piece: TextPiece) -> TextPiece:
        """The piece after the prompt's own tokens, once those have come."""
        sample, prompt = self.sample, self._prompt
        scored = sample.input_logprobs
        if scored is None and sample.finish_reason is None:
            return piece
        self._echo = False
        if scored is not None and len(scored) == len(prompt.offsets):
            entries = [
                PlacedLogprob(*entry, offset)
                for entry, offset in zip(scored, prompt.offsets, strict=True)
            ]
            return TextPiece(prompt.text + piece.text, entries + piece.logprobs)
        if sample.finish_reason != "abort":
            sample.failure = EngineError(
                f"The engine scored {len(scored or ())} of {len(prompt.offsets)} prompt tokens"
            )
        return TextPiece(prompt.text + piece.text, piece.logprobs)


class TextStream:
    """Turns the messages of a completion's samples into server-sent events.

    Args:
        head: What every chunk repeats.
        choices: One for each sample, prompt by prompt.
        piece: Gives the bytes of a token id, for logprobs.
        per_prompt: How many choices each prompt has.
        include_usage: Whether to end with a chunk of token counts; the others then say null.
        continuous_usage: Whether every chunk has its choice's counts so far.
    """

    def __init__(
        self,
        head: Head,
        choices: Sequence[TextChoice],
        piece: Callable[[int], bytes],
        *,
        per_prompt: int = 1,
        include_usage: bool = False,
        continuous_usage: bool = False,
    ) -> None:
        self._head = head
        self._choices = choices
        self._piece = piece
        self._per_prompt = per_prompt
        self._include_usage = include_usage
        self._continuous_usage = continuous_usage
        self._framers = [
            TextFramer(
                head.id,
                head.created,
                head.model,
                index,
                usage=include_usage and not continuous_usage,
            )
            for index in range(len(choices))
        ]

    def begin(self) -> bytes:
        """The prompts, as far as they are echoed at once."""
        events = b""
        for index, choice in enumerate(self._choices):
            text = choice.begin()
            if text:
                events += self._counted(index, self._framers[index].content(text))
        return events

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        """Takes messages of one sample; returns the events they make, maybe none."""
        choice, framer = self._choices[index], self._framers[index]
        text, entries = choice.feed(messages)
        logprobs = _encode(text_logprobs(entries, self._piece)) if entries else None
        events = framer.delta(text, b"", [], logprobs)
        reason = choice.sample.finish_reason
        if reason is not None:
            events += framer.finish(reason, choice.sample.matched_stop)
        return self._counted(index, events)

    def _counted(self, index: int, events: bytes) -> bytes:
        if self._continuous_usage:
            return with_usage(events, usage_of([self._choices[index].sample.usage]))
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
        return usage_event(self._head.of(_KIND), _usage(self._choices, self._per_prompt)) + DONE

    @staticmethod
    def fail(error: RouterError) -> bytes:
        """The last events of a completion that broke."""
        return error_events(error)

    def close(self) -> None:
        """Nothing is held that outlives it."""


class TextCompletion:
    """Gathers a completion's samples into one response; see TextStream.

    Args:
        head: The response's first fields.
        choices: One for each sample, prompt by prompt.
        piece: Gives the bytes of a token id, for logprobs.
        per_prompt: How many samples each prompt has.
        best: How many of them to return, those with the best scores; None for all.
        pause: Called now and then where there are many log probabilities.
    """

    def __init__(
        self,
        head: Head,
        choices: Sequence[TextChoice],
        piece: Callable[[int], bytes],
        *,
        per_prompt: int = 1,
        best: int | None = None,
        pause: Pause = no_pause,
    ) -> None:
        self._head = head
        self._choices = choices
        self._piece = piece
        self._per_prompt = per_prompt
        self._best = per_prompt if best is None else best
        self._texts = [[choice.begin()] for choice in choices]
        self._logprobs = [LogprobColumns() for _ in choices]
        self._pause = pause

    def feed(self, index: int, messages: Sequence[bytes]) -> None:
        """Takes messages of one sample."""
        text, logprobs = self._choices[index].feed(messages)
        self._texts[index].append(text)
        for some in in_slices(logprobs, self._pause):
            self._logprobs[index].extend(text_logprobs(some, self._piece))

    def close(self) -> None:
        """Nothing is held that outlives it."""

    def body(self) -> bytes:
        """The response, once every sample is complete."""
        returned = [
            index
            for indexes in _by_prompt(range(len(self._choices)), self._per_prompt)
            for index in self._best_of(indexes)
        ]
        return _encode(
            {
                **self._head.of(_KIND),
                "choices": [
                    msgspec.Raw(_encode(self._choice(place, index)))
                    for place, index in enumerate(taking_turns(returned, self._pause))
                ],
                "usage": _usage(self._choices, self._per_prompt),
            }
        )

    def _best_of(self, indexes: Sequence[int]) -> Sequence[int]:
        """Those samples of a prompt that are returned."""
        if self._best == len(indexes):
            return indexes
        return sorted(indexes, key=lambda index: -self._choices[index].score)[: self._best]

    def _choice(self, place: int, index: int) -> dict[str, Any]:
        choice = self._choices[index]
        return {
            "index": place,
            "text": b"".join(self._texts[index]).decode(),
            "logprobs": self._logprobs[index].json() if choice.shows_logprobs else None,
            "finish_reason": choice.sample.finish_reason,
            "matched_stop": choice.sample.matched_stop,
        }


def _by_prompt(items: Sequence[T], per_prompt: int) -> Iterator[Sequence[T]]:
    """What there is for each sample, prompt by prompt."""
    for start in range(0, len(items), per_prompt):
        yield items[start : start + per_prompt]


def _usage(choices: Sequence[TextChoice], per_prompt: int) -> dict[str, Any]:
    return usage_of(*_by_prompt([choice.sample.usage for choice in choices], per_prompt))
