"""A request that is ready to be placed: what engines are to be sent, and what it is about.

Nothing of it is still to be checked: whoever has a job has a request that can be served.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sglrouter.engines.channel.channel import Metadata


class Job(msgspec.Struct, frozen=True):
    """The calls of one request.

    Attributes:
        method: Full method path of all of them.
        requests: Their messages.
        names: The request ids in these messages, by which engines abort; empty where an
            engine must not be told by name.
        ids: The ids of the first prompt: engines that have seen its beginning keep that.
        metadata: Request headers of each call.
    """

    method: str
    requests: Sequence[bytes]
    names: Sequence[str] = ()
    ids: Sequence[int] = ()
    metadata: Metadata = ()
