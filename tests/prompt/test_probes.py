"""Texts that tell tokenizers apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglrouter.prompt.fast_tokenizer import fast_library
from sglrouter.prompt.probes import TEXTS, probes
from sglrouter.prompt.tokenizer import load_tokenizer


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False}},
        {"added_tokens": []},
    ],
)
def test_the_probes_notice_each_part_of_a_tokenizer(
    tiny_model: Path, change: dict[str, object]
) -> None:
    changed = json.loads((tiny_model / "tokenizer.json").read_text()) | change
    reference = load_tokenizer(tiny_model)
    assert fast_library(json.dumps(changed), reference) is None


def test_the_probes_hold_what_tokenizers_stumble_over() -> None:
    scripts = {
        *("a", "\u043c", "\u03b5", "ש", "م", "न", "ส", "你", "カ", "한", "வ", "ሰ", "გ", "བ"),
        *("\u0561", "\u13b3"),
        *("\U0001f680", "\u200d", "\ufe0f", "\u0301", "\ufdfa", "\ue000", "\uffff", "\x00"),
    }
    text = "".join(TEXTS)
    assert [letter for letter in scripts if letter not in text] == []
    token = "<|im_end|>"
    made = list(probes([token]))
    assert sum(token in probe for probe in made) >= 6
    assert token[:-1] in made
    many = [f"<{i}>" for i in range(1000)]
    texts = set(probes(many))
    assert len(texts) < 800
    assert all(any(f"{name}{name}" in text for text in texts) for name in (many[0], many[-1]))


def test_an_added_token_is_tried_whole_cut_doubled_and_inside_words() -> None:
    texts = list(probes(["<a>", "<b>"]))
    assert texts[: len(TEXTS)] == list(TEXTS)
    for token in ("<a>", "<b>"):
        assert any(f"{token}{token}" in text for text in texts)
        assert token[:-1] in texts
        assert f"<{token}{token[1:]}" in texts
        assert any(f"x{token}x" in text for text in texts)
        assert any(f"{token} b {token}" in text for text in texts)
        assert any(f"\n{token}" in text and f"{token}\n" in text for text in texts)
    # One after another, without anything between.
    assert "<a><b>" in texts


def test_without_added_tokens_all_texts_are_tried_one_by_one_and_at_once() -> None:
    texts = list(probes([]))
    assert set(TEXTS) <= set(texts)
    assert " ".join(TEXTS) in texts


@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 129, 1000])
def test_of_many_added_tokens_both_ends_are_tried_and_none_twice(count: int) -> None:
    names = [f"<{number}>" for number in range(count)]
    doubled = [text for text in probes(names) if any(text.startswith(f"{n}a{n} ") for n in names)]
    assert len(doubled) == min(count, 128)
    assert len(set(doubled)) == len(doubled)
    assert {doubled[0][: len(names[0])], doubled[-1][: len(names[-1])]} == {names[0], names[-1]}
