from collections.abc import Callable

from sglrouter._fast.chunked import BodyWriter
from sglrouter._fast.detok import Detokenizer
from sglrouter._fast.framer import Framer
from sglrouter._fast.parse import OutputParser
from sglrouter._fast.scan import StopMatcher
from sglrouter._fast.wire import GenerateReader

class Sink: ...

class TextSink(Sink):
    heard_at: float
    failure: Exception | None

    def __init__(
        self,
        reader: GenerateReader,
        decoder: Detokenizer,
        matcher: StopMatcher | None,
        parser: OutputParser | None,
        framer: Framer,
        writer: BodyWriter,
        on_trouble: Callable[[], None],
    ) -> None: ...
    def feed(self, messages: list[bytes]) -> bool: ...
