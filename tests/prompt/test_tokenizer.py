"""Loading tokenizer.json."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tokenizers

from sglrouter.errors import ConfigError
from sglrouter.prompt.tokenizer import load_tokenizer, vocabulary_size


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^tokenizer: there is no .*tokenizer\.json$"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"model": {"type": "nope"}}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"tokenizer\.json: not a tokenizer: .") as raised:
        load_tokenizer(tmp_path)
    assert "\n" not in str(raised.value)


def test_a_prompt_is_never_cut_or_padded(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_model / "tokenizer.json", tmp_path)
    trained = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    trained.enable_truncation(8)
    trained.enable_padding(length=16)
    trained.save(str(tmp_path / "tokenizer.json"))
    text = "The capital of France is Paris. " * 10
    wanted = load_tokenizer(tiny_model).encode(text, add_special_tokens=False).ids
    assert len(wanted) > 16
    loaded = load_tokenizer(tmp_path)
    assert loaded.encode(text, add_special_tokens=False).ids == wanted
    assert len(loaded.encode("a", add_special_tokens=False).ids) == 1


def test_the_vocabulary_ends_after_the_largest_id(tiny_model: Path) -> None:
    tokenizer = load_tokenizer(tiny_model)
    added = json.loads((tiny_model / "tokenizer.json").read_bytes())["added_tokens"]
    assert vocabulary_size(tokenizer) == max(token["id"] for token in added) + 1


def test_the_vocabulary_may_have_holes() -> None:
    sparse = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 90}, unk_token="a"))
    assert vocabulary_size(sparse) == 91
    assert vocabulary_size(tokenizers.Tokenizer(tokenizers.models.BPE())) == 0
