"""Loading a tokenizer from whichever files there are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tokenizers

from sglrouter.errors import ConfigError
from sglrouter.prompt.fast_tokenizer import fast_library
from sglrouter.prompt.tokenizer import load_tokenizer, read_tokenizer, vocabulary_size


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], "nor vocab.json and merges.txt"),
        (["vocab.json"], "vocab.json needs merges.txt beside it"),
        (["qwen.tiktoken"], "qwen.tiktoken, a tiktoken vocabulary, is not enough: .*pattern"),
        (["tiktoken.model"], "convert_tiktoken_to_fast"),
        (["tokenizer.model"], "SentencePiece model, is not enough: .*save_pretrained"),
        (["tekken.json"], "tekken.json, a Mistral tokenizer, is not enough: .*save_pretrained"),
    ],
)
def test_what_is_missing_is_said_in_a_line(tmp_path: Path, files: list[str], says: str) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(
        ConfigError, match=rf"^tokenizer: there is no .*tokenizer\.json, .*{says}"
    ) as raised:
        load_tokenizer(tmp_path)
    assert "\n" not in str(raised.value)


def test_tokens_that_only_the_configuration_has_are_added(
    tiny_model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copy(tiny_model / "tokenizer.json", tmp_path)
    size = vocabulary_size(load_tokenizer(tiny_model).get_vocab())
    flags = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    declared = {
        str(size): {"content": "<extra>", "special": True, **flags},
        str(size - 1): {"content": "<think>", "special": True, **flags},
        str(size + 7): {"content": "<far>", "special": True, **flags},
    }
    changed = {"added_tokens_decoder": declared, "additional_special_tokens": ["<more>"]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(changed))
    tokenizer, source = read_tokenizer(tmp_path)
    assert tokenizer.encode("a<extra>b").ids[1] == size
    # The model has no embedding for these: they stay text.
    assert max(tokenizer.encode("<more><far>").ids) < size
    added = {t.content: t for t in tokenizer.get_added_tokens_decoder().values()}
    assert added["<extra>"].special
    assert added["<think>"].special
    assert not added["<tool_call>"].special
    assert "'<think>' token" in caplog.text, "it has another id"
    library = fast_library(source, tokenizer)
    assert library is not None
    assert list(memoryview(library.ids("<extra>")).cast("B").cast("I")) == [size]
    shutil.copy(tiny_model / "tokenizer_config.json", tmp_path)
    assert read_tokenizer(tmp_path).source == tmp_path / "tokenizer.json", "nothing is missing"


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
    assert vocabulary_size(tokenizer.get_vocab()) == max(token["id"] for token in added) + 1


def test_the_vocabulary_may_have_holes() -> None:
    sparse = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 90}, unk_token="a"))
    assert vocabulary_size(sparse.get_vocab()) == 91
    assert vocabulary_size(tokenizers.Tokenizer(tokenizers.models.BPE()).get_vocab()) == 0
