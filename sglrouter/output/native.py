"""Samples as SGLang's own server shows them: objects of text, output_ids and meta_info.

Strategy: every event of a stream repeats all that came before it, as SGLang's do unless
it is started otherwise. So each piece is turned into JSON once, when it comes, and
appended to what its event repeats; an event then costs a copy of bytes and nothing
else, and events that nobody has taken yet are not made at all.

Where a log probability is not finite, JSON has null, as SGLang's does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.sink import TextSink
from sglrouter._fast.sse import escape_line_ends, json_string
from sglrouter.errors import RouterError
from sglrouter.output.events import DONE, error_events
from sglrouter.output.json_array import JsonArray
from sglrouter.output.sample import Sample
from sglrouter.turns import Pause, in_slices, no_pause, taking_turns

_encode = msgspec.json.Encoder().encode

# (log probability, id, text); the text only if asked for.
_Entry = tuple[float | None, int, str | None]


class NativeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an output shows of its request.

    Attributes:
        id: Its name to the client.
        prompt_ids: The prompt's tokens.
        weight_version: What the engine calls its weights.
        began: When the request came, by time.monotonic().
        top: Whether the likeliest tokens are shown in each place.
        selected: Whether the tokens that the request selected are.
        start: From where on the prompt is scored; -1 for not at all.
        shows_prompt: Whether the prompt's tokens are shown.
        piece: Gives the bytes of a token id, if log probabilities have text.
    """

    id: str
    prompt_ids: Sequence[int]
    weight_version: str
    began: float
    top: bool = False
    selected: bool = False
    start: int = -1
    shows_prompt: bool = False
    piece: Callable[[int], bytes] | None = None


class NativeOutput:
    """One sample, in all that SGLang shows of it.

    Args:
        sample: The sample, with kept ids.
        request: What else is shown.
        pause: Called now and then where there are many log probabilities.

    Attributes:
        sample: The sample.
    """

    def __init__(self, sample: Sample, request: NativeRequest, pause: Pause = no_pause) -> None:
        self.sample = sample
        self._request = request
        self._pause = pause
        self._text = bytearray()
        self._ids = JsonArray()
        self._logprobs = JsonArray()
        self._top = JsonArray()
        self._selected = JsonArray()
        self._input = JsonArray()
        self._input_top = JsonArray()
        self._sent_at: float | None = None
        self._prompt = JsonArray()
        if request.shows_prompt:
            self._prompt.extend(list(request.prompt_ids))

    def feed(self, messages: Sequence[bytes]) -> bool:
        """Takes messages of the sample; returns whether they add anything to show."""
        sample, shown = self.sample, self._ids.size
        self._text += json_string(sample.feed(messages).text)[1:-1]
        self._ids.extend(sample.output_ids[shown:])
        if sample.wants_logprobs:
            self._add_logprobs()
        return self._ids.size > shown or sample.finish_reason is not None

    def _add_logprobs(self) -> None:
        sample, request = self.sample, self._request
        for fresh in in_slices(sample.output_logprobs[self._logprobs.size :], self._pause):
            self._logprobs.extend([self._entry(each.logprob, each.token) for each in fresh])
            if request.top:
                self._top.extend([self._row(each.top) for each in fresh])
        ended = sample.finish_reason is not None
        if request.top and ended and not self._top.size and sample.next_top:
            self._top.extend([self._row(sample.next_top)])
        if request.selected:
            for row in taking_turns(sample.selected_logprobs[self._selected.size :], self._pause):
                self._selected.extend([self._row(row)])
        if sample.input_logprobs and not self._input.size:
            for scored in in_slices(sample.input_logprobs, self._pause):
                self._input.extend([self._entry(each.logprob, each.token) for each in scored])
                self._input_top.extend([self._row(each.top) for each in scored])

    def _entry(self, logprob: float | None, token: int) -> _Entry:
        piece = self._request.piece
        return logprob, token, piece(token).decode("utf-8", "replace") if piece else None

    def _row(self, alternatives: Sequence[tuple[int, float]]) -> list[_Entry] | None:
        # SGLang has null for an empty row, which is that of a prompt's first token.
        return [self._entry(logprob, token) for token, logprob in alternatives] or None

    def document(self, index: int | None = None) -> bytes:
        """All that there is so far, as one JSON object.

        Args:
            index: Its place among others, where that is shown.
        """
        content: dict[str, Any] = {
            "text": msgspec.Raw(b'"' + self._text + b'"'),
            "output_ids": self._ids.json(),
            "meta_info": self._meta_info(),
        }
        if self._request.shows_prompt:
            content["prompt_token_ids"] = self._prompt.json()
        if index is not None:
            content["index"] = index
        return escape_line_ends(_encode(content))

    def _meta_info(self) -> dict[str, Any]:
        sample, request = self.sample, self._request
        usage = sample.usage
        meta: dict[str, Any] = {
            "id": request.id,
            "finish_reason": self._finish_reason(),
            "prompt_tokens": len(request.prompt_ids),
            "weight_version": request.weight_version,
        }
        if sample.wants_logprobs:
            meta |= self._scores()
        meta |= {
            "reasoning_tokens": usage.reasoning_tokens,
            "completion_tokens": self._ids.size,
            "cached_tokens": usage.cached_tokens,
        }
        if sample.finish_reason is not None:
            meta["e2e_latency"] = time.monotonic() - request.began
            meta |= self._speculation()
        if self._sent_at is None:
            self._sent_at = meta["response_sent_to_client_ts"] = time.time()
        return meta

    def _finish_reason(self) -> dict[str, Any] | None:
        reason = self.sample.finish_reason
        if reason is None:
            return None
        if reason == "length":
            return {"type": reason, "length": self._ids.size}
        if reason == "abort":
            return {"type": reason, "message": "Aborted", "status_code": None, "err_type": None}
        return {"type": reason, "matched": self.sample.matched_stop}

    def _scores(self) -> dict[str, Any]:
        request = self._request
        scores: dict[str, Any] = {
            "input_token_logprobs": self._input.json(),
            "output_token_logprobs": self._logprobs.json(),
            "output_token_logprobs_length": self._logprobs.size,
        }
        if request.top:
            scores["input_top_logprobs"] = self._input_top.json()
            scores["output_top_logprobs"] = self._top.json()
        if request.selected:
            # Engines score them in the prompt, too, but do not tell.
            scores["input_token_ids_logprobs"] = [] if request.start < 0 else None
            scores["output_token_ids_logprobs"] = self._selected.json()
        return scores

    def _speculation(self) -> dict[str, Any]:
        drafted, accepted = self.sample.speculation
        if not drafted:
            return {}
        return {
            "spec_accept_rate": accepted / drafted,
            "spec_num_correct_drafts": accepted,
            "spec_num_proposed_drafts": drafted,
        }


