"""gunicorn's own errors as OpenAI's error object.

A request that gunicorn cannot read never reaches the application, and gunicorn answers
it in HTML. OpenAI's clients would show their users the page instead of the reason.
"""

from __future__ import annotations

from typing import Any

import gunicorn.util

from sglrouter.errors import error_body


def use_json_errors() -> None:
    """Makes gunicorn's workers of this process write their errors as JSON."""
    gunicorn.util.write_error = _write_error


# How a client begins that speaks HTTP/2 without having asked (RFC 9113 section 3.4).
_PREFACE = "PRI * HTTP/2.0"


def _write_error(sock: Any, status: int, reason: str, message: str) -> None:
    if _PREFACE in message:
        status, reason = 505, "HTTP Version Not Supported"
        message = "this port speaks HTTP/1.1, not HTTP/2 without asking"
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = "_".join(reason.lower().split())
    # Parts of the request are quoted in it, and it was no valid one.
    text = f"The request cannot be read: {message or reason}".encode("utf-8", "replace")
    body = error_body(text.decode(), kind, None, code)
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    gunicorn.util.write_nonblock(sock, head.encode("latin-1") + body)
