"""A tokenizer from vocab.json and merges.txt, as Hugging Face's classes have it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import tokenizers

from sglrouter.errors import ConfigError
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.fast_tokenizer import fast_library
from sglrouter.prompt.tokenizer import load_tokenizer, read_tokenizer, vocabulary_size
from sglrouter.prompt.vocabulary_files import (
    class_defaults,
    has_vocabulary_files,
    read_vocabulary_files,
)

TEXTS = ("Hello  world, it's 123!\n\n x", "na\u00efve e\u0301 日本 🚀<|im_end|>\n", " a", "")


def split_up(tokenizer_json: Path, folder: Path, **config: object) -> None:
    """Writes what tokenizer.json holds of a vocabulary as vocab.json and merges.txt."""
    whole = json.loads(tokenizer_json.read_bytes())
    merges = [
        pair if isinstance(pair, str) else " ".join(pair) for pair in whole["model"]["merges"]
    ]
    (folder / "vocab.json").write_text(json.dumps(whole["model"]["vocab"]))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    added = {token.pop("id"): token for token in whole["added_tokens"]}
    declared = {"added_tokens_decoder": {str(key): token for key, token in added.items()}}
    (folder / "tokenizer_config.json").write_text(json.dumps(declared | config))


def test_vocabulary_and_merges_of_gpt2(tiny_model: Path, tmp_path: Path) -> None:
    split_up(tiny_model / "tokenizer.json", tmp_path, tokenizer_class="GPT2Tokenizer")
    found, source = read_tokenizer(tmp_path)
    wanted = tokenizers.Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    wanted.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in TEXTS:
        assert found.encode(text).ids == wanted.encode(text).ids
        assert found.decode(found.encode(text).ids, skip_special_tokens=False) == text
    assert vocabulary_size(found.get_vocab()) == vocabulary_size(wanted.get_vocab())
    assert fast_library(source, found) is not None
    # Each class cuts in its own way: GPT-2 keeps "123" together before merging.
    (cut,) = found.pre_tokenizer.pre_tokenize_str("123")
    assert cut[0] == "123"


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen2TokenizerFast"])
def test_vocabulary_and_merges_of_qwen2(tiny_model: Path, tmp_path: Path, name: str) -> None:
    split_up(tiny_model / "tokenizer.json", tmp_path, tokenizer_class=name)
    found = load_tokenizer(tmp_path)
    assert found.encode("e\u0301").ids == found.encode("\u00e9").ids, "composed first"
    assert found.encode("123").tokens == ["1", "2", "3"]
    assert found.encode("<|im_end|>").tokens == ["<|im_end|>"]


def test_the_configuration_says_how_raw_text_begins_and_ends(
    tiny_model: Path, tmp_path: Path
) -> None:
    plain: dict[str, object] = {"tokenizer_class": "GPT2Tokenizer"}
    first: dict[str, object] = {"add_bos_token": True, "bos_token": "<|im_start|>"}
    last: dict[str, object] = {"add_eos_token": True, "eos_token": {"content": "<|im_end|>"}}
    cases: list[tuple[dict[str, object], list[str], list[str]]] = [
        ({}, [], []),
        ({"add_bos_token": True}, ["<|endoftext|>"], []),
        (first, ["<|im_start|>"], []),
        ({**first, "add_bos_token": False}, [], []),
        (first | last, ["<|im_start|>"], ["<|im_end|>"]),
        ({"add_bos_token": True, "bos_token": None}, [], []),
    ]
    for config, before, after in cases:
        split_up(tiny_model / "tokenizer.json", tmp_path, **(plain | config))
        tokenizer = load_tokenizer(tmp_path)
        ids = reference_encoder(tokenizer).encode_raw("x").tolist()
        middle = tokenizer.encode("x", add_special_tokens=False).ids
        assert ids == [
            *map(tokenizer.token_to_id, before),
            *middle,
            *map(tokenizer.token_to_id, after),
        ]


@pytest.mark.parametrize("name", [None, "LlamaTokenizer"])
def test_vocabulary_and_merges_of_another_class_are_not_enough(
    tiny_model: Path, tmp_path: Path, name: str | None
) -> None:
    split_up(tiny_model / "tokenizer.json", tmp_path, tokenizer_class=name)
    with pytest.raises(ConfigError, match=f"tokenizer_class is one of .*, not {name!r}"):
        load_tokenizer(tmp_path)


def test_files_that_do_not_fit_are_named(tiny_model: Path, tmp_path: Path) -> None:
    split_up(tiny_model / "tokenizer.json", tmp_path, tokenizer_class="GPT2Tokenizer")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nqqqq zzzz\n")
    with pytest.raises(ConfigError, match=r"vocab\.json and merges\.txt do not fit: ."):
        load_tokenizer(tmp_path)


@pytest.mark.corpus
def test_vocabulary_and_merges_make_the_tokens_of_the_whole_file(
    corpus: Path, tmp_path: Path
) -> None:
    folder = corpus / "tokenizers" / "qwen3"
    split_up(folder / "tokenizer.json", tmp_path)
    shutil.copy(folder / "tokenizer_config.json", tmp_path)
    encoder = reference_encoder(load_tokenizer(tmp_path))
    goldens = (corpus / "tokenizers" / "goldens" / "qwen3.jsonl").read_bytes().splitlines()
    texts = [row for row in map(json.loads, goldens) if row["kind"] == "text"]
    assert len(texts) == 214
    for row in texts:
        assert encoder.encode(row["text"]).tolist() == row["ids"]
        assert encoder.encode_raw(row["text"]).tolist() == row["ids"]


@pytest.mark.parametrize("prefix", [True, False, None])
@pytest.mark.parametrize("kind", ["GPT2Tokenizer", "Qwen2TokenizerFast"])
def test_a_space_before_the_text_is_added_where_the_configuration_wants_it(
    tiny_model: Path, tmp_path: Path, kind: str, prefix: bool | None
) -> None:
    split_up(tiny_model / "tokenizer.json", tmp_path)
    config = {"tokenizer_class": kind, "add_prefix_space": prefix}
    tokenizer = read_vocabulary_files(tmp_path, config)
    spaced = tokenizer.encode(" word").ids
    assert (tokenizer.encode("word").ids == spaced) is bool(prefix)
    assert tokenizer.decode(spaced) == " word"


@pytest.mark.parametrize("missing", ["vocab.json", "merges.txt"])
def test_one_file_of_the_two_is_none(tiny_model: Path, tmp_path: Path, missing: str) -> None:
    assert not has_vocabulary_files(tmp_path)
    split_up(tiny_model / "tokenizer.json", tmp_path)
    assert has_vocabulary_files(tmp_path)
    (tmp_path / missing).rename(tmp_path / "other")
    assert not has_vocabulary_files(tmp_path)
    (tmp_path / missing).mkdir()  # a folder is no file
    assert not has_vocabulary_files(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": "b"}', b"\xff"])
def test_a_vocabulary_that_is_none_is_named(
    tiny_model: Path, tmp_path: Path, content: bytes
) -> None:
    split_up(tiny_model / "tokenizer.json", tmp_path)
    (tmp_path / "vocab.json").write_bytes(content)
    with pytest.raises(ConfigError, match=f"^tokenizer: {tmp_path}: vocab.json and .* do not fit"):
        read_vocabulary_files(tmp_path, {"tokenizer_class": "GPT2Tokenizer"})


def test_the_configuration_counts_more_than_its_class() -> None:
    for kind in ("GPT2Tokenizer", "GPT2TokenizerFast"):
        found = class_defaults({"tokenizer_class": kind, "eos_token": "</s>", "unk_token": None})
        assert found["bos_token"] == "<|endoftext|>"
        assert found["eos_token"] == "</s>"
        # Said to be none, there is none.
        assert found["unk_token"] is None
    assert "bos_token" not in class_defaults({"tokenizer_class": "Qwen2Tokenizer"})
    for other in ({}, {"tokenizer_class": None}, {"tokenizer_class": ["GPT2Tokenizer"]}):
        assert class_defaults(other) == other
