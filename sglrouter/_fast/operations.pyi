from collections.abc import Iterable

from sglrouter._fast.guard import Guard

CONTENT: int
REASONING: int
STRING: int
DROP: int
KEEP: int
ONE_NEWLINE: int
ALL_SPACE: int

class Operation: ...

class Pass(Operation):
    def __init__(
        self,
        to: int,
        markers: Iterable[bytes] = (),
        trim: int = 0,
        loose: bool = False,
        recorded: bool = False,
        guard: Guard | None = None,
    ) -> None: ...

class Read(Operation):
    def __init__(
        self,
        markers: Iterable[bytes],
        limit: int = 1024,
        peek: bool = False,
        guard: Guard | None = None,
    ) -> None: ...

class Match(Operation):
    def __init__(
        self, literals: Iterable[bytes], skip_space: bool = False, guard: Guard | None = None
    ) -> None: ...

class Peek(Operation): ...

class Text(Operation):
    def __init__(self, limit: int = 1024) -> None: ...

class Value(Operation):
    def __init__(
        self,
        python: bool = False,
        drop: bool = False,
        quote: bytes | None = None,
        in_code: bool = False,
        limit: int = 0,
    ) -> None: ...
