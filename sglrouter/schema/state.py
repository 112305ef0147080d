"""What answers look like that tell of models, tokens and engines; see responses.py."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType


class ModelCard(msgspec.Struct, forbid_unknown_fields=True):
    """A name that requests may ask for."""

    id: str
    object: Literal["model"]
    created: Annotated[int, Meta(description="Unix time in seconds.")]
    owned_by: str
    root: Annotated[str, Meta(description="Where its engine found it.")]
    parent: Annotated[str | None, Meta(description="The model that a LoRA adapter is for.")]
    max_model_len: Annotated[int | None, Meta(description="The context, in tokens.")]
    max_input_tokens: Annotated[int | None, Meta(description="The longest prompt, in tokens.")]
    vocab_size: int
    eos_token_ids: list[int]
    aliases: Annotated[list[str], Meta(description="Its other names.")]


class ModelCards(msgspec.Struct, forbid_unknown_fields=True):
    """The model and its LoRA adapters."""

    object: Literal["list"]
    data: list[ModelCard]


class Tokenized(msgspec.Struct, forbid_unknown_fields=True):
    """Ids of one text or conversation, or of a list of texts: then all fields are lists."""

    tokens: list[int | list[int]]
    count: int | list[int]
    max_model_len: Annotated[int, Meta(description="The context, in tokens; -1 if unknown.")]
    char_count: int | list[int]
    token_strs: list[str | list[str]] | UnsetType = UNSET


class Detokenized(msgspec.Struct, forbid_unknown_fields=True):
    """The text of ids, or the texts of lists of them."""

    text: str | list[str]
    prompt: Annotated[str | UnsetType, Meta(description="The same, where it is one text.")] = UNSET


class EngineReplies(msgspec.Struct):
    """What engines say; what a single one says is also at the top."""

    engines: Annotated[
        list[dict[str, Any]],
        Meta(description="Each with its `endpoint`, and an `error` where it did not answer."),
    ]


class EngineOutcome(msgspec.Struct, forbid_unknown_fields=True):
    """What an engine did."""

    endpoint: str
    message: Annotated[str, Meta(description="Its own words.")]


class EngineOutcomes(msgspec.Struct, forbid_unknown_fields=True):
    """That all engines did what they were told."""

    success: Literal[True]
    engines: list[EngineOutcome]


class RouterVersion(msgspec.Struct, forbid_unknown_fields=True):
    """The version of the router."""

    version: str
