"""Stop strings, matched the way the engine does it: on the decoded tail of the ids.

The tail is as many tokens as the longest stop string has, plus one, so the work a token
is bounded and a stop inside a token is found. While the text ends with what could be the
beginning of a stop string, the ids are not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sglrouter.sim.model_folder import ModelFolder


class StopMatcher:
    """Looks for a request's stop strings."""

    def __init__(self, folder: ModelFolder, stops: Sequence[str]) -> None:
        self._folder = folder
        self._stops = tuple(stops)
        self._tail_length = 1 + max((len(folder.encode(stop)) for stop in stops), default=0)

    def match(self, output: list[int]) -> str | None:
        """The first of the stop strings that the tail contains; "" is in every tail."""
        if not self._stops:
            return None
        tail = self._tail(output)
        return next((stop for stop in self._stops if stop in tail), None)

    def may_begin(self, output: list[int]) -> bool:
        """Whether the tail ends with the beginning of a stop string."""
        if not self._stops:
            return False
        tail = self._tail(output)
        return any(
            tail.endswith(stop[:length])
            for stop in self._stops
            for length in range(1, min(len(stop), len(tail)) + 1)
        )

    def _tail(self, output: list[int]) -> str:
        return self._folder.decode(output[-self._tail_length :])
