"""Conversations, and prompts of them by each encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from sglrouter.prompt.conversation import PromptBuilder, PromptOptions
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.encodings.choice import encoding
from sglrouter.prompt.model_files import read_model_files
from tests.output import models
from tests.prompt.ample import ample

NAMES = ("deepseek_v32", "deepseek_v4_preview", "deepseek_v4", "deepseek_v41")
V4 = NAMES[1:]
BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
USER, BOT = "<｜User｜>", "<｜Assistant｜>"

TOOL = {
    "type": "function",
    "function": {"name": "get", "description": "é", "parameters": {"type": "object"}},
}


def message(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def call(name: str, arguments: Any, call_id: str = "c") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


ASKED = [message("system", "Be brief."), message("user", "hi")]
TWICE = [*ASKED, message("assistant", "yo", reasoning_content="why"), message("user", "more")]
CALLED = [
    *ASKED,
    message(
        "assistant",
        "Let me see.",
        reasoning_content="hm",
        tool_calls=[
            call("get", {"city": "Köln", "n": [1, 2.0, {"x": None}], "on": True}, "a"),
            call("get", {}, "b"),
        ],
    ),
    message("tool", "second", tool_call_id="b"),
    message("tool", "first", tool_call_id="a"),
]


def render(name: str, messages: Any, tools: Any = None, **kwargs: Any) -> str:
    found = encoding(name)
    assert found is not None
    return found.render(messages, tools, ample(), kwargs=kwargs)


SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
STRICTLY = "## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
ONLY_JSON = (
    "You are a helpful assistant designed to output JSON.\n"
    "## Response Format:\n\nReply with JSON object ONLY."
)


def folder(tmp_path: Path, config: dict[str, Any], own_encoder: str | None = None) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if own_encoder is not None:
        (tmp_path / "encoding").mkdir()
        (tmp_path / "encoding" / "encoding_dsv4.py").write_text(own_encoder)
    return tmp_path


def with_markers() -> Tokenizer:
    tokenizer = models.byte_level()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in (BOS, EOS, USER, BOT)])
    tokenizer.add_tokens([AddedToken(text, special=False) for text in ("<think>", "</think>")])
    return tokenizer


def builder(tmp_path: Path, *, text_only: bool = False, **options: Any) -> PromptBuilder:
    files = read_model_files(folder(tmp_path, {"model_type": "deepseek_v32"}))
    tokenizer = with_markers()
    return PromptBuilder(
        files,
        reference_encoder(tokenizer),
        PromptOptions(**options),
        tokenizer if text_only else None,
    )
