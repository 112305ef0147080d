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
from sglrouter.http.origins import ControlGuard
from sglrouter.http.request_id import metadata_of
from sglrouter.schema.profile import decode_profile_request
from sglrouter.serving.service import Service

# Seconds that an engine may be told to wait for its requests to end.
_LONGEST_FLUSH = 600.0


class FlushCache:
    """POST /flush_cache, and GET where it is set: 200 only if every engine did it."""

    def __init__(self, service: Service) -> None:
        self._engines = service.fleet.engines
        self._guard = ControlGuard(service.settings)
        if service.settings.control_by_get:
            self.on_get = self.on_post

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine forget its prefixes.

        `timeout` is how many seconds each may wait until it has nothing to do; one that
        is busy then does nothing.
        """
        self._guard.check(req)
        timeout, metadata = _seconds(req, "timeout", _LONGEST_FLUSH), metadata_of(req)
        answer_with_outcomes(
            resp,
            ask_all(
                self._engines, lambda engine: engine.control.flush_cache(timeout, metadata=metadata)
            ),
        )


class StartProfile:
    """POST /start_profile, and GET where it is set."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._guard = ControlGuard(service.settings)
        if service.settings.control_by_get:
            self.on_get = self.on_post

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine profile itself; see ProfileRequest."""
        self._guard.check(req)
        service, metadata = self._service, metadata_of(req)
        body = read_body(req, service.settings.max_body)
        options = msgspec.structs.asdict(service.read(decode_profile_request, body))
        if options["output_dir"]:
            # It would be any folder of the engine's machine.
            resp.set_header("X-Sglrouter-Ignored", "output_dir")
        options["output_dir"] = service.settings.profile_dir or None
        answer_with_outcomes(
            resp,
            ask_all(
                service.fleet.engines,
                lambda engine: engine.control.start_profile(**options, metadata=metadata),
            ),
        )


class StopProfile:
    """POST /stop_profile, and GET where it is set."""

    def __init__(self, service: Service) -> None:
        self._engines = service.fleet.engines
        self._guard = ControlGuard(service.settings)
        if service.settings.control_by_get:
            self.on_get = self.on_post

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Has every engine write its profile, which can take minutes."""
        self._guard.check(req)
        metadata = metadata_of(req)
        answer_with_outcomes(
            resp,
            ask_all(self._engines, lambda engine: engine.control.stop_profile(metadata=metadata)),
        )


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
