"""One id for a request, the same for client, log and engine.

A client's own X-Request-ID is taken if it can go into a log line and a gRPC header as it
is; any other request gets a new one. It comes back with every answer, errors included.
"""

from __future__ import annotations

import falcon

from sglrouter.engines.channel.channel import Metadata
from sglrouter.engines.wire.scheduler import new_request_id

HEADER = "X-Request-ID"
_LONGEST = 128
_METADATA_KEY = "x-request-id"


class RequestIds:
    """Falcon middleware that gives each request its id."""

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Takes the client's id or makes one."""
        name = req.get_header(HEADER)
        if name is None or not _is_fit(name):
            name = new_request_id()
        req.context.request_id = name
        resp.set_header(HEADER, name)


def request_id_of(req: falcon.Request) -> str:
    """The request's id; "-" where nobody has given it one."""
    name: str = getattr(req.context, "request_id", "-")
    return name


def metadata_of(req: falcon.Request) -> Metadata:
    """What an engine is told of the request besides its message."""
    return ((_METADATA_KEY, request_id_of(req)),)


def _is_fit(name: str) -> bool:
    return 0 < len(name) <= _LONGEST and name.isascii() and name.isprintable() and " " not in name
