"""What the end of an HTTP/2 stream means to gRPC.

The rules are those of gRPC over HTTP/2: a status in the trailers counts; without one
the HTTP status, then the content type, then the reset code say what went wrong.
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from sglrouter._fast.h2 import Stream, error_name
from sglrouter.engines.channel.channel import Status

# HTTP/2 error code -> gRPC status, as gRPC over HTTP/2 has it; but for ENHANCE_YOUR_CALM,
# which is about the connection: RESOURCE_EXHAUSTED would blame the client's own rate.
_BY_RESET_CODE = {
    7: "UNAVAILABLE",  # REFUSED_STREAM
    8: "CANCELLED",  # CANCEL
    11: "UNAVAILABLE",  # ENHANCE_YOUR_CALM
    12: "PERMISSION_DENIED",  # INADEQUATE_SECURITY
}
_BY_HTTP_STATUS = {
    "400": "INTERNAL",
    "401": "UNAUTHENTICATED",
    "403": "PERMISSION_DENIED",
    "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE",
    "502": "UNAVAILABLE",
    "503": "UNAVAILABLE",
    "504": "UNAVAILABLE",
}
_STATUS_NAMES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


def outcome(stream: Stream) -> Status:
    """What a stream's end means to gRPC."""
    headers = stream.headers
    if stream.broken is not None:
        # Nothing that the client could do about: that a message is too long, neither.
        return Status("INTERNAL", stream.broken)
    status = _told_status(headers)
    # An answer that is reset after its OK has not come to its end.
    if status is not None and not (status.ok and stream.reset_code):
        if status.ok and stream.cut:
            return Status("INTERNAL", "the peer ended the stream inside a message")
        return status
    http_status = headers.get(":status", b"").decode("latin-1")
    if http_status and http_status != "200":
        code = _BY_HTTP_STATUS.get(http_status, "UNKNOWN")
        return Status(code, f"the peer answered with HTTP status {http_status}")
    content_type = headers.get("content-type", b"").decode("latin-1")
    if http_status and not content_type.startswith("application/grpc"):
        return Status("UNKNOWN", f"the peer does not speak gRPC: content type {content_type!r}")
    if stream.reset_code:
        code = _BY_RESET_CODE.get(stream.reset_code, "INTERNAL")
        return Status(code, f"the stream was reset: {error_name(stream.reset_code)}")
    return Status("UNKNOWN", "the peer ended the stream without a status")


def _told_status(headers: dict[str, bytes]) -> Status | None:
    """The status that the peer sent, if it did."""
    if "grpc-status" not in headers:
        return None
    text = headers["grpc-status"].decode("latin-1")
    # Any text may come, even one with more digits than int() takes.
    number = int(text) if len(text) <= 4 and text.isascii() and text.isdigit() else -1
    known = 0 <= number < len(_STATUS_NAMES)
    said = headers.get("grpc-message")
    message = unquote_to_bytes(said).decode("utf-8", "replace") if said else ""
    if not known and not message:
        message = f"the peer sent the unknown grpc-status {text[:40]!r}"
    details = headers.get("grpc-status-details-bin", b"")
    return Status(_STATUS_NAMES[number] if known else "UNKNOWN", message, details)
