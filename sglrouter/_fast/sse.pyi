from collections.abc import Sequence

from sglrouter._fast.framer import Framer

def json_string(text: bytes) -> bytes: ...
def escape_line_ends(document: bytes) -> bytes: ...

class ChoiceFramer(Framer): ...

class TextFramer(ChoiceFramer):
    def __init__(
        self, completion_id: str, created: int, model: str, index: int, usage: bool = False
    ) -> None: ...

class ChunkFramer(ChoiceFramer):
    def __init__(
        self,
        completion_id: str,
        created: int,
        model: str,
        index: int,
        reasoning_fields: Sequence[str] = ("reasoning_content",),
        usage: bool = False,
    ) -> None: ...
    def role(self) -> bytes: ...
