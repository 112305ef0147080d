"""Vectors as bodies: embeddings, the classes that they stand for, and SGLang's own form.

Strategy: each vector is written as soon as it has come, so that of a long list only text
is kept. What ends up in one body was asked for in one request, in its order.
"""

from __future__ import annotations

import math
import sys
import time
from array import array
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from sglrouter._fast.vectors import json_array
from sglrouter.errors import BadRequest
from sglrouter.output.head import Head

_encode = msgspec.json.Encoder().encode

# How far from one the length of a vector may be that was made to be of length one; some
# engines compute with eight bits of precision.
_UNIT = 0.02


class VectorBody(Protocol):
    """Gathers the vectors of one request into one body."""

    def add(self, number: int, vector: array[float], prompt_tokens: int) -> None:
        """Takes the vector of one input.

        Raises:
            RouterError: It cannot be what was asked for.
        """

    def body(self) -> bytes:
        """The body, once every input has its vector."""


class EmbeddingBody:
    """OpenAI's list of embeddings.

    Args:
        model: What the model is called.
        count: How many inputs there are.
        base64: Whether vectors are written as base64.
        dimensions: How many values to keep of each; None for all.
    """

    def __init__(
        self, model: str, count: int, *, base64: bool = False, dimensions: int | None = None
    ) -> None:
        self._model = model
        self._items = [b""] * count
        self._base64 = base64
        self._dimensions = dimensions
        self._prompt_tokens = 0

    def add(self, number: int, vector: array[float], prompt_tokens: int) -> None:
        """See VectorBody."""
        vector = shortened(vector, self._dimensions)
        text = b'"%b"' % _base64(vector) if self._base64 else json_array(vector)
        self._items[number] = b'{"object":"embedding","index":%d,"embedding":%b}' % (number, text)
        self._prompt_tokens += prompt_tokens

    def body(self) -> bytes:
        """See VectorBody."""
        rest = _encode({"model": self._model, "usage": prompt_usage(self._prompt_tokens)})
        return b'{"object":"list","data":[%b],%b' % (b",".join(self._items), rest[1:])


class ClassBody:
    """SGLang's list of classes: vectors taken for the logits of labels.

    Args:
        head: What the answer is called.
        count: How many inputs there are.
        labels: The classes in the vectors' order; empty if the model does not name them.
    """

    def __init__(self, head: Head, count: int, labels: Sequence[str] = ()) -> None:
        self._head = head
        self._items: list[dict[str, Any]] = [{}] * count
        self._labels = labels
        self._prompt_tokens = 0

    def add(self, number: int, vector: array[float], prompt_tokens: int) -> None:
        """See VectorBody."""
        labels = self._labels or [f"LABEL_{i}" for i in range(len(vector))]
        if len(labels) != len(vector):
            raise BadRequest(
                f"This model does not classify: it has {len(labels)} labels, but makes vectors "
                f"of {len(vector)} values. Ask for /v1/embeddings instead.",
                code="unsupported_model",
                param="model",
            )
        probabilities = softmax(vector)
        self._items[number] = {
            "index": number,
            "label": labels[vector.index(max(vector))],
            "probs": probabilities,
            "num_classes": len(probabilities),
        }
        self._prompt_tokens += prompt_tokens

    def body(self) -> bytes:
        """See VectorBody."""
        usage = {
            **prompt_usage(self._prompt_tokens),
            "completion_tokens": 0,
            "prompt_tokens_details": None,
        }
        return _encode({**self._head.of("list"), "data": self._items, "usage": usage})


class EncodedBody:
    """SGLang's own answer: the vector of one text, or a list of those of several.

    Args:
        ids: What the client calls each.
        many: Whether it asked for a list.
        facts: What is the same for all in `meta_info`.
        dimensions: How many values to keep of each; None for all.
    """

    def __init__(
        self,
        ids: Sequence[str],
        *,
        many: bool,
        facts: Mapping[str, Any],
        dimensions: int | None = None,
    ) -> None:
        self._ids = ids
        self._many = many
        self._facts = facts
        self._dimensions = dimensions
        self._began = time.monotonic()
        self._items = [b""] * len(ids)

    def add(self, number: int, vector: array[float], prompt_tokens: int) -> None:
        """See VectorBody."""
        meta_info = {
            "id": self._ids[number],
            # An engine takes it for a generation of no tokens.
            "finish_reason": {"type": "length", "length": 0},
            "prompt_tokens": prompt_tokens,
            **self._facts,
            "e2e_latency": time.monotonic() - self._began,
        }
        self._items[number] = b'{"embedding":%b,"meta_info":%b}' % (
            json_array(shortened(vector, self._dimensions)),
            _encode(meta_info),
        )

    def body(self) -> bytes:
        """See VectorBody."""
        return b"[%b]" % b",".join(self._items) if self._many else self._items[0]


def shortened(vector: array[float], dimensions: int | None) -> array[float]:
    """The first values of a Matryoshka embedding; of length one if the whole one is.

    Raises:
        BadRequest: There are not so many.
    """
    if dimensions is None or dimensions == len(vector):
        return vector
    if dimensions > len(vector):
        raise BadRequest(
            f"dimensions must be at most {len(vector)}, the length of this model's embeddings",
            code="invalid_value",
            param="dimensions",
        )
    first = vector[:dimensions]
    if abs(math.hypot(*vector) - 1.0) > _UNIT:
        return first
    length = math.hypot(*first)
    return array("f", (value / length for value in first)) if length else first


def softmax(values: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Probabilities from logits or log probabilities.

    Args:
        values: Numbers below infinity; if all are minus infinity, so are all zero.
        temperature: What they are divided by.
    """
    most = max(values)
    if most == -math.inf:
        return [0.0] * len(values)
    # The largest becomes 0 first: no temperature can make it overflow.
    weights = [math.exp((value - most) / temperature) for value in values]
    total = sum(weights)
    return [weight / total for weight in weights]


def prompt_usage(prompt_tokens: int) -> dict[str, int]:
    """OpenAI's usage object where nothing is generated."""
    return {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}


def _base64(vector: array[float]) -> bytes:
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return b64encode(vector)
