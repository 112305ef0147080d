"""Text to ids, with the model's own tokenizer."""

from __future__ import annotations

from pathlib import Path

import tokenizers

from sglrouter.errors import ConfigError


def load_tokenizer(directory: Path) -> tokenizers.Tokenizer:
    """Loads tokenizer.json from a model folder.

    Raises:
        ConfigError: The file is missing or is not a tokenizer.
    """
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"tokenizer: there is no {path}")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as exc:  # the library raises bare Exception
        raise ConfigError(f"{path}: not a tokenizer: {exc}") from exc
    # Some files carry the training set-up; a prompt is never cut or padded.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def vocabulary_size(tokenizer: tokenizers.Tokenizer) -> int:
    """One more than the largest id that the tokenizer can produce."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
