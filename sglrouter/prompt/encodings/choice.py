"""Which encoding a model without a chat template has, by its config.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglrouter.prompt.encodings.deepseek_v4 import OFFICIAL, PREVIEW, V41, DeepseekV4
from sglrouter.prompt.encodings.deepseek_v32 import DeepseekV32
from sglrouter.prompt.encodings.encoding import Encoding

_ENCODINGS: dict[str, Encoding] = {
    "deepseek_v32": DeepseekV32(),
    "deepseek_v4_preview": DeepseekV4(PREVIEW),
    "deepseek_v4": DeepseekV4(OFFICIAL),
    "deepseek_v41": DeepseekV4(V41),
}

# Folders of DeepSeek V4 bring their own encoder in Python. It is not run, but tells which
# efforts the checkpoint was trained with.
_OWN_ENCODER = Path("encoding") / "encoding_dsv4.py"
_LARGEST_ENCODER = 1 << 20


def encoding_name(config: Mapping[str, Any], directory: Path) -> str:
    """The name of a model's encoding; empty if there is none for it.

    Args:
        config: Its config.json.
        directory: Its folder.
    """
    architectures = config.get("architectures")
    names = [config.get("model_type"), *(architectures if isinstance(architectures, list) else ())]
    families = {str(name).lower().replace("_", "") for name in names}

    def is_of(family: str) -> bool:
        return any(name == family or name.startswith(f"{family}for") for name in families)

    if is_of("deepseekv32"):
        return "deepseek_v32"
    # V4.1 may go by V4's architecture.
    if is_of("deepseekv41"):
        return "deepseek_v41"
    if is_of("deepseekv4"):
        return "deepseek_v4" if _is_official(config, directory) else "deepseek_v4_preview"
    return ""


def encoding(name: str) -> Encoding | None:
    """The encoding of that name; None for an empty one."""
    return _ENCODINGS.get(name)


def _is_official(config: Mapping[str, Any], directory: Path) -> bool:
    profile = config.get("dsv4_reasoning_effort_profile")
    if profile is not None:
        return bool(profile == "official")
    try:
        with (directory / _OWN_ENCODER).open(encoding="utf-8") as file:
            text = file.read(_LARGEST_ENCODER)
    except (OSError, UnicodeDecodeError):
        return False
    return "REASONING_EFFORT_PROMPTS" in text and "DEFAULT_REASONING_EFFORT" in text
