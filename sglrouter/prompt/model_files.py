"""What a model's own files say about it.

config.json, generation_config.json and tokenizer_config.json are the truth about eos
ids, vocabulary, context and sampling defaults; engines report some of these as
constants. Any of the files may be missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from sglrouter.errors import ConfigError
from sglrouter.prompt.encodings.choice import encoding_name

# What generation_config.json may set and a request may leave out.
SAMPLING_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")

# Names that configurations use for the context length, the most specific first.
_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)

# Tokenizers without a limit say so with a number like 1e30.
_NO_LIMIT = 10**9

# Where Hugging Face keeps templates for special cases, and where it once did.
_TEMPLATE_FOLDERS = ("chat_templates", "additional_chat_templates")

_SPECIAL_TOKENS = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


class ModelFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one model folder.

    Attributes:
        directory: Where the files are.
        name: The folder's name.
        eos_ids: Ids that end a text, from both configurations; may be empty.
        vocab_size: Size of the embedding table, 0 if no file tells. Ids from here on
            kill an engine.
        context_length: Prompt and answer together, in tokens; 0 if no file tells.
        sampling_defaults: What generation_config.json recommends.
        special_tokens: The tokenizer's named special tokens, as text.
        chat_templates: Jinja sources by name; "default" is the usual one.
        encoding: The built-in encoding that stands in where there are none; may be empty.
    """

    directory: Path
    name: str
    eos_ids: frozenset[int]
    vocab_size: int
    context_length: int
    sampling_defaults: Mapping[str, float]
    special_tokens: Mapping[str, Any]
    chat_templates: Mapping[str, str]
    encoding: str = ""


def read_model_files(directory: Path) -> ModelFiles:
    """Reads a model folder.

    Raises:
        ConfigError: There is no such folder, or a file in it is not valid JSON.
    """
    if directory.is_file() and directory.name == "tokenizer.json":
        directory = directory.parent
    if not directory.is_dir():
        raise ConfigError(f"tokenizer: there is no folder {directory}")
    config = read_json_object(directory / "config.json")
    text_config = config.get("text_config")
    if not isinstance(text_config, dict):
        text_config = {}
    generation = read_json_object(directory / "generation_config.json")
    tokenizer = read_json_object(directory / "tokenizer_config.json")
    return ModelFiles(
        directory=directory,
        name=directory.resolve().name,
        eos_ids=frozenset(
            _ids(config.get("eos_token_id"))
            + _ids(text_config.get("eos_token_id"))
            + _ids(generation.get("eos_token_id"))
        ),
        vocab_size=_integer(config, "vocab_size") or _integer(text_config, "vocab_size"),
        context_length=_context_length(config, text_config, tokenizer),
        sampling_defaults={
            key: generation[key] for key in SAMPLING_DEFAULTS if _is_number(generation.get(key))
        },
        special_tokens=_special_tokens(
            tokenizer, read_json_object(directory / "special_tokens_map.json")
        ),
        chat_templates=_chat_templates(directory, tokenizer),
        encoding=encoding_name(config, directory),
    )


def read_json_object(path: Path) -> dict[str, Any]:
    """Reads a JSON file of a model folder; an empty object where there is none.

    Raises:
        ConfigError: It cannot be read, or holds anything else.
    """
    try:
        # Not msgspec: Python wrote these files, and writes Infinity where it means it.
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{path}: not valid JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: not a JSON object")
    return found


def _is_number(value: object) -> TypeGuard[int | float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -math.inf < value < math.inf


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if _is_number(item) and isinstance(item, int) and item >= 0]


def _integer(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key)
    return value if _is_number(value) and isinstance(value, int) and value > 0 else 0


def _context_length(*sources: Mapping[str, Any]) -> int:
    for source in sources:
        for key in _CONTEXT_KEYS:
            value = source.get(key)
            if _is_number(value) and 1 <= value < _NO_LIMIT:
                return int(value)
    return 0


def _special_tokens(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens that templates may name; the first source wins."""
    found: dict[str, Any] = {}
    for source in sources:
        for key in _SPECIAL_TOKENS:
            text = _token_text(source.get(key))
            if text is not None:
                found.setdefault(key, text)
        extra = source.get("additional_special_tokens")
        if isinstance(extra, list):
            texts = [text for item in extra if (text := _token_text(item)) is not None]
            found.setdefault("additional_special_tokens", texts)
    return found


def _token_text(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _chat_templates(directory: Path, tokenizer: Mapping[str, Any]) -> dict[str, str]:
    """Finds the templates where Hugging Face looks for them, a file before a field."""
    legacy = read_json_object(directory / "chat_template.json").get("chat_template")
    fields = {**_declared(legacy), **_declared(tokenizer.get("chat_template"))}
    files: dict[str, str] = {}
    for folder in _TEMPLATE_FOLDERS:
        for path in sorted((directory / folder).glob("*.jinja")):
            files[path.stem] = _read_template(path)
    single = directory / "chat_template.jinja"
    if single.is_file():
        files["default"] = _read_template(single)
    # A file for all conversations also replaces the field's template for tools.
    return files if "default" in files else {**fields, **files}


def _declared(value: object) -> dict[str, str]:
    """The templates of a field: one, or a list of them with names."""
    if isinstance(value, str):
        return {"default": value}
    if not isinstance(value, list):
        return {}
    return {
        str(item.get("name", "default")): item["template"]
        for item in value
        if isinstance(item, dict) and isinstance(item.get("template"), str)
    }


def read_template_file(path: Path) -> dict[str, str]:
    """Reads templates from one file: Jinja, or JSON with the field chat_template.

    Raises:
        ConfigError: There is no such file, or no template in it.
    """
    if not path.is_file():
        raise ConfigError(f"chat_template: there is no file {path}")
    if path.suffix != ".json":
        return {"default": _read_template(path)}
    found = _declared(read_json_object(path).get("chat_template"))
    if not found:
        raise ConfigError(f"chat_template: {path} has no field chat_template with a template")
    return found


def _read_template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8: {exc}") from exc
