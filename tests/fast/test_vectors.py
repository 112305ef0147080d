"""Vectors: read as protobuf reads them, written so that the same floats come back."""

from __future__ import annotations

import json
import struct
from array import array
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter._fast.vectors import is_finite, json_array, read_embedding
from sglrouter._proto import legacy, scheduler
from tests.fast.messages import varint
from tests.fast.profile import soak

float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Where embeddings are, and the edges of what is written without Python.
usual = st.floats(-1.0, 1.0, width=32) | st.floats(0.0, 2.0**-16, width=32)
vectors = st.lists(float32 | usual, max_size=40)

POWERS = [float(f"1e{power}") for power in range(-12, 13)]
EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 0.1, 0.5, 0.99999994, 9.9999995, 1234567.9, 16777216.0),
    *(999999936.0, 123456789.0, 100000000.0, 3.4028234663852886e38, 1e-45, -1.1754944e-38),
    *POWERS,
]


def neighbours(values: list[float]) -> array[float]:
    """The values as 32-bit floats, with the next ones on both sides."""
    found = array("f")
    for value in values:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        for near in {max(bits - 1, 0), bits, bits + 1}:
            (each,) = struct.unpack("<f", struct.pack("<I", near))
            if abs(each) < float("inf"):
                found.append(each)
    return found


def floats(vector: list[float]) -> bytes:
    return struct.pack(f"<{len(vector)}f", *vector)


@soak
@given(vectors)
def test_what_is_written_comes_back(values: list[float]) -> None:
    vector = array("f", values)
    read = json.loads(json_array(vector))
    assert [type(each) for each in read] == [float] * len(vector)
    assert array("f", read).tobytes() == vector.tobytes()


def test_the_edges_come_back() -> None:
    vector = neighbours(EDGES)
    assert array("f", json.loads(json_array(vector))).tobytes() == vector.tobytes()


def test_numbers_are_short() -> None:
    assert json_array(array("f")) == b"[]"
    assert json_array(array("f", [0.1, -0.25, 0.0, -0.0, 3.0, 100.0, 2.0**-14, 1e9])) == (
        b"[0.100000001,-0.25,0.0,-0.0,3.0,100.0,0.0000610351563,1000000000.0]"
    )


@given(st.lists(usual, min_size=1, max_size=40))
def test_no_more_than_nine_digits_are_written(values: list[float]) -> None:
    for text in json_array(array("f", values)).decode().strip("[]").split(","):
        if "e" not in text:
            assert len(text.lstrip("-0.").rstrip("0").replace(".", "")) <= 9, text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_seen_anywhere(value: float) -> None:
    for place in range(3):
        vector = array("f", [1.0, 3.4e38, 0.0])
        assert is_finite(vector)
        vector[place] = value
        assert not is_finite(vector)


@pytest.mark.parametrize("wrong", [array("d", [1.0]), array("i", [1]), b"1234"])
def test_other_buffers_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="not a buffer of 32-bit floats"):
        json_array(wrong)
    with pytest.raises(ValueError, match="not a buffer of 32-bit floats"):
        is_finite(wrong)


@given(vectors, st.integers(0, 2**32 - 1))
def test_both_dialects_are_read(vector: list[float], tokens: int) -> None:
    now = scheduler.EmbedResponse(embedding=vector, prompt_tokens=tokens, embedding_dim=len(vector))
    older = legacy.EmbedResponse(
        request_id="id",
        complete=legacy.EmbedComplete(
            embedding=vector, prompt_tokens=tokens, embedding_dim=len(vector)
        ),
    )
    for message in (now, older):
        assert read_embedding(message.SerializeToString()) == (floats(vector), tokens, None)


def test_a_failure_is_read() -> None:
    error = legacy.EmbedError(message="it did not fit: é", code="400")
    message = legacy.EmbedResponse(request_id="id", error=error).SerializeToString()
    assert read_embedding(message) == (b"", 0, ("it did not fit: é", "400"))


def test_a_vector_may_come_in_pieces() -> None:
    first = scheduler.EmbedResponse(embedding=[1.0, 2.0]).SerializeToString()
    second = scheduler.EmbedResponse(embedding=[3.0]).SerializeToString()
    single = varint(5 << 3 | 5) + floats([4.0])
    unknown = varint(99 << 3 | 2) + b"\x01x"
    message = first + unknown + single + second
    assert read_embedding(message)[0] == floats([1.0, 2.0, 4.0, 3.0])
    assert list(scheduler.EmbedResponse.FromString(message).embedding) == [1.0, 2.0, 4.0, 3.0]


@pytest.mark.parametrize(
    "message",
    [
        varint(5 << 3 | 2) + b"\x03abc",  # three bytes are no float
        varint(5 << 3) + b"\x01",  # a number of another kind
        varint(5 << 3 | 2) + b"\x04ab",  # cut
        varint(2 << 3 | 2) + b"\x05" + varint(1 << 3 | 2) + b"\x03abc",
    ],
)
def test_malformed_messages_are_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="malformed engine message"):
        read_embedding(message)


@soak
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        vector, tokens, _ = read_embedding(data)
        assert len(vector) % 4 == 0
        assert len(vector) <= len(data)
        assert 0 <= tokens < 2**32


def test_every_cut_is_read_or_refused() -> None:
    message = scheduler.EmbedResponse(embedding=[0.5] * 100, prompt_tokens=7).SerializeToString()
    for end in range(len(message)):
        with suppress(ValueError):
            assert len(read_embedding(message[:end])[0]) in (0, 400)
