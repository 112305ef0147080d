from collections.abc import Collection, Iterable

from sglrouter._fast.wire import GenerateReader

class Vocabulary:
    size: int
    byte_fallback: bool

    def __init__(
        self,
        pieces: list[bytes | None],
        special: Iterable[int],
        byte_fallback: bool = False,
    ) -> None: ...
    def __len__(self) -> int: ...
    def piece(self, token: int) -> bytes: ...

class Detokenizer:
    produced: int

    def __init__(
        self,
        vocabulary: Vocabulary,
        skip_special: bool = True,
        stop_ids: Collection[int] = (),
        strip_leading_space: bool = False,
        want_starts: bool = False,
        shown: Collection[int] = (),
    ) -> None: ...
    def feed(self, reader: GenerateReader) -> bytes: ...
    def feed_ids(self, ids: Iterable[int]) -> bytes: ...
    def follow(self, ids: Iterable[int]) -> None: ...
    def settle(self) -> bytes: ...
    def finish(self, stopped: bool = True) -> bytes: ...
    def take_starts(self) -> list[int]: ...
