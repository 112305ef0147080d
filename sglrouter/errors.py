"""Every failure a client can see, and its OpenAI-shaped body.

Strategy: code raises the exception that says whose fault it is; the HTTP boundary
renders it. What an engine reports is a gRPC status, and one table turns that into an
HTTP answer: a client's mistake stays a 4xx (SDKs retry a 5xx), an engine's failure
is a 5xx that names the engine, not the router.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec


class RouterError(Exception):
    """A failure with an HTTP answer.

    Attributes:
        status: HTTP status code.
        type: OpenAI's error class, such as "invalid_request_error".
        code: A short machine-readable reason, or None.
        param: The request field at fault, or None.
        message: What happened, for the person who reads it.
        headers: What the answer's head has besides.
    """

    status: int = 500
    type: str = "server_error"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        status: int | None = None,
        type: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        if param is not None:
            self.param = param
        if status is not None:
            self.status = status
        if type is not None:
            self.type = type

    def body(self) -> bytes:
        """The JSON body that OpenAI's clients know how to read."""
        return error_body(self.message, self.type, self.param, self.code)


class BadRequest(RouterError):
    """The request cannot be served as it is; sending it again will not help."""

    status = 400
    type = "invalid_request_error"


class Invalid(BadRequest):
    """A field is not what it must be: told without saying which API's field it is.

    Attributes:
        what: What is wrong with it, such as "must be at least 1, not 0".
        beside: Other fields that the sentence ends with.
    """

    def __init__(
        self, param: str, what: str, *, code: str | None = None, beside: Sequence[str] = ()
    ) -> None:
        others = " and ".join(beside)
        super().__init__(f"{param} {what} {others}".rstrip(), code=code, param=param)
        self.what = what
        self.beside = beside

    def named(self, name: Callable[[str], str]) -> Invalid:
        """The same with the names that an API has for the fields.

        Args:
            name: Takes a field's neutral name, or the path to what is in it.
        """
        beside = [name(other) for other in self.beside]
        return Invalid(name(self.param or ""), self.what, code=self.code, beside=beside)


class EngineError(RouterError):
    """An engine failed, refused, or could not be reached."""

    status = 502
    code = "engine_error"


class EngineTimeout(EngineError):
    """An engine took longer than one of our deadlines."""

    status = 504
    type = "timeout_error"
    code = "engine_timeout"


class ClientGone(RouterError):
    """The client closed its connection: nobody will read the answer."""

    status = 499
    type = "client_closed_request"
    code = "client_closed_request"

    def __init__(self) -> None:
        super().__init__("The client closed its connection")


class Aborted(RouterError):
    """Somebody has stopped the request by its name, and there is no part of an answer."""

    status = 499
    type = "client_closed_request"
    code = "aborted"

    def __init__(self) -> None:
        super().__init__("The request was aborted")


class ConfigError(Exception):
    """A setting is wrong; the message is one line that names it."""


def error_body(message: str, type: str, param: str | None, code: str | None) -> bytes:
    """Renders OpenAI's error object."""
    return msgspec.json.encode(
        {"error": {"message": message, "type": type, "param": param, "code": code}}
    )


class _Answer(NamedTuple):
    status: int
    type: str
    code: str


_INVALID = _Answer(400, "invalid_request_error", "engine_refused")
_GRAMMAR = _Answer(400, "invalid_request_error", "invalid_grammar")
_TOO_LARGE = _Answer(413, "invalid_request_error", "request_too_large")
_UNREACHABLE = _Answer(503, "server_error", "engine_unavailable")
_TIMEOUT = _Answer(504, "timeout_error", "engine_timeout")
_BROKEN = _Answer(502, "server_error", "engine_error")

# gRPC status name -> HTTP. What is not listed is a failure inside the engine.
_BY_GRPC_STATUS = {
    "INVALID_ARGUMENT": _INVALID,
    "OUT_OF_RANGE": _INVALID,
    "NOT_FOUND": _Answer(404, "invalid_request_error", "not_found"),
    "DEADLINE_EXCEEDED": _TIMEOUT,
    "RESOURCE_EXHAUSTED": _Answer(429, "rate_limit_error", "engine_overloaded"),
    "UNAVAILABLE": _UNREACHABLE,
    "UNIMPLEMENTED": _Answer(501, "server_error", "engine_unsupported"),
}

# How the words begin with which an engine refuses a grammar, and what it says when a
# grammar lets no token through.
_GRAMMAR_REFUSALS = ("Failed to compile ", "Grammar preprocessing timed out")
_DEAD_END = "could not continue the request under its constraint"

# How gRPC itself says that a message is longer than its receiver takes, or its sender sends:
# of a request, then of an answer. Nobody is overloaded.
_LONG_REQUEST = ("Received message larger than max", "SERVER: Received message larger than max")
_LONG_ANSWER = ("Sent message larger than max", "SERVER: Sent message larger than max")

# HTTP status that an engine before SGLang 0.5.10 reports inside a response.
_BY_HTTP_STATUS = {
    "400": _INVALID,
    "404": _BY_GRPC_STATUS["NOT_FOUND"],
    "408": _TIMEOUT,
    "429": _BY_GRPC_STATUS["RESOURCE_EXHAUSTED"],
    "503": _UNREACHABLE,
    "504": _TIMEOUT,
}


def from_grpc_status(name: str, detail: str) -> RouterError:
    """The error for a gRPC status other than OK.

    Args:
        name: The status code's name, such as "UNAVAILABLE".
        detail: The engine's own words.
    """
    answer = _BY_GRPC_STATUS.get(name, _BROKEN)
    if (answer is _INVALID and detail.startswith(_GRAMMAR_REFUSALS)) or (
        name == "FAILED_PRECONDITION" and _DEAD_END in detail
    ):
        answer = _GRAMMAR
    elif name == "RESOURCE_EXHAUSTED" and detail.startswith(_LONG_REQUEST):
        answer = _TOO_LARGE
    elif name == "RESOURCE_EXHAUSTED" and detail.startswith(_LONG_ANSWER):
        answer = _BROKEN
    return _engine_failure(answer, detail or name)


def from_engine_response(http_status: str, detail: str) -> RouterError:
    """The error for a failure that an older engine reports inside its response."""
    return _engine_failure(_BY_HTTP_STATUS.get(http_status, _BROKEN), detail or "no reason given")


# Line ends of all kinds, other control characters, and marks that turn text around.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def clean_words(text: str, most: int) -> str:
    """Makes one line of words that somebody else has chosen.

    Args:
        text: The words.
        most: The most characters that are kept.
    """
    kept = _UNFIT.sub(" ", text[:most])
    return kept if len(text) <= most else f"{kept}..."


# Characters of an engine's own words; a refused grammar may be quoted in them.
_MOST_WORDS = 8 * 1024


def _engine_failure(answer: _Answer, detail: str) -> RouterError:
    detail = clean_words(detail, _MOST_WORDS)
    kind: type[RouterError] = EngineError
    if answer is _TIMEOUT:
        kind = EngineTimeout
    elif answer.status < 429:
        kind = BadRequest
    prefix = {
        503: "The engine is not available: ",
        502: "The engine failed: ",
        504: "The engine took too long: ",
    }.get(answer.status, "")
    return kind(prefix + detail, status=answer.status, type=answer.type, code=answer.code)
