"""Turns of the event loop: long work rests now and then, so that others go on.

Strategy: work that has many parts asks the clock before each, in compiled code, which costs
some tens of nanoseconds, and rests where it has gone on for long. What rests is the
caller's to say: there may be no event loop at all. A part must be short in itself, so what
makes one long is bounded before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sglrouter._fast.turns import LONGEST_TURN, Turns, taking_turns

__all__ = ["LONGEST_TURN", "Pause", "Turns", "in_slices", "no_pause", "taking_turns"]

T = TypeVar("T")

# Items whose work is about as long as looking at the clock is cheap.
_SLICE = 250

Pause = Callable[[], object]


def no_pause() -> None:
    """Goes on at once: for work without an event loop."""


def in_slices(items: Sequence[T], pause: Pause) -> Iterator[Sequence[T]]:
    """The items, some hundreds at a time, with pauses as taking_turns() has them."""
    for start in taking_turns(range(0, len(items), _SLICE), pause):
        yield items[start : start + _SLICE]
