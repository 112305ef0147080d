"""The names that requests may ask for, from /v1/models to the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import RouterProcess, free_port

ADAPTERS = {"sql": "0a1b", "law": "law"}


@pytest.fixture(scope="module")
def named(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router of a model with other names and adapters."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "model_name": "mine",
            "model_aliases": "default,org/other",
            "lora_adapters": "sql=0a1b,law",
        }
    )
    router.start()
    yield router
    router.stop()


def test_the_model_and_its_adapters_are_listed(named: RouterProcess, tiny_model: Path) -> None:
    model, *adapters = named.http.get("/v1/models").json()["data"]
    created = model.pop("created")
    assert created > 1_700_000_000
    assert model == {
        "id": "mine",
        "object": "model",
        "owned_by": "sglang",
        "root": str(tiny_model),
        "parent": None,
        "max_model_len": 8192,
        "max_input_tokens": 8185,
        "vocab_size": 4096,
        "eos_token_ids": [1, 2],
        "aliases": ["default", "org/other"],
    } | {key: model[key] for key in ("vocab_size", "eos_token_ids")}
    assert [(each["id"], each["parent"], each["max_model_len"]) for each in adapters] == [
        ("sql", "mine", 8192),
        ("law", "mine", 8192),
    ]


def test_what_is_listed_is_shown_and_served(named: RouterProcess, engine: SimulatedEngine) -> None:
    client = named.openai()
    listed = list(client.models.list())
    assert [each.id for each in listed] == ["mine", "sql", "law"]
    for each in listed:
        assert client.models.retrieve(each.id) == each
        answer = client.chat.completions.create(
            model=each.id, messages=[{"role": "user", "content": "Hi"}], max_tokens=1
        )
        assert answer.model == each.id
        assert engine.requests[-1].lora_id == ADAPTERS.get(each.id, "")


@pytest.mark.parametrize("name", ["default", "org/other", "org%2Fother", "mine/", "mine:sql"])
def test_other_names_of_the_same(named: RouterProcess, name: str) -> None:
    response = named.http.get(f"/v1/models/{name}")
    assert response.status_code == 200
    assert response.json()["id"] == ("sql" if name == "mine:sql" else "mine")


@pytest.mark.parametrize("stream", [False, True])
def test_another_model_is_not_here(
    named: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    before = len(engine.requests)
    with pytest.raises(openai.NotFoundError) as raised:
        named.openai().chat.completions.create(
            model="gpt-9", messages=[{"role": "user", "content": "Hi"}], stream=stream
        )
    error: Any = raised.value.body
    assert error == {
        "message": "The model `gpt-9` does not exist or you do not have access to it. "
        "There are: mine, default, org/other, sql, law",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    assert len(engine.requests) == before
    shown = named.http.get("/v1/models/gpt-9")
    assert (shown.status_code, shown.json()["error"]) == (404, error)
    for path in ("tokenize", "detokenize"):
        body = {"model": "gpt-9", "prompt": "x", "tokens": [1]}
        refused = named.http.post(f"/v1/{path}", json=body)
        assert (refused.status_code, refused.json()["error"]) == (404, error)


def test_no_model_is_the_model(named: RouterProcess) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    assert named.http.post("/v1/chat/completions", json=body).json()["model"] == "mine"


def test_a_name_that_is_guessed_is_not_checked(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
    assert router.http.get("/v1/models").json()["data"][0]["id"] == tiny_model.name
    assert router.chat(model="whatever", max_tokens=1).json()["model"] == "whatever"


def test_the_engines_own_name_is_checked(start_router: StartRouter, tiny_model: Path) -> None:
    with SimulatedEngine(SimOptions(served_model_name="served")) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        (model,) = router.http.get("/v1/models").json()["data"]
        assert (model["id"], model["root"]) == ("served", str(tiny_model))
        assert router.chat(model="served", max_tokens=1).status_code == 200
        assert router.chat(model=tiny_model.name, max_tokens=1).status_code == 404
        accepting = start_router(
            engine=f"grpc://{engine.address}", tokenizer=tiny_model, unknown_models="accept"
        )
        assert accepting.chat(model="whatever", max_tokens=1).status_code == 200


@pytest.mark.parametrize(("setting", "context"), [(0, 300), (200, 200), (400, 300)])
def test_the_context_is_the_least_of_all(
    start_router: StartRouter, tiny_model: Path, setting: int, context: int
) -> None:
    with SimulatedEngine(SimOptions(context_length=300)) as engine:
        router = start_router(
            engine=f"grpc://{engine.address}", tokenizer=tiny_model, context_length=setting
        )
        (model,) = router.http.get("/v1/models").json()["data"]
        assert model["max_model_len"] == context
        # And it is true: so long a prompt is taken, and no longer one.
        longest = model["max_input_tokens"]
        assert longest == context - 7
        counted = router.http.post(
            "/tokenize", json={"messages": [{"role": "user", "content": "a"}]}
        ).json()
        assert counted["max_model_len"] == context
        word = len(router.http.post("/tokenize", json={"prompt": " the"}).json()["tokens"])
        assert word == 1
        fits = "a" + " the" * (longest - counted["count"])
        assert router.chat(fits, max_tokens=1).status_code == 200
        refused = router.chat(fits + " the", max_tokens=1)
        assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_any_engine_that_answers_names_the_model(
    start_router: StartRouter, tiny_model: Path
) -> None:
    with SimulatedEngine(SimOptions(served_model_name="served")) as engine:
        router = start_router(
            engine=f"grpc://127.0.0.1:{free_port()},grpc://{engine.address}", tokenizer=tiny_model
        )
        assert router.http.get("/v1/models").json()["data"][0]["id"] == "served"
