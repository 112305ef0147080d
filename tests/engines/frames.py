"""HTTP/2 frames of a server, made by hand: a library would refuse to misbehave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hpack import Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

Fields = Sequence[tuple[str, str | bytes]]

GRPC_HEADERS: Fields = [(":status", "200"), ("content-type", "application/grpc")]

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 7, 8, 11, 12


def settings(**values: int) -> bytes:
    """SETTINGS, by the names that hyperframe has for them, such as INITIAL_WINDOW_SIZE."""
    numbers = {getattr(SettingsFrame, name): value for name, value in values.items()}
    return SettingsFrame(0, settings=numbers).serialize()


def headers(stream: int, fields: Fields = GRPC_HEADERS, *, end: bool = False) -> bytes:
    """HEADERS. Nothing enters the dynamic table: each frame stands for itself."""
    block = Encoder().encode([(name, value, True) for name, value in fields], huffman=False)
    flags = ["END_HEADERS", "END_STREAM"] if end else ["END_HEADERS"]
    return HeadersFrame(stream, block, flags=flags).serialize()


def trailers(stream: int, status: str | bytes = "0", message: str | bytes | None = None) -> bytes:
    """The HEADERS that end an answer."""
    fields: list[tuple[str, str | bytes]] = [("grpc-status", status)]
    if message is not None:
        fields.append(("grpc-message", message))
    return headers(stream, fields, end=True)


def data(stream: int, content: bytes, *, end: bool = False, padding: int = 0) -> bytes:
    """DATA."""
    flags = (["END_STREAM"] if end else []) + (["PADDED"] if padding else [])
    return DataFrame(stream, content, flags=flags, pad_length=padding).serialize()


def reset(stream: int, code: int) -> bytes:
    """RST_STREAM."""
    return RstStreamFrame(stream, error_code=code).serialize()


def goaway(last_stream: int, code: int = NO_ERROR, debug: bytes = b"") -> bytes:
    """GOAWAY."""
    return GoAwayFrame(0, last_stream, code, debug).serialize()


def ping(content: bytes = b"12345678") -> bytes:
    """PING."""
    return PingFrame(0, content).serialize()


def window(stream: int, size: int) -> bytes:
    """WINDOW_UPDATE."""
    return WindowUpdateFrame(stream, size).serialize()


def framed(*messages: bytes) -> bytes:
    """gRPC messages with their prefixes."""
    return b"".join(b"\0" + len(message).to_bytes(4, "big") + message for message in messages)


def in_data(stream: int, content: bytes, sizes: Iterable[int]) -> bytes:
    """Content cut into DATA frames of these sizes, the rest in frames of 16 KiB."""
    out = b""
    at = 0
    for size in sizes:
        out += data(stream, content[at : at + size])
        at += size
    return out + b"".join(
        data(stream, content[i : i + 16384]) for i in range(at, len(content), 16384)
    )


def answer(stream: int, *messages: bytes) -> bytes:
    """A whole answer that ends well."""
    return headers(stream) + in_data(stream, framed(*messages), ()) + trailers(stream)


class FrameReader:
    """Takes a client's bytes apart."""

    def __init__(self) -> None:
        self._waiting = b""
        self._preface = len(PREFACE)

    def feed(self, received: bytes) -> list[Frame]:
        """Returns the frames that are complete now."""
        self._waiting += received
        if self._preface and len(self._waiting) >= self._preface:
            assert self._waiting.startswith(PREFACE)
            self._waiting = self._waiting[self._preface :]
            self._preface = 0
        frames = []
        while not self._preface and len(self._waiting) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(self._waiting[:9]))
            if len(self._waiting) < 9 + length:
                break
            frame.parse_body(memoryview(self._waiting[9 : 9 + length]))
            self._waiting = self._waiting[9 + length :]
            frames.append(frame)
        return frames
