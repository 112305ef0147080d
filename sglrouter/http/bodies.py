"""Reading request bodies, with a bound."""

from __future__ import annotations

import falcon
from gunicorn.http.errors import ParseException

from sglrouter.errors import BadRequest
from sglrouter.http.content_encoding import decode_body, too_large
from sglrouter.http.turns import let_others_go_on


def read_body(req: falcon.Request, limit: int) -> bytes:
    """Reads the whole body, with Content-Length or chunked, compressed or not.

    Falcon's own stream takes a chunked body for an empty one, so this reads the
    server's, which ends where the body does.

    Args:
        req: The request.
        limit: Largest size in bytes, as it comes and decompressed.

    Raises:
        RouterError: The body is larger (413), ends or is framed in a wrong way (400), or its
            encoding is not known (415).
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
            encodings = req.env.get("HTTP_CONTENT_ENCODING")
            return decode_body(body, encodings, limit, let_others_go_on) if encodings else body
    raise too_large(limit)
