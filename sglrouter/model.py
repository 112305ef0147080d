"""The model that the engines serve, as the router needs it: loaded once, before the fork."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from sglrouter.config import Settings
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.prompt.conversation import PromptBuilder
from sglrouter.prompt.fast_tokenizer import fast_encoder
from sglrouter.prompt.model_files import ModelFiles, read_model_files
from sglrouter.prompt.tokenizer import load_tokenizer, vocabulary_size


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Everything made from a model's files.

    Attributes:
        name: What the operator calls it; empty if the files came from an engine and
            nobody has said.
        created: Unix time of loading, in seconds.
        files: What the files say.
        vocab_size: Ids from here on do not exist.
        context_length: In tokens; 0 if unknown.
        prompts: Conversation to ids.
        detokenizers: Ids to text.
    """

    name: str
    created: int
    files: ModelFiles
    vocab_size: int
    context_length: int
    prompts: PromptBuilder
    detokenizers: DetokenizerFactory


def load_model(settings: Settings, directory: Path) -> Model:
    """Loads a model's tokenizer, template and facts.

    Args:
        settings: Names and overrides.
        directory: The folder with the model's files.

    Raises:
        ConfigError: A file is missing or wrong.
    """
    files = read_model_files(directory)
    tokenizer = load_tokenizer(files.directory)
    return Model(
        # A folder in the cache is named by a digest.
        name=settings.model_name or (files.name if settings.tokenizer else ""),
        created=int(time.time()),
        files=files,
        vocab_size=files.vocab_size or vocabulary_size(tokenizer),
        context_length=settings.context_length or files.context_length,
        prompts=PromptBuilder(
            files,
            fast_encoder(files.directory / "tokenizer.json", tokenizer) or tokenizer,
            Path(settings.chat_template) if settings.chat_template else None,
        ),
        detokenizers=DetokenizerFactory(tokenizer),
    )
