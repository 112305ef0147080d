"""Ids as one buffer: equal for both libraries, special tokens at the ends, off the loop."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers.processors import TemplateProcessing

from sglrouter.prompt.encoder import Encoder, ReferenceLibrary, reference_encoder
from sglrouter.prompt.fast_tokenizer import FastLibrary, fast_library
from sglrouter.prompt.special_tokens import ends_of
from sglrouter.prompt.tokenizer import load_tokenizer, read_tokenizer

TEXT = "<|im_start|>user\nHello 🚀, 日本<|im_end|>"


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> tokenizers.Tokenizer:
    return load_tokenizer(tiny_model)


@pytest.fixture(scope="module")
def fast(tiny_model: Path, tokenizer: tokenizers.Tokenizer) -> FastLibrary:
    library = fast_library(tiny_model / "tokenizer.json", tokenizer)
    assert library is not None
    return library


def with_ends(tokenizer: tokenizers.Tokenizer, single: str) -> tokenizers.Tokenizer:
    changed = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    names = ("<|endoftext|>", "<|im_end|>")
    changed.post_processor = TemplateProcessing(
        single=single, special_tokens=[(name, changed.token_to_id(name)) for name in names]
    )
    return changed


def test_ids_are_a_buffer_of_32_bits(tokenizer: tokenizers.Tokenizer, fast: FastLibrary) -> None:
    expected = tokenizer.encode(TEXT, add_special_tokens=False).ids
    for library in (ReferenceLibrary(tokenizer), fast):
        ids = Encoder(library).encode(TEXT)
        assert isinstance(ids, memoryview)
        assert (ids.format, ids.itemsize) == ("I", 4)
        assert ids.tolist() == expected
        assert len(ids) == len(expected)
        assert max(ids) == max(expected)
        assert not Encoder(library).encode("")


def test_a_prompt_gets_no_special_tokens(tokenizer: tokenizers.Tokenizer) -> None:
    encoder = reference_encoder(with_ends(tokenizer, "<|endoftext|> $A <|im_end|>"))
    bare = tokenizer.encode("x y", add_special_tokens=False).ids
    assert encoder.encode("x y").tolist() == bare


@pytest.mark.parametrize(
    ("single", "before", "after"),
    [
        ("$A", [], []),
        ("<|endoftext|> $A", ["<|endoftext|>"], []),
        ("$A <|im_end|>", [], ["<|im_end|>"]),
        ("<|endoftext|> $A <|im_end|>", ["<|endoftext|>"], ["<|im_end|>"]),
        ("<|endoftext|> <|im_end|> $A", ["<|endoftext|>", "<|im_end|>"], []),
    ],
)
def test_raw_text_gets_what_the_post_processor_adds(
    tokenizer: tokenizers.Tokenizer,
    fast: FastLibrary,
    single: str,
    before: list[str],
    after: list[str],
) -> None:
    changed = with_ends(tokenizer, single)
    first, last = (list(map(changed.token_to_id, names)) for names in (before, after))
    for text in ("x y", "", "a", TEXT + "\n"):
        bare = tokenizer.encode(text, add_special_tokens=False).ids
        assert changed.encode(text).ids == first + bare + last
        for library in (ReferenceLibrary(changed), fast):
            encoder = Encoder(library, ends_of(changed))
            assert encoder.encode_raw(text).tolist() == first + bare + last
            assert encoder.with_ends(encoder.encode(text)).tolist() == first + bare + last


def test_raw_text_that_brings_them_gets_no_second_ones(tokenizer: tokenizers.Tokenizer) -> None:
    encoder = reference_encoder(with_ends(tokenizer, "<|endoftext|> $A <|im_end|>"))
    whole = encoder.encode_raw("x").tolist()
    for text in ("x", "<|endoftext|>x", "x<|im_end|>", "<|endoftext|>x<|im_end|>"):
        assert encoder.encode_raw(text).tolist() == whole
    twice = encoder.encode_raw("<|endoftext|><|endoftext|>x").tolist()
    assert twice[:2] == [whole[0], whole[0]], "what the client doubles stays doubled"
    assert len(twice) == len(whole) + 1


def test_long_texts_go_where_run_says(tokenizer: tokenizers.Tokenizer, fast: FastLibrary) -> None:
    for library in (ReferenceLibrary(tokenizer), fast):
        encoder = Encoder(library)
        calls: list[str] = []

        def run(function: Callable[[str], bytes], text: str, calls: list[str] = calls) -> bytes:
            calls.append(text)
            return function(text)

        long = "ab " * (library.quick // 3 + 1)
        expected = encoder.encode(long).tolist()
        assert encoder.counts()["offloaded"] == 0
        encoder = Encoder(library, run=run)
        encoder.encode(long[: library.quick])
        encoder.encode_raw("short")
        assert calls == []
        assert encoder.encode(long).tolist() == expected
        assert encoder.encode_raw(long).tolist() == expected
        assert calls == [long, long]
        assert encoder.counts()["offloaded"] == 2


# What comes between the special tokens of a conversation.
PARTS = [
    "user\nHello",
    "assistant\n",
    "",
    " ",
    "\n",
    "a",
    "user\nHello ",
    "user\nHell",
    "naïve 日本語 🚀",
    "x" * 500,
    "tool\n" + '{"a": [1, 2, 3]}' * 20,
]


def test_kept_ids_are_the_same_ids(tiny_model: Path, tokenizer: tokenizers.Tokenizer) -> None:
    cached = fast_library(tiny_model / "tokenizer.json", tokenizer)
    assert cached is not None
    cached.remember(1 << 20)
    plain = ReferenceLibrary(tokenizer)
    dice = random.Random(7)
    specials = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|", "<tool_call>"]
    for _ in range(30):
        conversation = ""
        for _ in range(12):  # it grows by a turn, as agents' do
            conversation += dice.choice(specials) + dice.choice(PARTS)
            assert cached.ids(conversation) == plain.ids(conversation), conversation
    counts = cached.counts()
    assert counts["cache_hits"] > counts["cache_misses"] > 0


def test_kept_ids_stay_within_their_memory(
    tiny_model: Path, tokenizer: tokenizers.Tokenizer
) -> None:
    library = fast_library(tiny_model / "tokenizer.json", tokenizer)
    assert library is not None
    size = 64 * 1024
    library.remember(size)
    for i in range(200):
        library.ids(f"<|im_start|>{i} {'words and words ' * 100}<|im_end|>")
        assert library.counts()["cache_bytes"] <= size
    assert library.counts()["cache_misses"] >= 200
    library.remember(0)
    assert library.counts() == {}


# Six tokenizers of real models, each read once for all tests of a library.
NAMES = (
    "deepseek-v3",
    "gpt-oss",
    "mistral-spm-v3",
    "mistral-tekken-240911",
    "qwen3",
    "smollm2-135m-instruct",
)


class Real:
    """A real model's tokenizer in both libraries, and what it should make of texts."""

    def __init__(self, corpus: Path, name: str) -> None:
        self.name = name
        self.goldens = corpus / "tokenizers" / "goldens"
        tokenizer, source = read_tokenizer(corpus / "tokenizers" / name)
        fast = fast_library(source, tokenizer)
        assert fast is not None
        ends = ends_of(tokenizer)
        self.encoders = [Encoder(ReferenceLibrary(tokenizer), ends), Encoder(fast, ends)]
        self.fast = fast

    def rows(self, file: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.goldens / file).read_bytes().splitlines()]


