"""What a server that is full still answers.

Whoever watches over it has to see that it lives, and not take its load for its death.
Everybody else is told to come again.
"""

from __future__ import annotations

import falcon

from sglrouter.errors import RouterError
from sglrouter.waiting import about_to_wait

# Where the worker says in the WSGI environment that the connection is one too many.
SURPLUS_KEY = "sglrouter.surplus"

_ALWAYS = frozenset({"/liveness", "/health", "/readiness", "/ready", "/ping", "/version"})


class Admission:
    """Falcon middleware that refuses what there is no room for."""

    def process_request(self, req: falcon.Request, _resp: falcon.Response) -> None:
        """Lets a request through, or does not.

        Raises:
            RouterError: There is no room for it.
        """
        if SURPLUS_KEY in req.env and req.path not in _ALWAYS:
            raise RouterError(
                "The router serves as many clients as it can", status=503, code="overloaded"
            )


class Waiting:
    """Falcon middleware that keeps what may wait out of callbacks; see sglrouter.waiting.

    A resource that never waits, or says so before it does, has `in_callbacks` set.
    """

    def process_resource(
        self, _req: falcon.Request, _resp: falcon.Response, resource: object, _params: object
    ) -> None:
        """Lets a request through, or has it served in a greenlet.

        Raises:
            NeedsGreenlet: This is a callback, and the resource may wait.
        """
        if not getattr(resource, "in_callbacks", False):
            about_to_wait()
