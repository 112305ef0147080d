"""What is made from a model's files, and what of it stays in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers

from sglrouter import model as model_module
from sglrouter.config import Settings
from sglrouter.model import load_model
from sglrouter.prompt.tokenizer import LoadedTokenizer, read_tokenizer

USER = [{"role": "user", "content": "Hello <|im_end|>"}]


@pytest.mark.parametrize(("mode", "kept"), [("allow", False), ("text", True)])
def test_the_reference_is_let_go_where_nobody_needs_it(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, mode: str, kept: bool
) -> None:
    read: list[tokenizers.Tokenizer] = []

    def reading(directory: Path) -> LoadedTokenizer:
        loaded = read_tokenizer(directory)
        read.append(loaded.tokenizer)
        return loaded

    monkeypatch.setattr(model_module, "read_tokenizer", reading)
    settings = Settings(tokenizer=str(tiny_model), control_tokens=mode)
    model = load_model(settings, tiny_model)
    (tokenizer,) = read
    assert (tokenizer.get_vocab_size(with_added_tokens=False) > 0) is kept
    # What is left of it does all that is asked of it.
    whole = read_tokenizer(tiny_model).tokenizer
    prompt = model.prompts.build(USER)
    shown = whole.decode(list(prompt.ids), skip_special_tokens=False)
    assert shown == prompt.text
    assert b"".join(map(model.detokenizers.piece, prompt.ids)).decode() == prompt.text
    end = whole.token_to_id("<|im_end|>")
    assert end is not None
    assert model.detokenizers.special_tokens_in(["<|im_end|>"]) == {end}
    assert model.vocab_size == model.files.vocab_size
    assert list(prompt.ids).count(end) == prompt.text.count("<|im_end|>") - kept


def test_without_fastokens_the_reference_stays(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "fast_library", lambda source, reference: None)
    model = load_model(Settings(tokenizer=str(tiny_model)), tiny_model)
    assert len(model.prompts.build(USER).ids) > 5
    assert model.prompts.encoder.counts() == {"offloaded": 0}


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_the_cache_is_as_large_as_the_setting(tiny_model: Path, size: int) -> None:
    settings = Settings(tokenizer=str(tiny_model), tokenizer_cache=size)
    counts = load_model(settings, tiny_model).prompts.encoder.counts()
    assert counts.get("cache_max_bytes", 0) == size
