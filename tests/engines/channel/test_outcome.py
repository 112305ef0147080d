"""What the end of a stream means: the tables of gRPC over HTTP/2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import grpc
import pytest

from sglrouter.engines.channel.channel import Status

pytest.importorskip("sglrouter._fast.h2", reason="there is no libnghttp2")

from sglrouter._fast.h2 import Stream
from sglrouter.engines.channel.outcome import outcome

GOOD = {":status": b"200", "content-type": b"application/grpc"}


@dataclass
class Ended:
    """What outcome() looks at in a Stream."""

    headers: dict[str, bytes] = field(default_factory=dict)
    broken: str | None = None
    reset_code: int = 0
    cut: bool = False


def of(
    headers: dict[str, bytes],
    *,
    broken: str | None = None,
    reset_code: int = 0,
    cut: bool = False,
) -> Status:
    return outcome(cast(Stream, Ended(headers, broken, reset_code, cut)))


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_every_status_has_its_name(code: grpc.StatusCode) -> None:
    number, _ = code.value
    status = of({**GOOD, "grpc-status": b"%d" % number, "grpc-message": b"words"})
    assert status == Status(code.name, "words")


@pytest.mark.parametrize("text", [b"17", b"999", b"-1", b"", b"abc", b"1.0", b"9" * 9999, b"\xb2"])
def test_a_status_that_is_none_is_unknown(text: bytes) -> None:
    status = of({**GOOD, "grpc-status": text})
    assert status.code == "UNKNOWN"
    assert "unknown grpc-status" in status.message
    assert len(status.message) < 200


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (b"plain", "plain"),
        (b"100%25 sure", "100% sure"),
        (b"a%0Ab", "a\nb"),
        (b"%E4%BD%A0%e5%a5%bd", "你好"),
        (b"%zz %", "%zz %"),
        (b"%E4%BD", "\N{REPLACEMENT CHARACTER}"),
        (b"%FF", "\N{REPLACEMENT CHARACTER}"),
        ("é".encode(), "é"),
        (b"a+b", "a+b"),
        (b"", ""),
    ],
)
def test_messages_are_percent_decoded(sent: bytes, read: str) -> None:
    assert of({**GOOD, "grpc-status": b"13", "grpc-message": sent}) == Status("INTERNAL", read)


def test_details_are_kept_as_they_came() -> None:
    headers = {**GOOD, "grpc-status": b"3", "grpc-status-details-bin": b"CAMSBWhlbGxv"}
    assert of(headers).details == b"CAMSBWhlbGxv"


@pytest.mark.parametrize(
    ("http_status", "code"),
    [
        (b"400", "INTERNAL"),
        (b"401", "UNAUTHENTICATED"),
        (b"403", "PERMISSION_DENIED"),
        (b"404", "UNIMPLEMENTED"),
        (b"429", "UNAVAILABLE"),
        (b"502", "UNAVAILABLE"),
        (b"503", "UNAVAILABLE"),
        (b"504", "UNAVAILABLE"),
        (b"500", "UNKNOWN"),
        (b"204", "UNKNOWN"),
        (b"302", "UNKNOWN"),
    ],
)
def test_an_http_status_speaks_where_grpc_does_not(http_status: bytes, code: str) -> None:
    headers = {":status": http_status, "content-type": b"text/html"}
    assert of(headers) == Status(code, f"the peer answered with HTTP status {http_status.decode()}")
    # A status of gRPC's own says more.
    assert of({**headers, "grpc-status": b"8"}).code == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("content_type", [b"text/html", b"", b"application/json"])
def test_another_content_type_is_not_grpc(content_type: bytes) -> None:
    status = of({":status": b"200", "content-type": content_type})
    assert status.code == "UNKNOWN"
    assert repr(content_type.decode()) in status.message


@pytest.mark.parametrize("content_type", [b"application/grpc+proto", b"application/grpc;x=y"])
def test_content_types_of_grpc_are_recognised(content_type: bytes) -> None:
    status = of({":status": b"200", "content-type": content_type})
    assert status.message == "the peer ended the stream without a status"


@pytest.mark.parametrize(
    ("reset_code", "code"),
    [
        (1, "INTERNAL"),
        (2, "INTERNAL"),
        (3, "INTERNAL"),
        (4, "INTERNAL"),
        (6, "INTERNAL"),
        (7, "UNAVAILABLE"),
        (8, "CANCELLED"),
        (9, "INTERNAL"),
        (10, "INTERNAL"),
        (11, "UNAVAILABLE"),
        (12, "PERMISSION_DENIED"),
        (4711, "INTERNAL"),
    ],
)
def test_reset_codes_have_a_status(reset_code: int, code: str) -> None:
    for headers in ({}, GOOD, {**GOOD, "grpc-status": b"0"}):
        status = of(headers, reset_code=reset_code)
        assert status.code == code
        assert f"({reset_code})" in status.message
    # What the engine itself gives as the reason is better than the code.
    assert of({**GOOD, "grpc-status": b"5"}, reset_code=reset_code).code == "NOT_FOUND"


def test_an_end_without_a_status_is_unknown() -> None:
    assert of(GOOD).code == of({}).code == "UNKNOWN"


def test_a_good_end_inside_a_message_is_not_good() -> None:
    assert of({**GOOD, "grpc-status": b"0"}, cut=True).code == "INTERNAL"
    assert of({**GOOD, "grpc-status": b"14"}, cut=True).code == "UNAVAILABLE"


def test_what_was_broken_comes_first() -> None:
    headers = {**GOOD, "grpc-status": b"0"}
    too_large = "a message of 9 bytes is larger than 8"
    assert of(headers, broken=too_large) == Status("INTERNAL", too_large)
    assert of(headers, broken="the message is compressed").code == "INTERNAL"
