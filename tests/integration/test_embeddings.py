"""Vectors and classes over HTTP, with engines of embedding and of classification models."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import struct
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import openai
import pytest

from sglrouter.engines.channel.connect import http2_is_built
from sglrouter.schema import embeddings as shapes
from sglrouter.sim import SimOptions, SimulatedEngine
from sglrouter.sim.generate import embedding
from tests.conftest import StartRouter
from tests.patience import LONG
from tests.processes import RouterProcess

SIZE = 64
LABELS = {"0": "bad", "1": "so-so", "2": "good"}
CHANNELS = ["grpcio", *(["native"] if http2_is_built() else [])]


@pytest.fixture(scope="module")
def engine() -> Iterator[SimulatedEngine]:
    """An engine of an embedding model."""
    with SimulatedEngine(SimOptions(embedding=True)) as engine:
        yield engine


@pytest.fixture(scope="module", params=CHANNELS)
def router(
    request: pytest.FixtureRequest, engine: SimulatedEngine, tiny_model: Path
) -> Iterator[RouterProcess]:
    """A router in front of it, over each kind of channel."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "model_name": "tiny",
            "channel": request.param,
            "lora_adapters": "poems",
        }
    )
    router.start()
    yield router
    router.stop()


def post(router: RouterProcess, path: str = "/v1/embeddings", **body: Any) -> httpx.Response:
    return router.http.post(path, json=body)


def error_of(response: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


def expected(ids: list[int], size: int = SIZE) -> array[float]:
    return array("f", embedding(ids, size))


def changed_model(tiny_model: Path, folder: Path, **config: Any) -> Path:
    """The tiny model with other words in its config.json."""
    shutil.copytree(tiny_model, folder)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


def test_openais_client_gets_the_very_floats(router: RouterProcess) -> None:
    client = router.openai()
    # Its default is base64, which it decodes.
    for extra in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model="tiny", input=[[10, 11], [12]], **extra)  # type: ignore[arg-type]
        assert [item.index for item in answer.data] == [0, 1]
        assert array("f", answer.data[0].embedding) == expected([10, 11])
        assert array("f", answer.data[1].embedding) == expected([12])
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (3, 3)
        assert answer.model == "tiny"


def test_texts_are_embedded_as_their_ids(router: RouterProcess, engine: SimulatedEngine) -> None:
    answer = post(router, input="hello there").json()
    ids = list(engine.embeds[-1].tokenized.input_ids)
    assert ids == router.http.post("/tokenize", json={"prompt": "hello there"}).json()["tokens"]
    assert array("f", answer["data"][0]["embedding"]) == expected(ids)
    msgspec.convert(answer, shapes.EmbeddingList)


def test_base64_is_the_same_floats(router: RouterProcess) -> None:
    answer = post(router, input=[10, 11], encoding_format="base64").json()
    data = base64.b64decode(answer["data"][0]["embedding"])
    assert struct.unpack(f"<{SIZE}f", data) == tuple(expected([10, 11]))
    msgspec.convert(answer, shapes.EmbeddingList)


def test_many_inputs_keep_their_order(router: RouterProcess, engine: SimulatedEngine) -> None:
    before = len(engine.embeds)
    inputs = [[number + 1] * (number % 7 + 1) for number in range(200)]
    answer = post(router, input=inputs).json()
    assert [item["index"] for item in answer["data"]] == list(range(200))
    for item, ids in zip(answer["data"], inputs, strict=True):
        assert array("f", item["embedding"]) == expected(ids)
    assert answer["usage"]["prompt_tokens"] == sum(map(len, inputs))
    ids_of_calls = {each.request_id for each in engine.embeds[before:]}
    assert len(ids_of_calls) == 200


