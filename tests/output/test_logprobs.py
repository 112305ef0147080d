"""Log probabilities as the chat API shows them: each token as text and as its bytes."""

from __future__ import annotations

import json
import math

import msgspec
import pytest

from sglrouter.output.logprobs import LEAST, chat_logprobs
from sglrouter.output.sample import TokenLogprob

PIECES = {
    1: b"a",
    2: "é".encode(),
    3: "é".encode()[:1],
    4: "é".encode()[1:],
    5: b"",
    6: b"\xff\x00",
}


def shown(*entries: TokenLogprob) -> list[dict[str, object]]:
    made = chat_logprobs(entries, PIECES.__getitem__)
    # Whatever the engine says, it is JSON to every client.
    parsed: list[dict[str, object]] = json.loads(msgspec.json.encode(made))
    assert parsed == made
    return parsed


@pytest.mark.parametrize(
    ("token", "text"),
    [(1, "a"), (2, "é"), (3, "\ufffd"), (4, "\ufffd"), (5, ""), (6, "\ufffd\x00")],
)
def test_a_token_s_bytes_are_exact_where_its_text_cannot_be(token: int, text: str) -> None:
    (entry,) = shown(TokenLogprob(token, -0.5, []))
    assert entry == {
        "token": text,
        "logprob": -0.5,
        "bytes": list(PIECES[token]),
        "top_logprobs": [],
    }


def test_parts_of_a_character_join_to_it() -> None:
    entries = shown(TokenLogprob(3, -1.0, []), TokenLogprob(4, -2.0, []))
    joined = b"".join(bytes(entry["bytes"]) for entry in entries)  # type: ignore[call-overload]
    assert joined.decode() == "é"


@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan])
def test_what_json_cannot_say_is_the_least_in_every_place(value: float) -> None:
    (entry,) = shown(TokenLogprob(1, value, [(2, value), (3, -1.5)]))
    top = entry["top_logprobs"]
    assert isinstance(top, list)
    assert [entry["logprob"], *(each["logprob"] for each in top)] == [LEAST, LEAST, -1.5]


def test_the_likeliest_keep_their_order_and_may_hold_the_token_or_not() -> None:
    top = [(2, -0.1), (1, -0.2), (3, -0.2)]
    with_it, without = shown(TokenLogprob(1, -0.2, top), TokenLogprob(5, -9.0, top))
    for entry in (with_it, without):
        likeliest = entry["top_logprobs"]
        assert isinstance(likeliest, list)
        assert [each["bytes"] for each in likeliest] == [list(PIECES[token]) for token, _ in top]
        assert all(set(each) == {"token", "logprob", "bytes"} for each in likeliest)


def test_no_tokens_have_no_entries() -> None:
    assert shown() == []
