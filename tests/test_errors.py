"""Which HTTP answer a failure of an engine becomes."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from sglrouter.errors import (
    BadRequest,
    EngineError,
    EngineTimeout,
    RouterError,
    error_body,
    from_engine_response,
    from_grpc_status,
)

ROOT = Path(__file__).parents[1]

ANSWERS = {
    "INVALID_ARGUMENT": (400, "invalid_request_error", "engine_refused"),
    "OUT_OF_RANGE": (400, "invalid_request_error", "engine_refused"),
    "NOT_FOUND": (404, "invalid_request_error", "not_found"),
    "RESOURCE_EXHAUSTED": (429, "rate_limit_error", "engine_overloaded"),
    "UNIMPLEMENTED": (501, "server_error", "engine_unsupported"),
    "UNAVAILABLE": (503, "server_error", "engine_unavailable"),
    "DEADLINE_EXCEEDED": (504, "timeout_error", "engine_timeout"),
}
FAILED = (502, "server_error", "engine_error")


def answer(error: RouterError) -> tuple[int, str, str | None]:
    return error.status, error.type, error.code


@pytest.mark.parametrize("name", [code.name for code in grpc.StatusCode if code.name != "OK"])
def test_grpc_status(name: str) -> None:
    assert answer(from_grpc_status(name, "why")) == ANSWERS.get(name, FAILED)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (
            "Received message larger than max (5 vs. 4)",
            (413, "invalid_request_error", "request_too_large"),
        ),
        (
            "SERVER: Received message larger than max (5 vs. 4)",
            (413, "invalid_request_error", "request_too_large"),
        ),
        ("SERVER: Sent message larger than max (5 vs. 4)", FAILED),
        ("Sent message larger than max (5 vs. 4)", FAILED),
        ("The queue is larger than max_queued_requests", ANSWERS["RESOURCE_EXHAUSTED"]),
    ],
)
def test_a_message_that_is_too_long_is_no_overload(
    words: str, wanted: tuple[int, str, str]
) -> None:
    assert answer(from_grpc_status("RESOURCE_EXHAUSTED", words)) == wanted


def test_the_documentation_has_the_same_table() -> None:
    rows = [
        line.split(" | ")
        for line in (ROOT / "docs" / "api.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    documented = {
        name: (int(row[1]), row[2].strip("`"), row[3].split("`")[1])
        for row in rows
        if len(row) == 4 and row[1].isdigit()
        for name in row[0].split("`")[1::2]
        if name != "UNAUTHENTICATED"
    }
    assert documented == ANSWERS


def test_a_status_that_grpc_does_not_know_is_a_failure_of_the_engine() -> None:
    assert answer(from_grpc_status("42", "why")) == FAILED


@pytest.mark.parametrize(
    ("status", "same_as"),
    [
        ("400", "INVALID_ARGUMENT"),
        ("404", "NOT_FOUND"),
        ("408", "DEADLINE_EXCEEDED"),
        ("429", "RESOURCE_EXHAUSTED"),
        ("503", "UNAVAILABLE"),
        ("504", "DEADLINE_EXCEEDED"),
        ("500", "INTERNAL"),
        ("501", "INTERNAL"),
        ("", "INTERNAL"),
        ("200", "INTERNAL"),
        ("abc", "INTERNAL"),
    ],
)
def test_a_status_inside_a_response_is_that_which_newer_engines_send(
    status: str, same_as: str
) -> None:
    ours = from_engine_response(status, "why")
    newer = from_grpc_status(same_as, "why")
    assert answer(ours) == answer(newer)
    assert type(ours) is type(newer)
    assert ours.message == newer.message


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("INVALID_ARGUMENT", BadRequest),
        ("NOT_FOUND", BadRequest),
        ("RESOURCE_EXHAUSTED", EngineError),
        ("UNAVAILABLE", EngineError),
        ("UNIMPLEMENTED", EngineError),
        ("INTERNAL", EngineError),
        ("DEADLINE_EXCEEDED", EngineTimeout),
    ],
)
def test_only_a_clients_mistake_is_a_bad_request(name: str, kind: type[RouterError]) -> None:
    assert type(from_grpc_status(name, "why")) is kind


def test_the_engines_own_words_are_kept() -> None:
    assert from_grpc_status("INVALID_ARGUMENT", "too long").message == "too long"
    assert from_grpc_status("INTERNAL", "boom").message == "The engine failed: boom"
    assert from_grpc_status("UNAVAILABLE", "x").message == "The engine is not available: x"
    assert from_grpc_status("DEADLINE_EXCEEDED", "x").message == "The engine took too long: x"


def test_without_words_there_is_still_a_message() -> None:
    assert "UNAVAILABLE" in from_grpc_status("UNAVAILABLE", "").message
    assert "no reason given" in from_engine_response("500", "").message


def test_the_body_is_openais_error_object() -> None:
    error = BadRequest('a "b" é\n', code="c", param="p")
    assert json.loads(error.body()) == {
        "error": {
            "message": 'a "b" é\n',
            "type": "invalid_request_error",
            "param": "p",
            "code": "c",
        }
    }


def test_fields_that_are_unknown_are_null() -> None:
    assert json.loads(error_body("m", "t", None, None)) == {
        "error": {"message": "m", "type": "t", "param": None, "code": None}
    }


def test_an_error_can_say_more_than_its_class() -> None:
    error = RouterError("m", status=413, type="invalid_request_error", code="request_too_large")
    assert answer(error) == (413, "invalid_request_error", "request_too_large")
    assert str(error) == "m"
    # The class is as it was.
    assert answer(RouterError("m")) == (500, "server_error", None)
    assert answer(EngineTimeout("m")) == (504, "timeout_error", "engine_timeout")
