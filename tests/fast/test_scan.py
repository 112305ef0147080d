"""StopMatcher against the definition of the first stop string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter._fast.scan import StopMatcher
from tests.fast import reference
from tests.fast.profile import soak

# Two letters and short strings, so that stops overlap in every way.
texts = st.binary(max_size=24).map(lambda raw: bytes(b"ab"[byte & 1] for byte in raw))
stop_lists = st.lists(
    st.binary(min_size=1, max_size=6).map(lambda raw: bytes(b"ab"[byte & 1] for byte in raw)),
    max_size=4,
)


def match(parts: list[bytes], stops: list[bytes], keep: bool) -> tuple[bytes, bytes | None]:
    matcher = StopMatcher(stops, keep)
    text = b"".join(matcher.feed(part) for part in parts) + matcher.finish()
    return text, matcher.matched


@given(texts, stop_lists, st.booleans())
def test_every_split_point_gives_the_text_before_the_first_stop(
    text: bytes, stops: list[bytes], keep: bool
) -> None:
    expected = reference.cut_at_stop(text, stops, keep=keep)
    for cut in range(len(text) + 1):
        assert match([text[:cut], text[cut:]], stops, keep) == expected
    assert match([text[i : i + 1] for i in range(len(text))], stops, keep) == expected


@pytest.mark.soak
@soak
@given(st.lists(texts, max_size=6), stop_lists, st.booleans())
def test_any_chunking_gives_the_text_before_the_first_stop(
    parts: list[bytes], stops: list[bytes], keep: bool
) -> None:
    expected = reference.cut_at_stop(b"".join(parts), stops, keep=keep)
    assert match(parts, stops, keep) == expected


@given(texts, stop_lists)
def test_nothing_is_held_back_that_cannot_become_a_stop(text: bytes, stops: list[bytes]) -> None:
    matcher = StopMatcher(stops)
    out = b""
    for at in range(len(text)):
        out += matcher.feed(text[at : at + 1])
        if matcher.matched is not None:
            break
        seen = text[: at + 1]
        assert out == seen[: len(seen) - reference.undecided(seen, stops)]


@pytest.mark.parametrize(
    ("text", "stops", "kept", "matched"),
    [
        (b"xabab", [b"abab", b"ba", b"aba"], b"x", b"aba"),
        (b"xabab", [b"abab", b"bab"], b"x", b"abab"),
        (b"xaab", [b"ab", b"aab"], b"x", b"aab"),
        (b"xaaab", [b"aab"], b"xa", b"aab"),
        (b"one STOP two", [b"STOP"], b"one ", b"STOP"),
        ("日本。終".encode(), ["。".encode()], "日本".encode(), "。".encode()),
        (b"stop", [b"stop", b"stop"], b"", b"stop"),
        (b"sto", [b"stop"], b"sto", None),
        (b"", [b"stop"], b"", None),
        (b"text", [], b"text", None),
    ],
)
def test_the_first_to_be_complete_wins_and_of_those_the_longest(
    text: bytes, stops: list[bytes], kept: bytes, matched: bytes | None
) -> None:
    assert match([text], stops, False) == (kept, matched)
    assert match([text], stops[::-1], False) == (kept, matched)
    assert match([bytes([byte]) for byte in text], stops, False) == (kept, matched)


def test_nothing_comes_after_a_match() -> None:
    matcher = StopMatcher([b"ab"], keep=True)
    assert matcher.feed(b"xabyab") == b"xab"
    assert matcher.feed(b"more") == b""
    assert matcher.finish() == b""
    assert matcher.matched == b"ab"


def test_finish_gives_up_what_was_held_once() -> None:
    matcher = StopMatcher([b"abc"])
    assert matcher.feed(b"xab") == b"x"
    assert matcher.finish() == b"ab"
    assert matcher.finish() == b""


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="empty stop"):
        StopMatcher([b"a", b""])


def test_a_near_match_at_every_byte_takes_linear_time() -> None:
    stop = b"a" * 1000 + b"b"
    matcher = StopMatcher([stop, b"a" * 500 + b"c"])
    text = b"a" * 1_000_000
    assert matcher.feed(text) == text[:-1000]
    assert matcher.feed(b"b") == b""
    assert matcher.matched == stop
