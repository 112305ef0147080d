"""The names that a request may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.config import Settings
from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import BadRequest, ConfigError
from sglrouter.schema.chat import ChatRequest
from sglrouter.serving.models import MAX_MODEL_NAME, Models

ADAPTERS = ["sql=0123abcd", "law"]
TOLD = EngineFacts(served_model_name="served", model_path="/models/folder")
GUESSED = EngineFacts(model_path="/models/folder")


def models(folder: str = "folder", **settings: Any) -> Models:
    return Models(Settings(**{"lora_adapters": ADAPTERS} | settings), folder)


def asked(these: Models, facts: EngineFacts = GUESSED, **fields: Any) -> str:
    return these.adapter(ChatRequest(messages=[], **fields), facts)


def refusal(these: Models, facts: EngineFacts = GUESSED, **fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        asked(these, facts, **fields)
    return raised.value


@pytest.mark.parametrize(
    ("settings", "folder", "facts", "name"),
    [
        ({"model_name": "mine"}, "folder", TOLD, "mine"),
        ({}, "folder", TOLD, "served"),
        ({}, "folder", GUESSED, "folder"),
        ({}, "", GUESSED, "folder"),
        ({}, "files", GUESSED, "files"),
        ({}, "", EngineFacts(), "default"),
        # Newer engines might fill it in with what it would be.
        ({}, "files", EngineFacts(served_model_name="/m/x", model_path="/m/x"), "files"),
    ],
)
def test_who_names_the_model(
    settings: dict[str, Any], folder: str, facts: EngineFacts, name: str
) -> None:
    assert models(folder, **settings).name(facts) == name


@pytest.mark.parametrize(
    ("settings", "facts", "refused"),
    [
        ({}, GUESSED, False),
        ({}, TOLD, True),
        ({}, EngineFacts(), False),
        ({"model_name": "mine"}, GUESSED, True),
        ({"unknown_models": "refuse"}, GUESSED, True),
        ({"unknown_models": "accept"}, TOLD, False),
        ({"unknown_models": "accept", "model_name": "mine"}, TOLD, False),
    ],
)
@pytest.mark.parametrize("name", ["gpt-9", "other:unknown", "x" * MAX_MODEL_NAME, " served"])
def test_other_names(
    settings: dict[str, Any], facts: EngineFacts, refused: bool, name: str
) -> None:
    these = models(**settings)
    if not refused:
        assert asked(these, facts, model=name) == ""
        return
    error = refusal(these, facts, model=name)
    assert (error.status, error.type, error.code, error.param) == (
        404,
        "invalid_request_error",
        "model_not_found",
        "model",
    )
    assert error.message.startswith(f"The model `{name[:100]}")
    assert "does not exist" in error.message
    for known in (these.name(facts), "default", "sql", "law"):
        assert known in error.message
    assert len(error.message) < 400


def test_an_error_does_not_list_a_thousand_names() -> None:
    these = models(model_name="mine", lora_adapters=[f"adapter-{i}" for i in range(1000)])
    message = refusal(these, model="x").message
    assert "adapter-17 and 982 more" in message
    assert "adapter-18" not in message


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, ""),
        ({"model": None}, ""),
        ({"model": ""}, ""),
        ({"model": "mine"}, ""),
        ({"model": "default"}, ""),
        ({"model": "also"}, ""),
        ({"model": "sql"}, "0123abcd"),
        ({"model": "mine:sql"}, "0123abcd"),
        ({"model": "also:law"}, "law"),
        ({"lora_path": ""}, ""),
        ({"lora_path": "sql"}, "0123abcd"),
        ({"model": "mine", "lora_path": "law"}, "law"),
        ({"model": "mine:sql", "lora_path": "law"}, "0123abcd"),
    ],
)
def test_known_names(fields: dict[str, Any], wanted: str) -> None:
    for unknown in ("auto", "refuse", "accept"):
        these = models(model_name="mine", model_aliases=["default", "also"], unknown_models=unknown)
        assert asked(these, **fields) == wanted


@pytest.mark.parametrize(
    "name", ["mine:0123abcd", "mine:", "mine:sql:x", ":sql", "SQL", "mine:mine"]
)
def test_names_that_are_nearly_known(name: str) -> None:
    assert refusal(models(model_name="mine"), model=name).status == 404


def test_a_name_with_a_colon_is_a_name() -> None:
    these = models(model_name="qwen:7b", lora_adapters=["7b", "sql"])
    assert asked(these, model="qwen:7b") == ""
    assert asked(these, model="qwen:7b:sql") == "sql"
    assert refusal(these, model="qwen:sql").status == 404


def test_where_any_name_is_served_an_adapter_is_still_chosen() -> None:
    assert asked(models(), model="whatever:sql") == "0123abcd"
    assert asked(models(), model="whatever:unknown") == ""


def test_an_unknown_adapter_is_refused_whatever_the_model() -> None:
    for settings in ({}, {"model_name": "mine"}):
        for model in (None, "sql"):
            error = refusal(models(**settings), model=model, lora_path="other")
            assert (error.status, error.code) == (400, "adapter_not_found")


def test_a_name_comes_back_in_every_chunk_and_so_is_short() -> None:
    error = refusal(models(), model="m" * (MAX_MODEL_NAME + 1))
    assert (error.status, error.param) == (400, "model")
    assert len(error.message) < 100


@pytest.mark.parametrize("settings", [{"model_name": "sql"}, {"model_aliases": ["a", "law"]}])
def test_an_adapter_may_not_have_the_models_name(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a name of the model itself"):
        models(**settings)


def test_no_aliases() -> None:
    assert refusal(models(model_name="mine", model_aliases=[]), model="default").status == 404


def test_what_is_listed_is_served() -> None:
    for facts in (TOLD, GUESSED):
        these = models(unknown_models="refuse", model_aliases=["default", "other"])
        model, *adapters = these.entries(facts, max_model_len=10)
        assert model == {
            "id": these.name(facts),
            "object": "model",
            "owned_by": "sglang",
            "root": "/models/folder",
            "parent": None,
            "max_model_len": 10,
            "aliases": ["default", "other"],
        }
        assert [(each["id"], each["parent"]) for each in adapters] == [
            ("sql", model["id"]),
            ("law", model["id"]),
        ]
        assert asked(these, facts, model=model["id"]) == ""
        assert [asked(these, facts, model=each["id"]) for each in adapters] == ["0123abcd", "law"]
        for alias in model["aliases"]:
            assert asked(these, facts, model=alias) == ""


def test_a_model_is_no_alias_of_itself() -> None:
    (model,) = models(model_name="default", lora_adapters=[]).entries(GUESSED)
    assert model["aliases"] == []
