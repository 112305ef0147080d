"""The router as a library: chat completions from engines, without HTTP in between."""

from sglrouter.client.client import Client
from sglrouter.client.options import Buffers, Timeouts
from sglrouter.client.stream import ChatCompletionStream
from sglrouter.client.work import Cancelled

__all__ = ["Buffers", "Cancelled", "ChatCompletionStream", "Client", "Timeouts"]
