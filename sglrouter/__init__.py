"""The front door for SGLang: the OpenAI HTTP API in front, engines over gRPC behind.

As a library: `from sglrouter import Client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglrouter.version import __version__

__all__ = ["Buffers", "Cancelled", "ChatCompletionStream", "Client", "Timeouts", "__version__"]


if TYPE_CHECKING:
    from sglrouter.client import Buffers, Cancelled, ChatCompletionStream, Client, Timeouts
else:

    def __getattr__(name: str) -> object:
        """Imports the library when somebody asks for it: most who import sglrouter do not."""
        if name not in __all__:
            raise AttributeError(f"module 'sglrouter' has no attribute {name!r}")
        from sglrouter import client

        value = getattr(client, name)
        globals()[name] = value
        return value
