"""What tells the engines to do something: to empty their caches, to profile themselves.

Whoever may use these paths can slow down everybody else: nginx keeps them from the
outside (deploy/nginx).
"""

from __future__ import annotations

import math

import falcon
import msgspec

from sglrouter.errors import BadRequest
from sglrouter.http.bodies import read_body
from sglrouter.http.engines import answer_with_outcomes, ask_all
from sglrouter.http.request_id import metadata_of
from sglrouter.schema.profile import decode_profile_request
from sglrouter.serving.service import Service

# Seconds that an engine may be told to wait for its requests to end.
_LONGEST_FLUSH = 600.0


class FlushCache:
    """POST and GET /flush_cache: 200 only if every engine did it."""

    def __init__(self, service: Service) -> None:
        self._engines = service.pool.engines

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine forget its prefixes.

        `timeout` is how many seconds each may wait until it has nothing to do; one that
        is busy then does nothing.
        """
        timeout, metadata = _seconds(req, "timeout", _LONGEST_FLUSH), metadata_of(req)
        answer_with_outcomes(
            resp,
            ask_all(self._engines, lambda engine: engine.flush_cache(timeout, metadata=metadata)),
        )

    on_get = on_post


class StartProfile:
    """POST and GET /start_profile."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine profile itself; see ProfileRequest."""
        service, metadata = self._service, metadata_of(req)
        body = read_body(req, service.settings.max_body)
        options = msgspec.structs.asdict(service.read(decode_profile_request, body))
        answer_with_outcomes(
            resp,
            ask_all(
                service.pool.engines,
                lambda engine: engine.start_profile(**options, metadata=metadata),
            ),
        )

    on_get = on_post


class StopProfile:
    """POST and GET /stop_profile."""

    def __init__(self, service: Service) -> None:
        self._engines = service.pool.engines

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine write its profile, which can take minutes."""
        metadata = metadata_of(req)
        answer_with_outcomes(
            resp, ask_all(self._engines, lambda engine: engine.stop_profile(metadata=metadata))
        )

    on_get = on_post


def _seconds(req: falcon.Request, name: str, most: float) -> float:
    text = req.get_param(name, default="0")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds <= most:
        raise BadRequest(
            f"{name} must be a number of seconds between 0 and {most:g}",
            param=name,
            code="invalid_value",
        )
    return seconds
