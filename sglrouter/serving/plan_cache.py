"""What requests decide by their parameters, remembered.

Strategy: clients send the same parameters time and again, with other messages. All that
depends on nothing else is decided once: sampling, tools, grammar, template variables, how to
read the answer. The key is the request as JSON without what may differ, so that requests of
one key have the same parameters to the last digit, whoever sends them; messages, and what is
made of them, are never kept. Bounded by the size of the keys, least recently used first out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

# Bytes of all keys together. What is kept beside one is a few times as large.
_MOST_BYTES = 4 * 1024 * 1024
# A longer one is decided anew each time.
_LONGEST = 512 * 1024
_MOST = 1024

_encode = msgspec.json.Encoder().encode


def key_of(request: msgspec.Struct, *without: str) -> bytes | None:
    """What two requests have in common whose parameters are the same.

    Args:
        request: A request, whose type leaves out defaults when it is encoded.
        without: Fields that do not count.

    Returns:
        None for a request that is not worth remembering.
    """
    nothing = dict.fromkeys(without)
    try:
        key = _encode(msgspec.structs.replace(request, **nothing))
    except (OverflowError, ValueError):
        # A number that JSON can say and our encoder cannot.
        return None
    return key if len(key) <= _LONGEST else None


class PlanCache(Generic[T]):
    """Plans by the keys of their requests.

    Args:
        most_bytes: How long all keys together may be.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._plans: OrderedDict[bytes, tuple[object, T]] = OrderedDict()
        self._most_bytes = most_bytes
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: bytes, basis: object) -> T | None:
        """The plan for a key; None if there is none, or it was made on another basis.

        Args:
            key: From key_of().
            basis: What else the plan depends on; the same object means the same.
        """
        entry = self._plans.get(key)
        if entry is None or entry[0] is not basis:
            return None
        self._plans.move_to_end(key)
        return entry[1]

    def put(self, key: bytes, basis: object, plan: T) -> None:
        """Remembers a plan."""
        if key not in self._plans:
            self._bytes += len(key)
        self._plans[key] = basis, plan
        self._plans.move_to_end(key)
        while self._bytes > self._most_bytes or len(self._plans) > _MOST:
            oldest, _ = self._plans.popitem(last=False)
            self._bytes -= len(oldest)
