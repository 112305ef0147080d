"""Which web pages may read answers, and who may tell the engines to do something.

Two separate things. CORS lets pages of other origins read: falcon's middleware does it,
where the setting names origins. The guard keeps pages from acting: a browser sends some
requests without asking first, also to a router that only this machine can reach, and what
interferes with everybody's requests must not come from a page that somebody happens to read.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import falcon
from falcon import CORSMiddleware

from sglrouter.config import Settings
from sglrouter.errors import RouterError

CONTROL_PATHS = frozenset({"/flush_cache", "/start_profile", "/stop_profile", "/abort_request"})

_ANY = "*"
# Beyond those that every page may read.
_EXPOSED = ("X-Request-ID", "X-Sglrouter-Ignored", "X-Should-Retry", "Retry-After")
_JSON = "application/json"


class Cors(CORSMiddleware[Any, Any]):
    """Falcon's middleware, but for the paths of control, which "*" does not open.

    Args:
        origins: Those that may read, or "*" alone for all. Only those that are named may
            send credentials.
    """

    def __init__(self, origins: list[str]) -> None:
        everybody = _ANY in origins
        super().__init__(
            _ANY if everybody else origins,
            expose_headers=_EXPOSED,
            allow_credentials=None if everybody else origins,
        )

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Adds the headers, to errors as well."""
        if self.allow_origins != _ANY:
            # Caches must not give one origin's answer to another.
            resp.append_header("Vary", "Origin")
        elif req.path in CONTROL_PATHS:
            return
        super().process_response(req, resp, resource, req_succeeded)


class ControlGuard:
    """Refuses what a browser could send without anybody wanting it."""

    def __init__(self, settings: Settings) -> None:
        self._origins = frozenset(settings.cors_origins) - {_ANY}
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)

    def check(self, req: falcon.Request) -> None:
        """Lets a request of control pass.

        Raises:
            RouterError: It comes from a page of another origin (403), for another host
                (403), or its body is not said to be JSON (415).
        """
        if self._hosts and req.host.lower() not in self._hosts:
            raise _forbidden(f"{req.host} is not among allowed_hosts")
        origin = req.get_header("Origin")
        if origin is not None:
            own = urlsplit(origin).netloc.lower() == req.netloc.lower()
            if not own and origin not in self._origins:
                raise _forbidden(f"A page of {origin} may not do that: see cors_origins")
        elif req.get_header("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise _forbidden("A page of another origin may not do that")
        self._check_type(req)

    @staticmethod
    def _check_type(req: falcon.Request) -> None:
        """A form or plain text needs no leave to be sent; JSON does."""
        has_body = bool(req.content_length) or "HTTP_TRANSFER_ENCODING" in req.env
        kind = (req.content_type or "").partition(";")[0].strip().lower()
        if kind != _JSON and (has_body or kind):
            raise RouterError(
                f"Content-Type must be {_JSON}",
                status=415,
                type="invalid_request_error",
                code="unsupported_media_type",
            )


def _forbidden(message: str) -> RouterError:
    return RouterError(message, status=403, type="invalid_request_error", code="forbidden")
