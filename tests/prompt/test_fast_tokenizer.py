"""The fast encoder is used where it agrees with the reference, and only there."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
import tokenizers

from sglrouter.prompt.fast_tokenizer import fast_encoder
from sglrouter.prompt.tokenizer import load_tokenizer


def test_the_tiny_model_is_encoded_alike(tiny_model: Path) -> None:
    reference = load_tokenizer(tiny_model)
    encoder = fast_encoder(tiny_model / "tokenizer.json", reference)
    assert encoder is not None
    text = "<|im_start|>user\nHello 🚀, 日本<|im_end|>"
    assert list(encoder.encode(text, add_special_tokens=False).ids) == (
        reference.encode(text, add_special_tokens=False).ids
    )


def test_one_difference_is_enough_to_stay_with_the_reference(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = json.loads((tiny_model / "tokenizer.json").read_text())
    changed["model"]["merges"] = changed["model"]["merges"][:-2000]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(changed))
    assert fast_encoder(path, load_tokenizer(tiny_model)) is None
    assert "differs from the reference" in caplog.text


def test_a_file_that_it_cannot_read_is_left_to_the_reference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reference = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    assert fast_encoder(path, reference) is None
    assert "cannot read" in caplog.text


def test_without_the_package_the_reference_stays(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    with caplog.at_level(logging.INFO):
        assert fast_encoder(tiny_model / "tokenizer.json", load_tokenizer(tiny_model)) is None
    assert "pip install 'sglrouter[fast]'" in caplog.text


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["qwen3", "mistral-spm-v3", "smollm2-135m-instruct"])
def test_real_tokenizers_pass_the_check_and_encode_the_goldens(corpus: Path, name: str) -> None:
    folder = corpus / "tokenizers" / name
    encoder = fast_encoder(folder / "tokenizer.json", load_tokenizer(folder))
    assert encoder is not None
    goldens = (corpus / "tokenizers" / "goldens" / f"{name}.jsonl").read_text().strip().split("\n")
    texts = [row for row in map(json.loads, goldens) if row["kind"] == "text"]
    assert len(texts) > 100
    for row in texts:
        ids = encoder.encode(row["text"], add_special_tokens=False).ids
        assert list(ids) == row["ids"], row["text"]
