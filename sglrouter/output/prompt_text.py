"""The text of a prompt, and where in it each token begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

# The bytes of UTF-8 that begin no character.
_CONTINUATION = bytes(range(0x80, 0xC0))


class PromptText(msgspec.Struct, frozen=True):
    """What a client sees of a prompt.

    Attributes:
        text: In UTF-8.
        offsets: In which character each of its tokens begins; empty if nobody asks.
    """

    text: bytes
    offsets: Sequence[int] = ()

    @property
    def characters(self) -> int:
        """How long it is."""
        return count_characters(self.text)


def count_characters(text: bytes) -> int:
    """How many characters begin in a piece of UTF-8."""
    return len(text.translate(None, _CONTINUATION))


def character_offsets(text: bytes, places: Iterable[int]) -> list[int]:
    """The characters that places are in.

    Args:
        text: UTF-8.
        places: Places in bytes, none before the last; its end is one, too.
    """
    offsets = []
    at = begun = 0
    for place in places:
        begun += count_characters(text[at:place])
        at = place
        inside = place < len(text) and text[place] & 0xC0 == 0x80
        offsets.append(begun - inside)
    return offsets
