"""Which encoding a model without a chat template has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglrouter.families.registry import KNOWN
from sglrouter.prompt.encodings.choice import encoding, encoding_name
from sglrouter.prompt.model_files import read_model_files
from tests.prompt.encodings.conversations import (
    folder,
)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("deepseek_v32", "deepseekv32"),
        ("deepseek_v4_preview", "deepseekv4"),
        ("deepseek_v4", "deepseekv4"),
        ("deepseek_v41", "deepseekv41"),
    ],
)
def test_parsers_are_told_by_the_encoding(name: str, calls: str) -> None:
    found = encoding(name)
    assert found is not None
    assert KNOWN.detect_tool_parser(found.source, set()) == calls
    assert KNOWN.detect_reasoning_parser(found.source, set()) == "deepseek-v3"


OFFICIAL = 'REASONING_EFFORT_PROMPTS = {"low": ""}\nDEFAULT_REASONING_EFFORT = "low"\n'


@pytest.mark.parametrize(
    ("config", "own_encoder", "wanted"),
    [
        ({"model_type": "deepseek_v32"}, None, "deepseek_v32"),
        ({"architectures": ["DeepseekV32ForCausalLM"]}, None, "deepseek_v32"),
        ({"model_type": "deepseek_v4"}, None, "deepseek_v4_preview"),
        ({"model_type": "deepseek_v4"}, "MAX = 1", "deepseek_v4_preview"),
        ({"model_type": "deepseek_v4"}, OFFICIAL, "deepseek_v4"),
        ({"architectures": ["DeepseekV4ForCausalLM"]}, OFFICIAL, "deepseek_v4"),
        (
            {"model_type": "deepseek_v4", "dsv4_reasoning_effort_profile": "official"},
            None,
            "deepseek_v4",
        ),
        (
            {"model_type": "deepseek_v41", "architectures": ["DeepseekV4ForCausalLM"]},
            None,
            "deepseek_v41",
        ),
        ({"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]}, None, ""),
        ({"model_type": "qwen3", "architectures": None}, None, ""),
        ({"model_type": 4, "architectures": [None, 3]}, None, ""),
        ({}, None, ""),
    ],
)
def test_the_configuration_chooses(
    tmp_path: Path, config: dict[str, Any], own_encoder: str | None, wanted: str
) -> None:
    assert read_model_files(folder(tmp_path, config, own_encoder)).encoding == wanted


@pytest.mark.parametrize("content", [b"\xff\xfe", b" " * (1 << 20) + OFFICIAL.encode()])
def test_an_own_encoder_that_says_nothing_is_no_official_one(
    tmp_path: Path, content: bytes
) -> None:
    config = {"model_type": "deepseek_v4"}
    path = folder(tmp_path, config, "") / "encoding" / "encoding_dsv4.py"
    path.write_bytes(content)
    assert encoding_name(config, tmp_path) == "deepseek_v4_preview"
    # The configuration's word counts more than the file.
    profile = {**config, "dsv4_reasoning_effort_profile": "official"}
    assert encoding_name(profile, tmp_path) == "deepseek_v4"
    path.write_text(OFFICIAL)
    profile["dsv4_reasoning_effort_profile"] = "preview"
    assert encoding_name(profile, tmp_path) == "deepseek_v4_preview"


@pytest.mark.parametrize(
    "name", ["deepseek_v320", "deepseek_v3", "my_deepseek_v4", "deepseek_v42", "v4", ""]
)
def test_names_that_are_only_like_one_choose_none(tmp_path: Path, name: str) -> None:
    assert encoding_name({"model_type": name}, tmp_path) == ""
    assert encoding_name({"architectures": [name]}, tmp_path) == ""
    assert encoding(name) is None


def test_each_name_that_a_configuration_chooses_has_its_encoding(tmp_path: Path) -> None:
    sources = set()
    for model_type in ("DeepseekV32", "deepseek_v4", "DEEPSEEK_V41ForCausalLM"):
        chosen = encoding(encoding_name({"model_type": model_type}, tmp_path))
        assert chosen is not None
        sources.add(chosen.source)
    assert len(sources) == 3
