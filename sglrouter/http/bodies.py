"""Reading request bodies, with a bound."""

from __future__ import annotations

import falcon

from sglrouter.errors import RouterError


def read_body(req: falcon.Request, limit: int) -> bytes:
    """Reads the whole body, with Content-Length or chunked.

    Falcon's own stream takes a chunked body for an empty one, so this reads the
    server's, which ends where the body does.

    Args:
        req: The request.
        limit: Largest size in bytes.

    Raises:
        RouterError: The body is larger (413).
    """
    length = req.content_length
    body: bytes = b""
    if length is None or length <= limit:
        body = req.env["wsgi.input"].read(limit + 1 if length is None else length)
        if len(body) <= limit:
            return body
    raise RouterError(
        f"The request body is larger than {limit} bytes",
        status=413,
        type="invalid_request_error",
        code="request_too_large",
    )
