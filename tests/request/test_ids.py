"""Token ids from clients are told of in the same words everywhere."""

from __future__ import annotations

from array import array

import pytest

from sglrouter.errors import Invalid
from sglrouter.request.ids import ANY_ID, check_ids


@pytest.mark.parametrize("ids", [[], [0], [0, 9, 3], array("I", [9] * 1000)])
def test_ids_of_the_vocabulary_pass(ids: list[int]) -> None:
    check_ids(ids, 10, "tokens")


@pytest.mark.parametrize(
    ("ids", "size", "place", "words"),
    [
        ([1, 10, 11], 10, "tokens[1]", "is 10, but ids of this model are from 0 to 9"),
        ([1, 2, -1], 10, "tokens[2]", "is -1, but ids of this model are from 0 to 9"),
        ([2**32], ANY_ID, "tokens[0]", "is 4294967296, which is no token id"),
        ([10**100], ANY_ID, "tokens[0]", f"is 1{'0' * 31}..., which is no token id"),
    ],
)
def test_the_first_wrong_id_is_named(ids: list[int], size: int, place: str, words: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_ids(ids, size, "tokens")
    error = caught.value
    assert (error.param, error.code) == (place, "token_out_of_vocabulary")
    assert error.message == f"{place} {words}"
