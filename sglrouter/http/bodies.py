"""Reading request bodies, with a bound."""

from __future__ import annotations

import falcon
from gunicorn.http.errors import ParseException

from sglrouter.errors import BadRequest, RouterError


def read_body(req: falcon.Request, limit: int) -> bytes:
    """Reads the whole body, with Content-Length or chunked.

    Falcon's own stream takes a chunked body for an empty one, so this reads the
    server's, which ends where the body does.

    Args:
        req: The request.
        limit: Largest size in bytes.

    Raises:
        RouterError: The body is larger (413), or ends or is framed in a wrong way (400).
    """
    length = req.content_length
    body: bytes = b""
    if length is None or length <= limit:
        try:
            body = req.env["wsgi.input"].read(limit + 1 if length is None else length)
        except (OSError, ParseException) as exc:
            raise BadRequest(
                f"The request body cannot be read: {exc}", code="invalid_body"
            ) from exc
        if len(body) <= limit:
            return body
    raise RouterError(
        f"The request body is larger than {limit} bytes",
        status=413,
        type="invalid_request_error",
        code="request_too_large",
    )
