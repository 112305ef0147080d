"""The prompts that an engine takes, and the others."""

from __future__ import annotations

import pytest

from sglrouter.errors import BadRequest
from sglrouter.request.limits import Limits, check_length, check_prompt, check_size

VOCAB = 1000
CONTEXT = 100
LIMITS = Limits(vocab_size=VOCAB, context_length=CONTEXT, max_prompt_tokens=0, max_n=4)
ROOMY = Limits(vocab_size=VOCAB, context_length=0, max_prompt_tokens=0, max_n=4)


@pytest.mark.parametrize(
    ("context", "max_prompt", "shown", "longest"),
    [(100, 0, 100, 93), (0, 93, 100, 93), (100, 93, 100, 93), (50, 93, 50, 43), (100, 20, 27, 20)],
)
def test_a_prompt_must_leave_room_for_an_answer(
    context: int, max_prompt: int, shown: int, longest: int
) -> None:
    limits = Limits(vocab_size=VOCAB, context_length=context, max_prompt_tokens=max_prompt, max_n=1)
    check_prompt([1] * longest, limits)
    with pytest.raises(BadRequest) as raised:
        check_prompt([1] * (longest + 1), limits)
    error = raised.value
    assert (error.status, error.param) == (400, "messages")
    assert error.code == "context_length_exceeded"
    # Agents read OpenAI's sentences.
    assert error.message.startswith(
        f"This model's maximum context length is {shown} tokens. However, your messages resulted "
        f"in {longest + 1} tokens"
    )
    assert f"up to {longest}." in error.message


def test_any_prompt_fits_a_context_that_nobody_knows() -> None:
    check_prompt([1] * 10_000, ROOMY)


def test_no_prompt_fits_a_context_of_seven() -> None:
    tiny = Limits(vocab_size=VOCAB, context_length=7, max_prompt_tokens=0, max_n=1)
    with pytest.raises(BadRequest, match="up to 0"):
        check_prompt([1], tiny)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(BadRequest, match="no tokens") as raised:
        check_prompt([], LIMITS)
    assert raised.value.param == "messages"


def test_a_prompt_with_an_id_outside_the_vocabulary_is_refused() -> None:
    check_prompt([0, VOCAB - 1], LIMITS)
    with pytest.raises(BadRequest, match=f"token id {VOCAB}") as raised:
        check_prompt([0, VOCAB], LIMITS)
    assert (raised.value.param, raised.value.code) == ("messages", "token_out_of_vocabulary")


def test_a_prompt_that_is_too_long_is_refused_before_its_ids_are_looked_at() -> None:
    ids = [VOCAB + 1] * (CONTEXT - 7)
    check_size(ids, LIMITS)
    with pytest.raises(BadRequest) as raised:
        check_size([*ids, 1], LIMITS, "prompt")
    assert (raised.value.param, raised.value.code) == ("prompt", "context_length_exceeded")


def test_a_text_that_cannot_fit_is_refused_before_it_is_tokenized() -> None:
    longest = 5 * (CONTEXT - 7)
    check_length("x" * longest, 5, LIMITS)
    check_length("x" * longest * 9, None, LIMITS)
    check_length("x" * longest * 9, 5, ROOMY)
    with pytest.raises(BadRequest, match=f"at least {CONTEXT - 6} tokens") as raised:
        check_length("x" * (longest + 1), 5, LIMITS, "prompt")
    assert raised.value.param == "prompt"


@pytest.mark.parametrize(
    ("context", "max_prompt", "room"), [(100, 0, 88), (0, 93, 88), (0, 0, None), (50, 93, 38)]
)
def test_the_room_for_an_answer(context: int, max_prompt: int, room: int | None) -> None:
    limits = Limits(vocab_size=VOCAB, context_length=context, max_prompt_tokens=max_prompt, max_n=1)
    assert limits.room(10) == room
    if room is not None:
        assert limits.room(10_000) == 0
