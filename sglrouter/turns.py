"""Turns of the event loop: long work rests now and then, so that others go on.

Strategy: work that has many parts asks the clock before each, which costs some tens of
nanoseconds, and rests where it has gone on for long. What rests is the caller's to say:
there may be no event loop at all. A part must be short in itself, so what makes one
long is bounded before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

# Seconds that the work for one request may go on before others get their turn.
LONGEST_TURN = 0.005

# Items whose work is about as long as looking at the clock is cheap.
_SLICE = 250

Pause = Callable[[], object]


def no_pause() -> None:
    """Goes on at once: for work without an event loop."""


class Turns:
    """Rests where work has gone on for long.

    Args:
        pause: Lets others go on.
    """

    __slots__ = ("_pause", "_until")

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._until = monotonic() + LONGEST_TURN

    def check(self) -> None:
        """To be called between parts of the work."""
        if monotonic() >= self._until:
            self.rest()

    def rest(self) -> None:
        """Lets others go on now: to be called before and after a part that is known to be long."""
        self._pause()
        self._until = monotonic() + LONGEST_TURN


def taking_turns(items: Iterable[T], pause: Pause) -> Iterator[T]:
    """The items, with a pause wherever those before have taken long."""
    turns = Turns(pause)
    for item in items:
        turns.check()
        yield item


def in_slices(items: Sequence[T], pause: Pause) -> Iterator[Sequence[T]]:
    """The items, some hundreds at a time, with pauses as taking_turns() has them."""
    for start in taking_turns(range(0, len(items), _SLICE), pause):
        yield items[start : start + _SLICE]
