"""Bodies that come compressed.

Strategy: what a body becomes is bounded, not what it was. It is decompressed in slices, in
the middle of which other requests have their turn, and one that grows beyond the bound is
given up there: a bomb costs no more than an honest body of the largest size.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from types import MappingProxyType

from sglrouter.errors import BadRequest, RouterError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ACCEPTED = "gzip, deflate, zstd"

# Bytes that one step takes and gives at most: a few milliseconds of work.
_TAKEN = 64 * 1024
_GIVEN = 1024 * 1024
# A body compressed twice is somebody's mistake; more often, an attack.
_MOST_ENCODINGS = 2
# Memory for what a frame of zstd refers back to: 8 MiB, which RFC 9659 asks of everybody.
_ZSTD_WINDOW = 23


def decode_body(body: bytes, encodings: str, limit: int, pause: Callable[[], None]) -> bytes:
    """Undoes the encodings of a body.

    Args:
        body: As it came.
        encodings: The Content-Encoding, the last applied at the end.
        limit: Largest size in bytes.
        pause: Gives other requests their turn.

    Raises:
        RouterError: An encoding is not known (415), the body is damaged (400) or becomes
            larger than the limit (413).
    """
    names = [name.strip().lower() for name in encodings.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    for name in names:
        if name not in _MAKERS:
            raise _Unsupported(f"Content-Encoding {name} is not supported: send {ACCEPTED} or none")
    if len(names) > _MOST_ENCODINGS:
        raise _Unsupported(f"A body can be encoded {_MOST_ENCODINGS} times at most")
    for name in reversed(names):
        body = _decoded(body, name, limit, pause)
    return body


def too_large(limit: int) -> RouterError:
    """The error for a body larger than the limit."""
    return RouterError(
        f"The request body is larger than {limit} bytes",
        status=413,
        type="invalid_request_error",
        code="request_too_large",
    )


class _Unsupported(RouterError):
    status = 415
    type = "invalid_request_error"
    code = "unsupported_encoding"
    headers = MappingProxyType({"Accept-Encoding": ACCEPTED})


def _decoded(body: bytes, name: str, limit: int, pause: Callable[[], None]) -> bytes:
    parts: list[bytes] = []
    size = 0
    make, several = _MAKERS[name]
    rest = memoryview(body)
    try:
        while True:
            stream = make(bytes(rest[:2]))
            while not stream.eof:
                part, rest = stream.step(rest)
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise too_large(limit)
                if rest or not stream.eof:
                    pause()
            if not rest:
                return b"".join(parts)
            if not several:
                raise ValueError("something follows its end")
    except (zlib.error, zstd.ZstdError, EOFError, ValueError) as exc:
        raise BadRequest(f"The body is no valid {name}: {exc}", code="invalid_body") from exc


class _Zlib:
    """A stream of zlib's: gzip, or deflate with or without its header."""

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    def step(self, rest: memoryview) -> tuple[bytes, memoryview]:
        """Decompresses a slice; returns it and what is still to be taken."""
        taken = rest[:_TAKEN]
        part = self._stream.decompress(taken, _GIVEN)
        left = len(self._stream.unconsumed_tail) + len(self._stream.unused_data)
        if not part and not taken and not self.eof:
            raise EOFError("it is cut")
        return part, rest[len(taken) - left :]


class _Zstd:
    """A frame of zstd."""

    def __init__(self) -> None:
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW}
        self._stream = zstd.ZstdDecompressor(options=options)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    def step(self, rest: memoryview) -> tuple[bytes, memoryview]:
        """See _Zlib."""
        # It keeps what it has not used, and asks for more when that is done.
        taken = rest[:_TAKEN] if self._stream.needs_input else rest[:0]
        hungry = self._stream.needs_input
        part = self._stream.decompress(taken, _GIVEN)
        if not part and hungry and not taken and not self.eof:
            raise EOFError("it is cut")
        return part, rest[len(taken) - len(self._stream.unused_data) :]


def _gzip(_beginning: bytes) -> _Zlib:
    return _Zlib(16 + zlib.MAX_WBITS)


def _deflate(beginning: bytes) -> _Zlib:
    """With zlib's header, as the standard has it, or without, as many send it."""
    has_header = (
        len(beginning) == 2
        and beginning[0] & 15 == zlib.DEFLATED
        and int.from_bytes(beginning) % 31 == 0
    )
    return _Zlib(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _zstd(_beginning: bytes) -> _Zstd:
    return _Zstd()


# How each is begun, and whether several may follow each other.
_MAKERS: dict[str, tuple[Callable[[bytes], _Zlib | _Zstd], bool]] = {
    "gzip": (_gzip, True),
    "x-gzip": (_gzip, True),
    "deflate": (_deflate, False),
    "zstd": (_zstd, True),
}
