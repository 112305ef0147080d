"""Engine calls that do nothing."""

from __future__ import annotations

from collections.abc import Callable

from sglrouter._fast.sink import Sink
from sglrouter.engines.channel.channel import Status


class SilentCall:
    """A call that nothing comes of but its end.

    Args:
        listens: Whether it says that it calls back.
    """

    def __init__(self, *, listens: bool = False) -> None:
        self._listens = listens
        self._status: Status | None = None

    def take(self) -> list[bytes]:
        """Nothing."""
        return []

    @property
    def status(self) -> Status | None:
        """How it ended."""
        return self._status

    @property
    def holds_back(self) -> bool:
        """Never."""
        return False

    def listen(self, on_news: Callable[[], None] | None) -> bool:
        """Never calls it, though it may say that it will."""
        return self._listens

    def divert(self, sink: Sink) -> None:
        """Does nothing."""

    def cancel(self) -> None:
        """Ends it."""
        self._status = Status("CANCELLED", "")
