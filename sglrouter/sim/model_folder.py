"""A model folder as an engine reads it: sizes, special ids, tokenizer, archive.

Facts come from the JSON files that every model has; nothing of the weights is needed.
Folders are loaded once a process, as tests start engines by the dozen.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

SAMPLING_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

_ARCHIVE_NAMES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
    "generation_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "tiktoken.model",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)
_ARCHIVE_PATTERNS = ("*.tiktoken", "*.jinja", "*.model")

# One date for every archive entry: the same folder gives the same bytes.
_ARCHIVE_DATE = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class ModelFolder:
    """What an engine knows of its model."""

    path: Path
    config: dict[str, Any]
    generation_config: dict[str, Any]
    tokenizer: Tokenizer

    @classmethod
    def load(cls, path: Path) -> ModelFolder:
        """Reads a folder; OSError or ValueError when a file is missing or broken."""
        return _load(path.resolve())

    @cached_property
    def vocab_size(self) -> int:
        """The rows of the embedding table: ids from here on kill an engine."""
        return int(self._text_config["vocab_size"])

    @cached_property
    def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        return int(self._text_config.get("max_position_embeddings", 4096))

    @cached_property
    def embedding_size(self) -> int:
        """The length of an embedding; of a classifier's, how many labels it has."""
        if self._classifies:
            return len(self.labels)
        return int(self._text_config.get("hidden_size", 64))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels by their numbers: two without meaning unless config.json has others."""
        return self.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}

    @property
    def _classifies(self) -> bool:
        names = self.config.get("architectures") or []
        return any("SequenceClassification" in name for name in names)

    @cached_property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids that end an answer, the preferred one first."""
        ids: dict[int, None] = {}
        for source in (self.generation_config, self._text_config, self.config):
            value = source.get("eos_token_id")
            for token in value if isinstance(value, list) else [value]:
                if token is not None:
                    ids[int(token)] = None
        return tuple(ids)

    @cached_property
    def ordinary_ids(self) -> tuple[int, ...]:
        """The ids of the vocabulary that are no special tokens."""
        special = {
            token
            for token, added in self.tokenizer.get_added_tokens_decoder().items()
            if added.special
        }
        known = self.tokenizer.get_vocab(with_added_tokens=True).values()
        return tuple(sorted(set(known) - special)) or (0,)

    @cached_property
    def sampling_defaults(self) -> dict[str, Any]:
        """The sampling values of generation_config.json that an engine reports."""
        given = self.generation_config
        return {name: given[name] for name in SAMPLING_DEFAULTS if given.get(name) is not None}

    @cached_property
    def archive(self) -> tuple[bytes, str]:
        """The tokenizer files as a ZIP, and the hex SHA-256 of it."""
        names = [name for name in _ARCHIVE_NAMES if (self.path / name).is_file()]
        for pattern in _ARCHIVE_PATTERNS:
            names += sorted(
                found.name for found in self.path.glob(pattern) if found.name not in names
            )
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                entry = zipfile.ZipInfo(name, _ARCHIVE_DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, (self.path / name).read_bytes())
        data = buffer.getvalue()
        return data, hashlib.sha256(data).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without the tokens that a tokenizer adds around a prompt."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: list[int]) -> str:
        """The text of some ids, special tokens included."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=False))

    @property
    def _text_config(self) -> dict[str, Any]:
        # Multimodal models keep the language model's sizes one level down.
        nested = self.config.get("text_config")
        return nested if isinstance(nested, dict) and "vocab_size" in nested else self.config


@lru_cache(maxsize=16)
def _load(path: Path) -> ModelFolder:
    generation = path / "generation_config.json"
    return ModelFolder(
        path=path,
        config=json.loads((path / "config.json").read_text("utf-8")),
        generation_config=json.loads(generation.read_text("utf-8")) if generation.exists() else {},
        tokenizer=Tokenizer.from_file(str(path / "tokenizer.json")),
    )
