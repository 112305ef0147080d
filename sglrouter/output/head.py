"""What every part of one answer repeats."""

from __future__ import annotations

from typing import Any

import msgspec


class Head(msgspec.Struct, frozen=True):
    """The fields that name an answer.

    Attributes:
        id: The completion's id.
        created: Unix time in seconds.
        model: The model name, as the client wrote it.
    """

    id: str
    created: int
    model: str

    def of(self, kind: str) -> dict[str, Any]:
        """The beginning of an object of this answer.

        Args:
            kind: OpenAI's name for the kind of object.
        """
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}
