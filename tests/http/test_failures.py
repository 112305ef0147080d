"""Every failure is OpenAI's error object, with the headers that belong to it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import falcon
import falcon.testing
import pytest

from sglrouter.errors import (
    BadRequest,
    EngineError,
    EngineTimeout,
    RouterError,
    from_grpc_status,
)
from sglrouter.http import failures


class Failing:
    """Raises what it is made with."""

    def __init__(self, failure: Callable[[], BaseException]) -> None:
        self._failure = failure

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        resp.data = b"half an answer"
        resp.content_type = "text/event-stream"
        raise self._failure()


def get(failure: Callable[[], BaseException], path: str = "/fail", method: str = "GET") -> Any:
    app: falcon.App[Any, Any] = falcon.App()
    app.add_route("/fail", Failing(failure))
    failures.install(app)
    return falcon.testing.simulate_request(app, method, path)


def error(result: Any) -> Any:
    assert result.headers["content-type"] == "application/json"
    assert list(result.json) == ["error"]
    assert set(result.json["error"]) == {"message", "type", "param", "code"}
    return result.json["error"]


@pytest.mark.parametrize(
    ("failure", "status", "kind", "param", "code"),
    [
        (BadRequest("m"), 400, "invalid_request_error", None, None),
        (BadRequest("m", param="p", code="c"), 400, "invalid_request_error", "p", "c"),
        (RouterError("m", status=413, code="c"), 413, "server_error", None, "c"),
        (RouterError("m"), 500, "server_error", None, None),
        (EngineError("m"), 502, "server_error", None, "engine_error"),
        (EngineTimeout("m"), 504, "timeout_error", None, "engine_timeout"),
    ],
)
def test_a_router_error_says_what_it_is(
    failure: RouterError, status: int, kind: str, param: str | None, code: str | None
) -> None:
    result = get(lambda: failure)
    assert result.status_code == status
    assert error(result) == {"message": "m", "type": kind, "param": param, "code": code}
    assert b"half an answer" not in result.content


@pytest.mark.parametrize(
    ("name", "retry_after"),
    [
        ("RESOURCE_EXHAUSTED", "1"),
        ("UNAVAILABLE", "1"),
        ("INTERNAL", None),
        ("DEADLINE_EXCEEDED", None),
        ("INVALID_ARGUMENT", None),
    ],
)
def test_what_may_be_tried_again_says_when(name: str, retry_after: str | None) -> None:
    result = get(lambda: from_grpc_status(name, "why"))
    assert result.headers.get("retry-after") == retry_after
    assert "why" in error(result)["message"]


@pytest.mark.parametrize("path", ["/nope", "/fail/", "/v1/ü", "/%ff%00", '/"'])
def test_an_unknown_path_is_a_404(path: str) -> None:
    result = get(ValueError, path)
    assert result.status_code == 404
    found = error(result)
    assert (found["type"], found["code"]) == ("invalid_request_error", "not_found")
    assert "There is nothing at /" in found["message"]


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
def test_a_wrong_method_is_a_405_that_says_which_are_right(method: str) -> None:
    result = get(ValueError, method=method)
    assert result.status_code == 405
    assert "GET" in result.headers["allow"]
    found = error(result)
    assert found["code"] == "method_not_allowed"
    assert found["message"] == f"/fail does not take {method}"


@pytest.mark.parametrize(
    ("failure", "status", "message", "kind"),
    [
        (falcon.HTTPBadRequest(title="t", description="d"), 400, "d", "invalid_request_error"),
        (falcon.HTTPUnauthorized(title="t"), 401, "t", "invalid_request_error"),
        (falcon.HTTPServiceUnavailable(title="t", retry_after=7), 503, "t", "server_error"),
    ],
)
def test_falcons_own_errors_keep_their_words_and_headers(
    failure: falcon.HTTPError, status: int, message: str, kind: str
) -> None:
    result = get(lambda: failure)
    assert result.status_code == status
    found = error(result)
    assert (found["message"], found["type"]) == (message, kind)
    if status == 503:
        assert result.headers["retry-after"] == "7"


def test_a_bug_is_a_500_that_tells_the_log_and_not_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        result = get(lambda: KeyError("secret"))
    assert result.status_code == 500
    assert error(result) == {
        "message": "The router failed",
        "type": "server_error",
        "param": None,
        "code": "internal_error",
    }
    [record] = caplog.records
    assert record.getMessage() == "request -: GET /fail failed"
    assert record.exc_info is not None
    assert "secret" in str(record.exc_info[1])


def test_a_redirect_is_not_a_failure() -> None:
    result = get(lambda: falcon.HTTPMovedPermanently("/elsewhere"))
    assert (result.status_code, result.headers["location"]) == (301, "/elsewhere")