def test_the_request_id_reaches_the_engine(router: RouterProcess, engine: SimulatedEngine) -> None:
    response = router.http.post(
        "/v1/embeddings", json={"input": "x"}, headers={"X-Request-ID": "mine"}
    )
    assert response.headers["x-request-id"] == "mine"
    assert engine.unary_calls[-1].metadata["x-request-id"] == "mine"


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "invalid_type", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": ["a", " "]}, "invalid_value", "input[1]"),
        ({"input": [1, 4096]}, "token_out_of_vocabulary", "input"),
        ({"input": [1] * 8186}, "context_length_exceeded", "input"),
        ({"input": [{"text": "a", "image": "b"}]}, "unsupported_content", "input[0]"),
        ({"input": "a", "encoding_format": "hex"}, "invalid_type", "encoding_format"),
        ({"input": "a", "dimensions": 4}, "invalid_value", "dimensions"),
        ({"input": "a", "dimensions": "few"}, "invalid_type", "dimensions"),
        ({"input": "a", "lora_path": "poems"}, "unsupported_parameter", "lora_path"),
        ({"input": "a", "model": "tiny:poems"}, "unsupported_parameter", "model"),
        ({"input": "a", "embed_overrides": [[[0.5]]]}, "unsupported_parameter", "embed_overrides"),
    ],
)
def test_what_cannot_be_embedded_never_reaches_an_engine(
    router: RouterProcess, engine: SimulatedEngine, body: dict[str, Any], code: str, param: str
) -> None:
    before = len(engine.embeds)
    error = error_of(post(router, **body))
    assert (error["code"], error["param"]) == (code, param)
    assert len(engine.embeds) == before
    assert engine.alive


def test_the_longest_input_is_embedded(router: RouterProcess) -> None:
    answer = post(router, input=[1] * 8185).json()
    assert answer["usage"]["prompt_tokens"] == 8185


def test_another_model_is_404(router: RouterProcess) -> None:
    assert error_of(post(router, input="a", model="other"), 404)["code"] == "model_not_found"


def test_what_is_ignored_is_told(router: RouterProcess) -> None:
    response = post(router, input="a", priority=5, user="me", unknown=1)
    assert response.status_code == 200
    assert response.headers["x-sglrouter-ignored"] == "priority"


@pytest.mark.parametrize("path", ["/v1/embeddings", "/encode"])
def test_a_client_that_leaves_ends_its_calls(
    router: RouterProcess, engine: SimulatedEngine, path: str
) -> None:
    before = len(engine.embeds)
    field = "input" if path == "/v1/embeddings" else "input_ids"
    body = json.dumps({field: [[each + 1] for each in range(300)]}).encode()
    engine.options.first_delay = LONG
    try:
        with socket.create_connection(("127.0.0.1", router.port)) as client:
            client.sendall(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            # No more than that at a time.
            engine.wait_until(lambda: engine.active == 32)
            time.sleep(0.1)
            assert engine.active == 32
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.first_delay = 0.0
    assert len(engine.embeds) == before + 32
    assert post(router, input="a").status_code == 200


def test_an_engine_that_does_not_answer_is_a_timeout(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, first_token_timeout=0.3
    )
    engine.options.first_delay = LONG
    try:
        assert error_of(post(router, input=["a", "b"]), 504)["code"] == "engine_timeout"
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.first_delay = 0.0


def test_a_generation_model_makes_no_embeddings(
    start_router: StartRouter, tiny_model: Path
) -> None:
    with SimulatedEngine(SimOptions()) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        for path, body in (
            ("/v1/embeddings", {"input": "a"}),
            ("/v1/classify", {"input": "a"}),
            ("/encode", {"text": "a"}),
            ("/classify", {"text": "a"}),
        ):
            error = error_of(router.http.post(path, json=body))
            assert (error["code"], error["param"]) == ("unsupported_model", "model")
            assert "generates" in error["message"]
        with pytest.raises(openai.BadRequestError):
            router.openai().embeddings.create(model="m", input="a")
        assert engine.embeds == []


def test_an_older_engine_embeds_as_well(start_router: StartRouter, tiny_model: Path) -> None:
    with SimulatedEngine(SimOptions(embedding=True, dialect="0.5.9")) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        answer = post(router, input=[10, 11]).json()
        assert array("f", answer["data"][0]["embedding"]) == expected([10, 11])


def test_matryoshka_embeddings_are_cut(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, tmp_path: Path
) -> None:
    model = changed_model(tiny_model, tmp_path / "m", matryoshka_dimensions=[8, 64, 128])
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=model)
    whole, short = (
        post(router, input=[10], dimensions=size).json()["data"][0]["embedding"] for size in (64, 8)
    )
    length = sum(value * value for value in whole[:8]) ** 0.5
    assert short == pytest.approx([value / length for value in whole[:8]], rel=1e-6)
    native = post(router, "/encode", input_ids=[10], dimensions=8).json()
    assert native["embedding"] == short
    for size in (9, 128):
        assert error_of(post(router, input=[10], dimensions=size))["param"] == "dimensions"


