"""The model's own tokenizer, from whichever files it comes in.

tokenizer.json says everything. Where it is missing, vocab.json and merges.txt do for
the classes whose other parts are known (sglrouter.prompt.vocabulary_files). Any other
set of files, tiktoken's and SentencePiece's among them, leaves something out that only
the model's own code knows, such as how text is split: it is refused, with a line on
how to make a tokenizer.json.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from sglrouter.errors import ConfigError
from sglrouter.prompt.model_files import read_json_object
from sglrouter.prompt.vocabulary_files import (
    CLASSES,
    add_ends,
    class_defaults,
    has_vocabulary_files,
    read_vocabulary_files,
)

logger = logging.getLogger(__name__)

# Kinds of files that are not enough, and how each is converted.
_OTHER_FILES = {
    "tiktoken vocabulary": ("*.tiktoken", "tiktoken.model"),
    "SentencePiece model": ("tokenizer.model", "*.spm", "spiece.model", "sentencepiece*.model"),
    "Mistral tokenizer": ("tekken.json",),
}
_HOW_TO = (
    "make a tokenizer.json with transformers: "
    "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)
_HOW_TO_TIKTOKEN = (
    "its split pattern is in the model's code; make a tokenizer.json with "
    "transformers.integrations.tiktoken.convert_tiktoken_to_fast(ENCODING, FOLDER)"
)

_FLAGS = ("lstrip", "rstrip", "normalized", "single_word", "special")

# The named special tokens of tokenizer_config.json.
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")


class LoadedTokenizer(NamedTuple):
    """A tokenizer, and what another library can read the same one from.

    Attributes:
        tokenizer: The reference library's.
        source: A tokenizer.json, or the text of one.
    """

    tokenizer: tokenizers.Tokenizer
    source: Path | str


def load_tokenizer(directory: Path) -> tokenizers.Tokenizer:
    """Loads the tokenizer of a model folder; see read_tokenizer()."""
    return read_tokenizer(directory).tokenizer


def read_tokenizer(directory: Path) -> LoadedTokenizer:
    """Loads the tokenizer of a model folder.

    Raises:
        ConfigError: The files are missing, wrong or not enough.
    """
    path = directory / "tokenizer.json"
    config: Mapping[str, Any] = read_json_object(directory / "tokenizer_config.json")
    if path.is_file():
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as exc:  # the library raises bare Exception
            raise ConfigError(f"{path}: not a tokenizer: {exc}") from exc
        changed = _add_declared_tokens(tokenizer, config)
    elif has_vocabulary_files(directory):
        tokenizer = read_vocabulary_files(directory, config)
        config = class_defaults(config)
        _add_declared_tokens(tokenizer, config)
        add_ends(tokenizer, config)
        changed = True
    else:
        raise ConfigError(_what_is_missing(directory))
    # Some files carry the training set-up; a prompt is never cut or padded.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return LoadedTokenizer(tokenizer, tokenizer.to_str() if changed else path)


def vocabulary_size(vocabulary: Mapping[str, int]) -> int:
    """One more than the largest id that a tokenizer of this vocabulary can produce."""
    return max(vocabulary.values(), default=-1) + 1


def _what_is_missing(directory: Path) -> str:
    wanted = f"tokenizer: there is no {directory / 'tokenizer.json'}"
    if (directory / "vocab.json").is_file():
        return f"{wanted}, and vocab.json needs merges.txt beside it; {_HOW_TO}"
    for kind, patterns in _OTHER_FILES.items():
        found = sorted(path.name for pattern in patterns for path in directory.glob(pattern))
        if found:
            how_to = _HOW_TO_TIKTOKEN if kind.startswith("tiktoken") else _HOW_TO
            return f"{wanted}, and {found[0]}, a {kind}, is not enough: {how_to}"
    return f"{wanted}, nor vocab.json and merges.txt of {' or '.join(sorted(CLASSES))}"


def _add_declared_tokens(tokenizer: tokenizers.Tokenizer, config: Mapping[str, Any]) -> bool:
    """Adds tokens that only tokenizer_config.json has.

    Hugging Face adds every name to the vocabulary. Here none gets an id that the model was
    not made with: such an id ends an engine, and the name is text to the model anyway.

    Returns:
        Whether there were any.
    """
    known: dict[str, tuple[int | None, tuple[bool, ...]]] = {
        token.content: (token_id, _flags(token))
        for token_id, token in tokenizer.get_added_tokens_decoder().items()
    }
    changed = False
    for token_id, token in _declared_tokens(config):
        if token.content not in known or (
            # Without an id it is named only, and that changes no flags.
            token_id is not None and known[token.content] != (token_id, _flags(token))
        ):
            there = tokenizer.token_to_id(token.content)
            found = _next_id(tokenizer) if there is None and token_id is not None else there
            if token_id not in (None, found):
                logger.warning(
                    "tokenizer: tokenizer_config.json calls %r token %d, but it is %s",
                    token.content,
                    token_id,
                    "unknown to tokenizer.json" if there is None else there,
                )
            if found is None or (there is None and found != token_id):
                continue
            tokenizer.add_tokens([token])
            known[token.content] = (found, _flags(token))
            changed = True
    return changed


def _next_id(tokenizer: tokenizers.Tokenizer) -> int:
    """The id that the library would give to a new token."""
    size = tokenizer.get_vocab_size(with_added_tokens=False)
    return max([size - 1, *tokenizer.get_added_tokens_decoder()]) + 1


def _declared_tokens(
    config: Mapping[str, Any],
) -> Iterator[tuple[int | None, tokenizers.AddedToken]]:
    declared = config.get("added_tokens_decoder")
    if isinstance(declared, dict):
        numbered = {int(key): value for key, value in declared.items() if key.isdecimal()}
        for token_id, value in sorted(numbered.items()):
            if isinstance(value, dict) and isinstance(value.get("content"), str):
                flags = {flag: bool(value.get(flag, False)) for flag in _FLAGS}
                yield token_id, tokenizers.AddedToken(value["content"], **flags)
    extra = config.get("additional_special_tokens")
    for value in [*map(config.get, _NAMED), *(extra if isinstance(extra, list) else [])]:
        if isinstance(value, str) and value:
            yield None, tokenizers.AddedToken(value, special=True)
        elif isinstance(value, dict) and isinstance(value.get("content"), str):
            flags = {flag: bool(value.get(flag, False)) for flag in _FLAGS}
            yield None, tokenizers.AddedToken(value["content"], **{**flags, "special": True})


def _flags(token: tokenizers.AddedToken) -> tuple[bool, ...]:
    return tuple(bool(getattr(token, flag)) for flag in _FLAGS)
