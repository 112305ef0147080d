"""Every failure leaves the server as OpenAI's error object."""

from __future__ import annotations

import logging

import falcon

from sglrouter.errors import RouterError, error_body
from sglrouter.http.request_id import request_id_of

logger = logging.getLogger(__name__)

# Seconds after which an overloaded or unreachable engine may be tried again.
_RETRY_AFTER = "1"
# OpenAI's clients send a request again after any 5xx, unless they are told that it is no
# use: what no engine can do, and what has taken too long already.
_NEVER_AGAIN = (501, 504)


def install(app: falcon.App[falcon.Request, falcon.Response]) -> None:
    """Makes the app answer with OpenAI's error object, whatever goes wrong."""
    app.add_error_handler(Exception, _on_exception)
    app.add_error_handler(RouterError, _on_router_error)
    app.add_error_handler(falcon.HTTPError, _on_http_error)


def failure_response(
    req: falcon.Request, resp: falcon.Response, error: Exception
) -> tuple[str, list[tuple[str, str]], bytes]:
    """The response to an error that has come after the application has returned.

    Args:
        req: The request.
        resp: Its response, of which nothing has been sent.
        error: What went wrong.

    Returns:
        Status, headers and body.
    """
    resp.stream = None
    for name in ("Cache-Control", "X-Accel-Buffering"):
        resp.delete_header(name)
    if isinstance(error, RouterError):
        _on_router_error(req, resp, error, None)
    else:
        _on_exception(req, resp, error, None)
    body = resp.data or b""
    resp.content_length = len(body)
    return falcon.code_to_http_status(resp.status), list(resp.headers.items()), body


def _on_router_error(
    req: falcon.Request, resp: falcon.Response, error: RouterError, _params: object
) -> None:
    if error.status == 429 or error.status >= 500:
        logger.warning("request %s: %s: %d %s: %s", request_id_of(req), req.path, error.status,
                       error.code, error.message)  # fmt: skip
    resp.status = error.status
    resp.content_type = falcon.MEDIA_JSON
    resp.data = error.body()
    for name, value in error.headers.items():
        resp.set_header(name, value)
    if error.status in (429, 503):
        resp.set_header("Retry-After", _RETRY_AFTER)
    elif error.status in _NEVER_AGAIN:
        resp.set_header("X-Should-Retry", "false")


def _on_http_error(
    req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, _params: object
) -> None:
    """Falcon's own errors: no such path, wrong method, malformed request."""
    if error.status_code == 404:
        message, code = f"There is nothing at {req.path}", "not_found"
    elif error.status_code == 405:
        message, code = f"{req.path} does not take {req.method}", "method_not_allowed"
    else:
        message, code = error.description or error.title, "invalid_request"
    resp.status = error.status_code
    for name, value in dict(error.headers or {}).items():
        resp.set_header(name, value)
    resp.content_type = falcon.MEDIA_JSON
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    resp.data = error_body(message, kind, None, code)


def _on_exception(
    req: falcon.Request, resp: falcon.Response, error: Exception, _params: object
) -> None:
    """A bug of ours: all details to the log, none to the client."""
    logger.error("request %s: %s %s failed", request_id_of(req), req.method, req.path,
                 exc_info=error)  # fmt: skip
    resp.status = 500
    resp.content_type = falcon.MEDIA_JSON
    resp.data = error_body("The router failed", "server_error", None, "internal_error")
