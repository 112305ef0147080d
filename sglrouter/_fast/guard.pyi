from collections.abc import Mapping, Sequence

ENDS: int
ENDS_ON_LINE: int
OPENS: int
CLOSES: int
ENDS_OR_CLOSES: int

# What may follow, each with the place that it leads to, None for a proof; whether other text
# may follow; and whether the end of the text may.
Place = tuple[Mapping[bytes, str | None], bool, bool]

class Guard:
    def __init__(
        self, rules: Sequence[tuple[int, str | None]], places: Mapping[str, Place]
    ) -> None: ...
