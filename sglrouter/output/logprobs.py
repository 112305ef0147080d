"""Log probabilities as OpenAI's chat API shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from sglrouter.output.sample import TokenLogprob

# What OpenAI's reference shows for a token that is not among the likeliest; JSON has
# no infinity.
LEAST = -9999.0


def chat_logprobs(
    entries: Iterable[TokenLogprob], piece: Callable[[int], bytes]
) -> list[dict[str, Any]]:
    """Renders entries of a choice's logprobs.content.

    Args:
        entries: The tokens.
        piece: Gives the bytes of a token id.
    """
    return [
        {
            **_token(entry.token, entry.logprob, piece),
            "top_logprobs": [_token(token, logprob, piece) for token, logprob in entry.top],
        }
        for entry in entries
    ]


def _token(token: int, logprob: float, piece: Callable[[int], bytes]) -> dict[str, Any]:
    data = piece(token)
    return {
        "token": data.decode("utf-8", "replace"),
        "logprob": logprob if math.isfinite(logprob) else LEAST,
        # The exact bytes: a token may be part of a character.
        "bytes": list(data),
    }
