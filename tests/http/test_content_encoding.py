"""Compressed bodies, whole, cut, damaged, and much larger than they look."""

from __future__ import annotations

import gzip
import sys
import time
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.errors import RouterError
from sglrouter.http.content_encoding import decode_body

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 4 * 1024 * 1024
TEXT = b'{"messages": ["' + bytes(range(32, 127)) * 30_000 + b'"]}'
RAW = zlib.compressobj(wbits=-15)
ENCODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "zstd": zstd.compress(TEXT),
}


def decoded(body: bytes, encodings: str, limit: int = LIMIT) -> bytes:
    return decode_body(body, encodings, limit, lambda: None)


def refusal(body: bytes, encodings: str, limit: int = LIMIT) -> RouterError:
    with pytest.raises(RouterError) as caught:
        decoded(body, encodings, limit)
    return caught.value


@pytest.mark.parametrize("name", ENCODED)
def test_what_was_encoded_comes_back(name: str) -> None:
    assert decoded(ENCODED[name], name) == TEXT
    assert decoded(ENCODED[name], f" identity, {name.upper()} ") == TEXT


def test_deflate_without_its_header() -> None:
    assert decoded(RAW.compress(TEXT) + RAW.flush(), "deflate") == TEXT


def test_several_in_their_order_and_several_members() -> None:
    assert decoded(zstd.compress(gzip.compress(TEXT)), "gzip, zstd") == TEXT
    assert decoded(gzip.compress(b"a") + gzip.compress(b"b"), "gzip") == b"ab"
    assert decoded(zstd.compress(b"a") + zstd.compress(b"b"), "zstd") == b"ab"
    assert refusal(b"", "gzip, gzip, gzip").status == 415


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    assert decoded(gzip.compress(data), "gzip") == data
    assert decoded(zlib.compress(data), "deflate") == data
    assert decoded(zstd.compress(data), "zstd") == data


def once(name: str, data: bytes) -> bytes:
    """The data, compressed."""
    if name == "deflate":
        return zlib.compress(data)
    return zstd.compress(data) if name == "zstd" else gzip.compress(data)


@pytest.mark.parametrize("name", ENCODED)
def test_a_damaged_body_is_refused(name: str) -> None:
    short = once(name, b"some text that is short")
    for end in range(len(short)):
        assert refusal(short[:end], name).status == 400
    assert refusal(b"{}", name).status == 400
    assert refusal(short + b"garbage", name).status == 400


@pytest.mark.parametrize("name", ["br", "compress", "gzip, br", "utf-8", "*"])
def test_an_unknown_encoding_is_named(name: str) -> None:
    error = refusal(b"x", name)
    assert error.status == 415
    assert name.rpartition(" ")[2] in error.message
    assert error.headers["Accept-Encoding"] == "gzip, deflate, zstd"


@pytest.mark.parametrize("name", ENCODED)
def test_the_bound_is_that_of_what_comes_out(name: str) -> None:
    assert decoded(ENCODED[name], name, len(TEXT)) == TEXT
    assert refusal(ENCODED[name], name, len(TEXT) - 1).status == 413


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "gzip, gzip"])
def test_a_bomb_is_given_up_early_and_in_slices(name: str) -> None:
    size = 256 * 1024 * 1024
    bomb = once(name.partition(",")[0], bytes(size))
    if "," in name:
        bomb = gzip.compress(bomb)
    turns = [time.thread_time()]
    with pytest.raises(RouterError) as caught:
        decode_body(bomb, name, 32 * 1024 * 1024, lambda: turns.append(time.thread_time()))
    assert caught.value.status == 413
    assert len(turns) >= 32
    assert max(later - earlier for earlier, later in pairwise(turns)) < 0.05
