"""What a server that is full still answers.

Whoever watches over it has to see that it lives, and not take its load for its death.
Everybody else is told to come again.
"""

from __future__ import annotations

import falcon

from sglrouter.errors import RouterError

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
