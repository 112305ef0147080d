from collections.abc import Iterable

class Markers:
    def __init__(self, markers: Iterable[bytes], loose: bool = False) -> None: ...