class NativeStream:
    """Turns the messages of a request's samples into server-sent events.

    Args:
        outputs: One for each sample.
        several: Whether there could be several, so that each event says which it is of.
    """

    def __init__(self, outputs: Sequence[NativeOutput], *, several: bool) -> None:
        self._outputs = outputs
        self._several = several

    @staticmethod
    def begin() -> bytes:
        """Nothing: the first event comes with the first token."""
        return b""

    def feed(self, index: int, messages: Sequence[bytes]) -> bytes:
        """Takes messages of one sample; returns the event they make, maybe none."""
        output = self._outputs[index]
        if not output.feed(messages):
            return b""
        return b"data: %b\n\n" % output.document(index if self._several else None)

    @staticmethod
    def sink(_index: int, _writer: BodyWriter, _on_trouble: Callable[[], None]) -> TextSink | None:
        """None: every event is more than new text."""
        return None

    @staticmethod
    def end() -> bytes:
        """The last event of an answer whose samples are complete."""
        return DONE

    @staticmethod
    def fail(error: RouterError) -> bytes:
        """The last events of an answer that broke."""
        return error_events(error)

    def close(self) -> None:
        """Nothing is held that outlives it."""


class NativeBody:
    """Gathers a request's samples into one response; see NativeStream."""

    def __init__(
        self, outputs: Sequence[NativeOutput], *, several: bool, pause: Pause = no_pause
    ) -> None:
        self._outputs = outputs
        self._several = several
        self._pause = pause

    def feed(self, index: int, messages: Sequence[bytes]) -> None:
        """Takes messages of one sample."""
        self._outputs[index].feed(messages)

    def close(self) -> None:
        """Nothing is held that outlives it."""

    def body(self) -> bytes:
        """The response, once every sample is complete."""
        documents = [output.document() for output in taking_turns(self._outputs, self._pause)]
        return b"[%b]" % b",".join(documents) if self._several else documents[0]
