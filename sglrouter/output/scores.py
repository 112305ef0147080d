"""Scores as bodies: how likely tokens are after each item, and an order of documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from sglrouter.errors import EngineError
from sglrouter.output.head import Head
from sglrouter.output.sample import Sample
from sglrouter.output.vectors import prompt_usage, softmax

_encode = msgspec.json.Encoder().encode

# What a probability of zero is as a logarithm in JSON, which has no infinity.
_NEVER = -9999.0

_NO_ROW = msgspec.Raw(b"[]")


def _written(row: Sequence[float]) -> msgspec.Raw:
    return msgspec.Raw(_encode(row))


def label_logprobs(sample: Sample, labels: Sequence[int]) -> list[float]:
    """The log probability of each label as the next token.

    Args:
        sample: Asked for no token and for the labels, and complete.
        labels: Token ids.

    Raises:
        EngineError: The engine did not say.
    """
    rows = sample.selected_logprobs
    if not rows:
        raise EngineError(
            "The engine returns no probabilities of chosen tokens; its gRPC servicer must be of "
            "version 0.14 or later",
            status=501,
            code="engine_unsupported",
        )
    found = dict(rows[0])
    logprobs = [found.get(label, -math.inf) for label in labels]
    if any(math.isnan(value) for value in logprobs):
        raise EngineError("The engine's log probabilities are no numbers")
    return logprobs


class ScoreBody:
    """SGLang's table of scores: a row for each item.

    Args:
        model: What the model is called.
        count: How many items there are.
        temperature: That of the softmax; None for no softmax.
        tell_logprobs: Whether the log probabilities are told, too.
    """

    def __init__(
        self,
        model: str,
        count: int,
        *,
        temperature: float | None = None,
        tell_logprobs: bool = False,
    ) -> None:
        self._model = model
        # Each is written when it comes: there may be a million scores.
        self._rows = [_NO_ROW] * count
        self._temperature = temperature
        self._logprobs = [_NO_ROW] * count if tell_logprobs else None
        self._prompt_tokens = 0

    def add_logprobs(self, number: int, logprobs: Sequence[float], prompt_tokens: int) -> None:
        """Takes the log probabilities of an item's labels."""
        if self._temperature is None:
            row = [math.exp(value) for value in logprobs]
        else:
            row = softmax(logprobs, self._temperature)
        self._rows[number] = _written(row)
        if self._logprobs is not None:
            self._logprobs[number] = _written([max(value, _NEVER) for value in logprobs])
        self._prompt_tokens += prompt_tokens

    def add_logits(self, number: int, logits: Sequence[float], prompt_tokens: int) -> None:
        """Takes the logits of an item's classes."""
        row = list(logits) if self._temperature is None else softmax(logits, self._temperature)
        self._rows[number] = _written(row)
        self._prompt_tokens += prompt_tokens

    def body(self) -> bytes:
        """The body, once every item has its row."""
        return _encode(
            {
                "object": "scoring",
                "model": self._model,
                "scores": self._rows,
                "token_logprobs": self._logprobs,
                "pooled_hidden_states": None,
                "usage": prompt_usage(self._prompt_tokens),
            }
        )


class _Ranked(NamedTuple):
    score: float
    number: int


class RankingBody:
    """Documents by their scores, best first.

    Args:
        documents: Their texts, to be shown; None to leave them out.
        count: How many there are.
        top: How many of the best to show; None for all.
    """

    def __init__(self, documents: Sequence[str] | None, count: int, top: int | None) -> None:
        self._texts = documents
        self._documents = [_Ranked(0.0, number) for number in range(count)]
        self._top = top
        self._prompt_tokens = 0

    def add_logprobs(self, number: int, logprobs: Sequence[float], prompt_tokens: int) -> None:
        """Takes the log probabilities of "yes" and "no" after a document."""
        self._documents[number] = _Ranked(softmax(logprobs)[0], number)
        self._prompt_tokens += prompt_tokens

    def bare(self) -> bytes:
        """The list alone, as SGLang has it."""
        return _encode([{**each, "meta_info": None} for each in self._results()])

    def cohere(self, head: Head) -> bytes:
        """The list in an object, as Cohere has it."""
        results = [
            {
                "index": number,
                "relevance_score": score,
                **({} if self._texts is None else {"document": {"text": self._texts[number]}}),
            }
            for score, number in self._best()
        ]
        meta = {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": 1},
            "tokens": {"input_tokens": self._prompt_tokens, "output_tokens": 0},
        }
        return _encode({"id": head.id, "results": results, "meta": meta})

    def whole(self, head: Head, name: str | Sequence[str] | None) -> bytes:
        """The list in an object, as SGLang's gateways have it.

        Args:
            head: What the answer is called.
            name: The client's own name for it, if it has one.
        """
        return _encode(
            {
                **head.of("rerank"),
                "id": name or head.id,
                "results": [{**each, "relevance_score": each["score"]} for each in self._results()],
                "usage": prompt_usage(self._prompt_tokens),
            }
        )

    def _best(self) -> list[_Ranked]:
        """The documents to show; of equal scores, the earlier comes first."""
        return sorted(self._documents, key=lambda each: -each.score)[: self._top]

    def _results(self) -> list[dict[str, Any]]:
        return [
            {
                "score": score,
                **({} if self._texts is None else {"document": self._texts[number]}),
                "index": number,
            }
            for score, number in self._best()
        ]
