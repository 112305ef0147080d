"""LoRA adapters by name, and none but those the operator knows."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.schema.chat import ChatRequest
from sglrouter.serving.adapters import adapter_id, parse_adapters

ADAPTERS = {"sql": "0123abcd", "law": "law"}


def chosen(adapters: dict[str, str] = ADAPTERS, **fields: Any) -> str:
    return adapter_id(ChatRequest(messages=[], **fields), adapters)


def test_settings() -> None:
    assert parse_adapters(["sql=0123abcd", "law"]) == ADAPTERS
    assert parse_adapters(["a=b=c"]) == {"a": "b=c"}
    assert parse_adapters([]) == {}


@pytest.mark.parametrize("texts", [["=x"], ["x="], [""], ["="], ["a=1", "a=2"]])
def test_wrong_settings(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match="lora_adapters"):
        parse_adapters(texts)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, ""),
        ({"lora_path": ""}, ""),
        ({"lora_path": "sql"}, "0123abcd"),
        ({"model": "base:sql"}, "0123abcd"),
        ({"model": "base:sql", "lora_path": "law"}, "law"),
        ({"model": "sql"}, ""),
        ({"model": "base:7b"}, ""),
        ({"model": "base:sql:x"}, ""),
    ],
)
def test_by_name(fields: dict[str, Any], wanted: str) -> None:
    assert chosen(**fields) == wanted


@pytest.mark.parametrize("name", ["other", "0123abcd", "SQL", "sql ", "x" * 10**6])
def test_another_name_never_reaches_an_engine(name: str) -> None:
    for adapters in (ADAPTERS, {}):
        with pytest.raises(BadRequest) as raised:
            chosen(adapters, lora_path=name)
        error = raised.value
        assert (error.param, error.code) == ("lora_path", "adapter_not_found")
        assert len(error.message) < 200
