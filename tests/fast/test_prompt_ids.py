"""The prompt's part of a request, against protobuf's own."""

from __future__ import annotations

import struct
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter._fast.prompt_ids import largest_id, tokenized_input
from sglrouter._proto import scheduler as pb


@settings(derandomize=True, deadline=None)
@given(st.text(), st.lists(st.integers(0, 2**32 - 1), max_size=300))
def test_it_is_what_protobuf_writes(text: str, ids: list[int]) -> None:
    expected = pb.GenerateRequest(
        tokenized=pb.TokenizedInput(original_text=text, input_ids=ids)
    ).SerializeToString()
    assert tokenized_input(text.encode(), ids) == expected
    # However the same ids are held.
    packed = struct.pack(f"{len(ids)}I", *ids)
    unaligned = memoryview(b"x" + packed)[1:]
    for buffer in (packed, bytearray(packed), unaligned, memoryview(packed).cast("I")):
        assert tokenized_input(text.encode(), buffer) == expected
        assert largest_id(buffer) == max(ids, default=-1)
    assert tokenized_input(text.encode(), array("I", ids)) == expected
    assert largest_id(tuple(ids)) == max(ids, default=-1)


def test_long_prompts_keep_every_id() -> None:
    ids = [i * 7919 % 200_000 for i in range(100_000)]
    message = pb.GenerateRequest.FromString(tokenized_input(b"text", ids))
    assert list(message.tokenized.input_ids) == ids


@pytest.mark.parametrize("ids", [b"abc", b"abcde", array("Q", [1]), array("H", [1, 2])])
def test_a_buffer_of_another_width_is_refused(ids: array[int] | bytes) -> None:
    for function in (largest_id, lambda buffer: tokenized_input(b"", buffer)):
        with pytest.raises(ValueError, match="ids"):
            function(ids)


@pytest.mark.parametrize("ids", [[-1], [2**32], [2**70]])
def test_an_id_that_does_not_fit_is_refused(ids: list[int]) -> None:
    with pytest.raises(OverflowError):
        tokenized_input(b"", ids)
