"""How long one prompt may take to make, and how large it may grow.

Strategy: work asks the clock often, which costs some tens of nanoseconds, and every
few milliseconds it rests, so that the other streams of the process go on. What counts
is the processor's time, without that of others. Work that has used it up is refused as
the client's fault: its twin would take as long.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, thread_time

from sglrouter.errors import BadRequest
from sglrouter.turns import LONGEST_TURN


class Budget:
    """The time and room for one prompt.

    Args:
        seconds: How long the work may take, in processor time.
        characters: How long a text, or a list, may get.
        pause: Lets others work; None where there are none.

    Attributes:
        until: The monotonic time from which on `overrun` must be called.
        characters: As given.
    """

    __slots__ = ("_left", "_pause", "_seconds", "_since", "characters", "until")

    def __init__(
        self, seconds: float, characters: int, pause: Callable[[], object] | None = None
    ) -> None:
        self.characters = characters
        self._seconds = self._left = seconds
        self._pause = pause
        # Most work ends within its first slice, and need not ask for the processor's time,
        # which is a system call. That slice is charged as a whole.
        self._since: float | None = None
        self.until = monotonic() + min(LONGEST_TURN, seconds)

    def check(self) -> None:
        """To be called at every step of work without a known end.

        Raises:
            BadRequest: The time is used up.
        """
        if monotonic() >= self.until:
            self.overrun()

    def overrun(self) -> None:
        """Rests, or gives up."""
        self._left -= LONGEST_TURN if self._since is None else thread_time() - self._since
        if self._left <= 0:
            raise BadRequest(
                f"The chat template takes longer than {self._seconds:g} s over these messages; "
                "send fewer or shorter ones",
                code="chat_template_error",
                param="messages",
            )
        if self._pause is not None:
            self._pause()
        self._since = thread_time()
        self.until = monotonic() + min(LONGEST_TURN, self._left)

    def too_large(self) -> BadRequest:
        """The refusal of a text that outgrows the budget."""
        return BadRequest(
            f"The chat template makes more than {self.characters} characters of these messages; "
            "send fewer or shorter ones",
            code="chat_template_error",
            param="messages",
        )
