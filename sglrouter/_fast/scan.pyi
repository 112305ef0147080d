from collections.abc import Iterable

class StopMatcher:
    """Passes text on up to the first stop string."""

    matched: bytes | None

    def __init__(self, stops: Iterable[bytes], keep: bool = False) -> None: ...
    def feed(self, text: bytes) -> bytes: ...
    def finish(self) -> bytes: ...
