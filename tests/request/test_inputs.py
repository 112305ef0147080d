"""The inputs of a request that has many."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.request.inputs import MAX_INPUTS, ids_of, inputs_of
from sglrouter.request.limits import Limits
from sglrouter.turns import taking_turns
from tests.output.models import byte_level

LIMITS = Limits(vocab_size=300, context_length=50, max_prompt_tokens=0, max_n=1)
LONGEST = 43


def ids(value: Any) -> list[list[int]]:
    found = ids_of(
        inputs_of(value, "input"),
        "input",
        encoder=reference_encoder(byte_level()),
        limits=LIMITS,
        pause=lambda: None,
    )
    return [list(each) for each in found]


def refusal(value: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        ids(value)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("value", "lengths"),
    [
        ("abc", [3]),
        (["abc", "d"], [3, 1]),
        ([5, 6], [2]),
        ([[5, 6], [7]], [2, 1]),
        ("a" * LONGEST, [LONGEST]),
        ([0, 299], [2]),
    ],
)
def test_every_form_of_input(value: Any, lengths: list[int]) -> None:
    assert [len(each) for each in ids(value)] == lengths


def test_ids_stay_as_they_are() -> None:
    assert ids([[5, 6], [7]]) == [[5, 6], [7]]


@pytest.mark.parametrize(
    ("value", "code", "param"),
    [
        ([], "invalid_value", "input"),
        ("", "invalid_value", "input"),
        (" \n", "invalid_value", "input"),
        (["a", "\t"], "invalid_value", "input[1]"),
        ([[5], []], "empty_prompt", "input[1]"),
        (["a", 5], "invalid_type", "input[1]"),
        ([5, [5]], "invalid_type", "input[1]"),
        ([5, True], "invalid_type", "input[1]"),
        ([{"image": "x"}], "unsupported_content", "input[0]"),
        ([300], "token_out_of_vocabulary", "input"),
        ([[5], [5, -1]], "token_out_of_vocabulary", "input[1][1]"),
        ([2**40], "token_out_of_vocabulary", "input[0]"),
        (["a", "b" * (LONGEST + 1)], "context_length_exceeded", "input[1]"),
        ([5] * (LONGEST + 1), "context_length_exceeded", "input"),
        (["a"] * (MAX_INPUTS + 1), "invalid_value", "input"),
    ],
)
def test_what_cannot_be_served_says_why(value: Any, code: str, param: str) -> None:
    error = refusal(value)
    assert (error.code, error.param) == (code, param)


def test_as_many_as_there_may_be() -> None:
    assert len(ids(["a"] * MAX_INPUTS)) == MAX_INPUTS


def test_long_work_is_done_in_turns() -> None:
    pauses: list[int] = []
    done: list[int] = []
    for item in taking_turns(range(5), lambda: pauses.append(len(done))):
        time.sleep(0.006)
        done.append(item)
    assert done == [0, 1, 2, 3, 4]
    assert pauses == [1, 2, 3, 4]
    assert list(taking_turns(range(1000), lambda: pauses.append(-1))) == list(range(1000))
    assert -1 not in pauses
