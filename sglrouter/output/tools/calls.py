"""What every format's parser returns."""

from __future__ import annotations

import secrets
from typing import NamedTuple


class CallDelta(NamedTuple):
    """A piece of a tool call.

    Attributes:
        index: Which call of the answer, from 0.
        id: The call's id, with its first piece; else None.
        name: The function's name, with its first piece; else None.
        arguments: More of the arguments' JSON text. Joined, the pieces are always a
            prefix of the whole.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    id: str | None
    name: str | None
    arguments: str


class Parsed(NamedTuple):
    """What more text came to: content, and pieces of calls."""

    content: str
    calls: list[CallDelta]


def new_call_id() -> str:
    """An id in OpenAI's form."""
    return f"call_{secrets.token_hex(12)}"
