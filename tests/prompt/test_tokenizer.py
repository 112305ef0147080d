"""Loading a tokenizer from whichever files there are."""

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

TEXTS = ("Hello  world, it's 123!\n\n x", "na\u00efve e\u0301 日本 🚀<|im_end|>\n", " a", "")


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