def test_sglangs_own_answers(router: RouterProcess) -> None:
    for path in ("/encode", "/classify"):
        one = post(router, path, input_ids=[10, 11]).json()
        msgspec.convert(one, shapes.Encoded)
        assert array("f", one["embedding"]) == expected([10, 11])
        assert one["meta_info"]["prompt_tokens"] == 2
        assert one["meta_info"]["weight_version"] == "default"
        many = router.http.put(path, json={"text": ["a", "b"], "rid": ["x", "y"]}).json()
        msgspec.convert(many, list[shapes.Encoded])
        assert [each["meta_info"]["id"] for each in many] == ["x", "y"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": "a", "input_ids": [1]}, "text"),
        ({"text": ["a", "b"], "rid": "x"}, "rid"),
        ({"text": ["a", "b"], "rid": ["x"]}, "rid"),
        ({"text": "a", "image_data": "x"}, "image_data"),
        ({"text": "a", "is_cross_encoder_request": True}, "is_cross_encoder_request"),
    ],
)
def test_what_sglangs_own_form_refuses(
    router: RouterProcess, body: dict[str, Any], param: str
) -> None:
    assert error_of(router.http.post("/encode", json=body))["param"] == param


@pytest.fixture(scope="module")
def classifier(
    tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RouterProcess]:
    """A router in front of a classification model."""
    model = changed_model(
        tiny_model,
        tmp_path_factory.mktemp("classifier") / "m",
        architectures=["Qwen2ForSequenceClassification"],
        id2label=LABELS,
    )
    with SimulatedEngine(SimOptions(embedding=True, model=model)) as engine:
        router = RouterProcess({"engine": f"grpc://{engine.address}", "tokenizer": model})
        router.start()
        yield router
        router.stop()


def test_classes_have_labels(classifier: RouterProcess) -> None:
    answer = post(classifier, "/v1/classify", input=[[10, 11], [12]], model="m").json()
    msgspec.convert(answer, shapes.ClassifiedList)
    assert answer["model"] == "m"
    for item, ids in zip(answer["data"], [[10, 11], [12]], strict=True):
        logits = expected(ids, 3)
        assert item["label"] == LABELS[str(logits.index(max(logits)))]
        assert item["num_classes"] == 3
        assert sum(item["probs"]) == pytest.approx(1.0)
        assert item["probs"].index(max(item["probs"])) == logits.index(max(logits))
    assert answer["usage"]["prompt_tokens"] == 3


def test_a_classifier_scores_its_classes(classifier: RouterProcess) -> None:
    answer = post(classifier, "/v1/score", query=[10], items=[[11], [12]]).json()
    assert answer["scores"] == [list(expected([10, 11], 3)), list(expected([10, 12], 3))]
    answer = post(classifier, "/v1/score", query="a", items="b", apply_softmax=True).json()
    assert sum(answer["scores"][0]) == pytest.approx(1.0)
    refused = post(classifier, "/v1/score", items="b", return_token_logprobs=True)
    assert error_of(refused)["param"] == "return_token_logprobs"


def test_labels_come_from_the_engine_as_well(
    start_router: StartRouter, tiny_model: Path, tmp_path: Path
) -> None:
    model = changed_model(
        tiny_model,
        tmp_path / "m",
        architectures=["Qwen2ForSequenceClassification"],
        id2label=LABELS,
    )
    with SimulatedEngine(SimOptions(embedding=True, model=model)) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        (item,) = post(router, "/v1/classify", input=[12]).json()["data"]
        logits = expected([12], 3)
        assert item["label"] == LABELS[str(logits.index(max(logits)))]


def test_an_embedding_model_does_not_classify(router: RouterProcess) -> None:
    error = error_of(post(router, "/v1/classify", input="a"))
    assert (error["code"], error["param"]) == ("unsupported_model", "model")
