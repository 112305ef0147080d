"""The prefix cache: how many tokens of a prompt an earlier request has left behind.

Each cached position is one hash that covers every id up to it, so the longest known
prefix is a walk that stops at the first unknown hash. Old positions fall out first; a
position whose beginning is gone is unreachable and falls out in its turn.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class PrefixCache:
    """A cache of `capacity` token positions."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        # A dict would look through all that have fallen out for its first one.
        self._positions: OrderedDict[int, None] = OrderedDict()

    def match(self, namespace: str, ids: Iterable[int]) -> int:
        """The length of the longest cached prefix of `ids`."""
        state = hash(namespace)
        length = 0
        for token in ids:
            state = hash((state, token))
            if state not in self._positions:
                break
            length += 1
        return length

    def insert(self, namespace: str, ids: Iterable[int]) -> None:
        """Caches every prefix of `ids`."""
        state = hash(namespace)
        for token in ids:
            state = hash((state, token))
            self._positions[state] = None
        while len(self._positions) > self._capacity:
            self._positions.popitem(last=False)

    def clear(self) -> None:
        """Forgets everything."""
        self._positions.clear()
