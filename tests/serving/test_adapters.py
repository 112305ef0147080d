"""LoRA adapters by name, and none but those the operator knows."""

from __future__ import annotations

import pytest

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.serving.adapters import adapter_id, parse_adapters

ADAPTERS = {"sql": "0123abcd", "law": "law"}


def test_settings() -> None:
    assert parse_adapters(["sql=0123abcd", "law"]) == ADAPTERS
    assert parse_adapters(["a=b=c"]) == {"a": "b=c"}
    assert parse_adapters([]) == {}


@pytest.mark.parametrize("texts", [["=x"], ["x="], [""], ["="], ["a=1", "a=2"]])
def test_wrong_settings(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match="lora_adapters"):
        parse_adapters(texts)


def test_by_name() -> None:
    assert adapter_id("sql", ADAPTERS) == "0123abcd"
    assert adapter_id("law", ADAPTERS) == "law"


@pytest.mark.parametrize("name", ["other", "0123abcd", "SQL", "sql ", "x" * 10**6])
def test_another_name_never_reaches_an_engine(name: str) -> None:
    for adapters in (ADAPTERS, {}):
        with pytest.raises(BadRequest) as raised:
            adapter_id(name, adapters)
        error = raised.value
        assert (error.param, error.code) == ("lora_path", "adapter_not_found")
        assert len(error.message) < 200
