"""Reading a request's body, sized and chunked."""

from __future__ import annotations

import io
import json
from typing import Any

import falcon
import falcon.testing
import pytest

from sglrouter.http import failures
from sglrouter.http.bodies import read_body

LIMIT = 100


class Input(io.BytesIO):
    """A server's body stream, which knows how much was asked of it."""

    asked = 0

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size >= 0, "an unbounded read"
        self.asked += size
        return super().read(size)


class Echo:
    """Answers with the length of the body."""

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        resp.media = {"length": len(read_body(req, LIMIT))}


def post(body: Input, **environ: str) -> falcon.testing.Result:
    """One request with exactly these variables about its body."""
    app: falcon.App[Any, Any] = falcon.App()
    app.add_route("/", Echo())
    failures.install(app)
    env = falcon.testing.create_environ("/", method="POST")
    env.pop("CONTENT_LENGTH", None)
    env.update(environ)
    env["wsgi.input"] = body
    answer = falcon.testing.StartResponseMock()
    chunks = app(env, answer)
    assert answer.status is not None
    assert answer.headers is not None
    return falcon.testing.Result(chunks, answer.status, answer.headers)


@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
def test_a_sized_body_is_read_to_its_size(size: int) -> None:
    body = Input(b"x" * size + b"the next request")
    assert post(body, CONTENT_LENGTH=str(size)).json == {"length": size}
    assert body.tell() == size


@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
def test_a_chunked_body_is_read_to_its_end(size: int) -> None:
    """The server takes the chunks apart; Falcon's own stream would be empty."""
    body = Input(b"x" * size)
    assert post(body, HTTP_TRANSFER_ENCODING="chunked").json == {"length": size}


def assert_too_large(result: falcon.testing.Result) -> None:
    assert result.status_code == 413
    assert result.json["error"] == {
        "message": f"The request body is larger than {LIMIT} bytes",
        "type": "invalid_request_error",
        "param": None,
        "code": "request_too_large",
    }


@pytest.mark.parametrize("size", [LIMIT + 1, 10**15])
def test_a_sized_body_that_is_too_large_is_refused_unread(size: int) -> None:
    body = Input(b"x" * (LIMIT + 1))
    assert_too_large(post(body, CONTENT_LENGTH=str(size)))
    assert body.asked == 0


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT * 1000])
def test_a_chunked_body_that_is_too_large_is_refused_when_it_is_seen(size: int) -> None:
    body = Input(b"x" * size)
    assert_too_large(post(body, HTTP_TRANSFER_ENCODING="chunked"))
    assert body.asked <= LIMIT + 1


@pytest.mark.parametrize("length", ["-1", "x", "1.5"])
def test_a_length_that_is_none_is_a_400(length: str) -> None:
    result = post(Input(b"x"), CONTENT_LENGTH=length)
    assert result.status_code == 400
    assert result.json["error"]["type"] == "invalid_request_error"


def test_falcon_itself_calls_a_sized_body_the_same() -> None:
    app: falcon.App[Any, Any] = falcon.App()
    app.add_route("/", Echo())
    client = falcon.testing.TestClient(app)
    body = json.dumps({"a": "ü"})
    assert client.simulate_post("/", body=body).json == {"length": len(body.encode())}
