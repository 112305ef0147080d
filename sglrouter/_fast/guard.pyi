from collections.abc import Mapping, Sequence
from typing import TypeAlias

ENDS: int
ENDS_ON_LINE: int
OPENS: int
CLOSES: int
ENDS_OR_CLOSES: int

# A marker's role, the place after it, and that after one at a line's start.
Rule: TypeAlias = tuple[int, str | None, str | None]

# Markers that may follow, each with where it leads; whether other text may, and whether the
# end of the text may; and whether the rest of a tag comes before them.
Place: TypeAlias = tuple[Mapping[bytes, str | None], bool, bool, bool]

class Guard:
    def __init__(self, rules: Sequence[Rule], places: Mapping[str, Place]) -> None: ...
