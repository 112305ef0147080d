"""A tokenizer from vocab.json and merges.txt, the files of GPT-2's byte-level BPE.

The two files hold the vocabulary, but not how text is normalised and split: that is in
the class that tokenizer_config.json names. What is built here is what Hugging Face transformers
builds for the classes below; for others the files are not enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from sglrouter.errors import ConfigError

# How Qwen2 and its successors cut a text: English endings, words with the sign before
# them, single digits, signs, line ends, white space.
_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_END_OF_TEXT = "<|endoftext|>"

# The special tokens of each class where tokenizer_config.json says nothing about them.
CLASSES = {
    "GPT2Tokenizer": dict.fromkeys(("bos_token", "eos_token", "unk_token"), _END_OF_TEXT),
    "Qwen2Tokenizer": dict.fromkeys(("eos_token", "unk_token", "pad_token"), _END_OF_TEXT),
}


def has_vocabulary_files(directory: Path) -> bool:
    """Whether a folder holds both files."""
    return all((directory / name).is_file() for name in ("vocab.json", "merges.txt"))


def class_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """tokenizer_config.json, with what its class says where it says nothing."""
    return {**CLASSES.get(_class_name(config), {}), **config}


def _class_name(config: Mapping[str, Any]) -> str:
    return str(config.get("tokenizer_class") or "").removesuffix("Fast")


def read_vocabulary_files(directory: Path, config: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Builds the tokenizer; the tokens that the configuration adds are not in it yet.

    Args:
        directory: The folder that holds both files.
        config: tokenizer_config.json.

    Raises:
        ConfigError: The files are wrong, or not enough for this class.
    """
    kind = _class_name(config)
    if kind not in CLASSES:
        raise ConfigError(
            f"tokenizer: {directory} has no tokenizer.json, and vocab.json with merges.txt is "
            f"enough only if tokenizer_config.json says that tokenizer_class is one of "
            f"{', '.join(sorted(CLASSES))}, not {config.get('tokenizer_class')!r}"
        )
    try:
        model = models.BPE.from_file(
            str(directory / "vocab.json"),
            str(directory / "merges.txt"),
            continuing_subword_prefix="",
            end_of_word_suffix="",
            fuse_unk=False,
        )
    except Exception as exc:  # the library raises bare Exception
        raise ConfigError(
            f"tokenizer: {directory}: vocab.json and merges.txt do not fit: {exc}"
        ) from exc
    tokenizer = tokenizers.Tokenizer(model)
    prefix = bool(config.get("add_prefix_space"))
    if kind == "Qwen2Tokenizer":
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(_QWEN2_SPLIT), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False),
            ]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def add_ends(tokenizer: tokenizers.Tokenizer, config: Mapping[str, Any]) -> None:
    """Has raw text begin and end with the tokens that the configuration asks for."""
    ends = {}
    for name in ("bos_token", "eos_token"):
        token = config.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        if config.get(f"add_{name}") and isinstance(token, str):
            ends[name] = token
    if ends:
        first, last = ends.get("bos_token"), ends.get("eos_token")
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[*([first] if first else []), "$A", *([last] if last else [])],
            special_tokens=[(token, tokenizer.token_to_id(token)) for token in set(ends.values())],
        )