@pytest.fixture(scope="module", params=NAMES)
def real(request: pytest.FixtureRequest, corpus: Path) -> Real:
    return Real(corpus, request.param)


@pytest.mark.long
@pytest.mark.corpus
def test_real_texts_have_their_ids(real: Real) -> None:
    rows = [row for row in real.rows(f"{real.name}.jsonl") if row["kind"] == "text"]
    assert len(rows) == 214
    for row in rows:
        # Without a list of its own, the tokenizer adds nothing.
        special = row["ids"] if row["ids_special"] is None else row["ids_special"]
        if special[:2] == [1, 1]:
            special = special[1:]  # Hugging Face doubles a first token that is there
        for encoder in real.encoders:
            assert encoder.encode(row["text"]).tolist() == row["ids"], row["text"]
            assert encoder.encode_raw(row["text"]).tolist() == special, row["text"]
    if real.name == "mistral-spm-v3":
        assert special[0] == 1 != row["ids"][0]


@pytest.mark.corpus
def test_real_conversations_have_their_ids(real: Real, corpus: Path) -> None:
    lines = (corpus / "chat_templates" / "goldens.jsonl").read_bytes().splitlines()
    texts = {
        (row["template"], row["case"], row["variant"]): row.get("expected")
        for row in map(json.loads, lines)
        if "5.24.0" in row["transformers"]
    }
    real.fast.remember(1 << 20)
    compared = 0
    for row in real.rows(f"chat_{real.name}.jsonl"):
        text = texts.get((row["template"], row["case"], row["variant"]))
        if text is None:
            continue
        for encoder in real.encoders:
            assert encoder.encode(text).tolist() == row["ids"], row["case"]
        compared += 1
    assert compared >= 33
    assert real.fast.counts()["cache_hits"] > 0
    real.fast.remember(0)


@pytest.mark.corpus
def test_a_real_text_with_its_first_token_gets_no_second(real: Real) -> None:
    for encoder in real.encoders:
        first = encoder.encode_raw("x").tolist()[: -len(encoder.encode("x")) or None]
        text = "<s>Hello" if real.name.startswith("mistral") else "Hello"
        ids = encoder.encode_raw(text).tolist()
        assert first == ([1] if real.name == "mistral-spm-v3" else [])
        assert ids.count(1) == (1 if real.name.startswith("mistral") else 0)
