r"""Log probabilities as OpenAI's text completions show them.

They are four lists of equal length. Tokens are told by their text alone there, so one
that is not whole characters is written as OpenAI does, with its bytes: `bytes:\xf0\x9f`.
No two of those are alike, while all would be the same as U+FFFD.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sglrouter.output.json_array import JsonArray
from sglrouter.output.logprobs import LEAST


class PlacedLogprob(NamedTuple):
    """The log probability of a token, of the likeliest in its place, and where that is.

    Attributes:
        token: The token.
        logprob: None if it has none, as the first of a prompt.
        top: (token, log probability), the likeliest first.
        offset: In which character of prompt and answer together it begins.
    """

    token: int
    logprob: float | None
    top: list[tuple[int, float]]
    offset: int


def text_logprobs(
    entries: Iterable[PlacedLogprob], piece: Callable[[int], bytes]
) -> dict[str, list[Any]]:
    """Renders a choice's logprobs.

    Args:
        entries: The tokens.
        piece: Gives the bytes of a token id.
    """
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    text_offset: list[int] = []
    for token, logprob, top, offset in entries:
        written = written_token(piece(token))
        tokens.append(written)
        text_offset.append(offset)
        if logprob is None:
            token_logprobs.append(None)
            top_logprobs.append(None)
            continue
        token_logprobs.append(finite(logprob))
        likeliest: dict[str, float] = {}
        # The token itself is always among them. The first of two equal texts is likelier.
        for each, value in (*top, (token, logprob)):
            likeliest.setdefault(written_token(piece(each)), finite(value))
        top_logprobs.append(likeliest)
    return {
        "tokens": tokens,
        "token_logprobs": token_logprobs,
        "top_logprobs": top_logprobs,
        "text_offset": text_offset,
    }


class LogprobColumns:
    """The four lists of a choice, written while its tokens come."""

    def __init__(self) -> None:
        self._columns = {
            name: JsonArray()
            for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
        }

    def extend(self, columns: Mapping[str, Sequence[object]]) -> None:
        """Adds what text_logprobs() has made."""
        for name, column in self._columns.items():
            column.extend(columns[name])

    def json(self) -> dict[str, msgspec.Raw]:
        """All of them."""
        return {name: column.json() for name, column in self._columns.items()}


def finite(logprob: float) -> float:
    """A log probability that JSON can say."""
    return logprob if math.isfinite(logprob) else LEAST


def written_token(data: bytes) -> str:
    """The bytes of a token as text; see above."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(
            chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in data
        )
