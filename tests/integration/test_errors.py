"""What clients are told when something is wrong: one shape, from whatever layer it comes."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from sglrouter.sim import SimulatedEngine
from tests.patience import PATIENCE
from tests.processes import RouterProcess, chat_body


def send_raw(router: RouterProcess, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Sends bytes as they are; returns status, headers and body of the answer."""
    with socket.create_connection(("127.0.0.1", router.port), PATIENCE) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    headers = dict(field.lower().split(": ", 1) for field in fields)
    return int(status.split()[1]), headers, body


def error_in(headers: dict[str, str], body: bytes) -> dict[str, Any]:
    assert headers["content-type"] == "application/json"
    assert int(headers["content-length"]) == len(body)
    document = json.loads(body)
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    assert list(error) == ["message", "type", "param", "code"]
    return error


@pytest.mark.parametrize(
    ("request_head", "status", "code"),
    [
        (b"GARBAGE\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nbad header: x\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nA: \xe9\x00\r\n\r\n", 400, "bad_request"),
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", 414, "uri_too_long"),
        (
            b"GET / HTTP/1.1\r\nA: " + b"a" * 9000 + b"\r\n\r\n",
            431,
            "request_header_fields_too_large",
        ),
    ],
)
def test_what_gunicorn_cannot_read_is_answered_in_json(
    router: RouterProcess, request_head: bytes, status: int, code: str
) -> None:
    got, headers, body = send_raw(router, request_head)
    error = error_in(headers, body)
    assert (got, error["code"], error["type"]) == (status, code, "invalid_request_error")
    assert headers["connection"] == "close"


@pytest.mark.parametrize(
    "chunks", [b"zz\r\n{}\r\n0\r\n\r\n", b"-5\r\n{}\r\n0\r\n\r\n", b"2\r\n{}xx0\r\n\r\n"]
)
def test_a_body_framed_in_a_wrong_way_is_the_clients_fault(
    router: RouterProcess, chunks: bytes
) -> None:
    status, headers, body = send_raw(
        router,
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n" + chunks,
    )
    error = error_in(headers, body)
    assert (status, error["code"]) == (400, "invalid_body")


def test_a_path_and_a_method_that_are_not_there_are_json(router: RouterProcess) -> None:
    response = router.http.get("/v1/nothing")
    error = error_in(dict(response.headers), response.content)
    assert (response.status_code, error["code"]) == (404, "not_found")
    response = router.http.get("/v1/chat/completions")
    error = error_in(dict(response.headers), response.content)
    assert (response.status_code, error["code"]) == (405, "method_not_allowed")
    assert response.headers["allow"].split(", ")[0] == "POST"


@pytest.mark.parametrize("stream", [False, True])
def test_the_clients_faults_do_not_count_against_an_engine(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.fault("fail,times=8,status=INVALID_ARGUMENT,message=no")
    statuses = [router.chat(stream=stream).status_code for _ in range(9)]
    assert statuses == [400] * 8 + [200]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("RESOURCE_EXHAUSTED", {"retry-after": "1"}),
        ("UNAVAILABLE", {"retry-after": "1"}),
        ("UNIMPLEMENTED", {"x-should-retry": "false"}),
        ("DEADLINE_EXCEEDED", {"x-should-retry": "false"}),
        ("INTERNAL", {}),
        ("INVALID_ARGUMENT", {}),
    ],
)
def test_clients_are_told_whether_to_try_again(
    router: RouterProcess, engine: SimulatedEngine, status: str, headers: dict[str, str]
) -> None:
    engine.fault(f"fail,times=1,status={status},message=no")
    response = router.chat()
    names = ("retry-after", "x-should-retry")
    assert {name: response.headers[name] for name in names if name in response.headers} == headers


def test_the_openai_client_does_not_repeat_what_is_no_use(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    before = len(engine.requests)
    engine.fault("fail,times=9,status=UNIMPLEMENTED,message=no")
    response = router.openai().with_options(max_retries=3).chat.completions.with_raw_response
    with pytest.raises(Exception, match="no"):
        response.create(**chat_body())
    engine.fault()
    assert len(engine.requests) == before + 1
