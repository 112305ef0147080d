"""The fast library is used where it agrees with the reference, and only there."""

from __future__ import annotations

import json
import logging
import os
import sys
from array import array
from pathlib import Path

import pytest
import tokenizers

from sglrouter.prompt.fast_tokenizer import fast_library
from sglrouter.prompt.probes import TEXTS
from sglrouter.prompt.tokenizer import load_tokenizer


def test_the_tiny_model_is_encoded_alike(tiny_model: Path) -> None:
    reference = load_tokenizer(tiny_model)
    for source in (tiny_model / "tokenizer.json", reference.to_str()):
        library = fast_library(source, reference)
        assert library is not None
        text = "<|im_start|>user\nHello 🚀, 日本<|im_end|>"
        expected = reference.encode(text, add_special_tokens=False).ids
        assert array("I", library.ids(text)).tolist() == expected


def test_one_difference_is_enough_to_stay_with_the_reference(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = json.loads((tiny_model / "tokenizer.json").read_text())
    changed["model"]["merges"] = changed["model"]["merges"][:-2000]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(changed))
    reference = load_tokenizer(tiny_model)
    other = tokenizers.Tokenizer.from_file(str(path))
    assert fast_library(path, reference) is None
    # The first probe that differs is named, and where.
    text = next(text for text in TEXTS if other.encode(text).ids != reference.encode(text).ids)
    wanted, got = reference.encode(text).ids, other.encode(text).ids
    at = next(i for i, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1])
    assert f"differs from the reference on {text[:40]!r}"[:-1] in caplog.text
    assert f"token {at} is {got[at]}, should be {wanted[at]}" in caplog.text


def test_a_file_that_it_cannot_read_is_left_to_the_reference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reference = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    assert fast_library(path, reference) is None
    assert "cannot read" in caplog.text


def test_without_the_package_the_reference_stays(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    with caplog.at_level(logging.INFO):
        assert fast_library(tiny_model / "tokenizer.json", load_tokenizer(tiny_model)) is None
    assert "pip install 'sglrouter[fast]'" in caplog.text


def test_a_version_that_lacks_what_is_used_is_left_alone(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Old:
        """A fastokens that keeps no ids."""

        from_file = classmethod(lambda cls, path: cls())
        no_truncation = no_padding = lambda self: None

    monkeypatch.setattr("fastokens.Tokenizer", Old)
    assert fast_library(tiny_model / "tokenizer.json", load_tokenizer(tiny_model)) is None
    assert "enable_segment_cache" in caplog.text


def test_a_machine_of_the_other_byte_order_keeps_the_reference(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    assert fast_library(tiny_model / "tokenizer.json", load_tokenizer(tiny_model)) is None


def test_a_prompt_is_never_cut_or_padded(tiny_model: Path) -> None:
    trained = load_tokenizer(tiny_model)
    trained.enable_truncation(8)
    trained.enable_padding(length=16)
    library = fast_library(trained.to_str(), load_tokenizer(tiny_model))
    assert library is not None
    assert len(library.ids("a")) == 4
    assert len(library.ids("a b c d e f g h i j k l")) > 8 * 4


def test_it_works_after_a_fork(tiny_model: Path) -> None:
    library = fast_library(tiny_model / "tokenizer.json", load_tokenizer(tiny_model))
    assert library is not None
    text = "words and more words <|im_end|>\n" * 20_000
    expected = library.ids(text)
    child = os.fork()
    if child == 0:
        os._exit(0 if library.ids(text + "x")[: len(expected) - 40] == expected[:-40] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
