"""A text that cannot fit is refused by its length alone, at every endpoint that takes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from sglrouter.prompt.encoder import Encoder
from sglrouter.sim import SimOptions
from tests.integration.test_turns import client_of, ranker_folder

LONG = "word " * 200_000
GENERATING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}),
    "completion": ("/v1/completions", {"prompt": LONG}),
    "several completions": ("/v1/completions", {"prompt": [LONG, LONG]}),
    "generate": ("/generate", {"text": LONG}),
    "score": ("/v1/score", {"query": LONG, "items": ["a", "b"], "label_token_ids": [1]}),
}
VECTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"input": LONG}),
    "classify": ("/v1/classify", {"input": [LONG]}),
    "encode": ("/encode", {"text": LONG}),
}


@pytest.fixture
def nothing_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def ids(_encoder: Encoder, text: str) -> bytes:
        # "yes" and "no" and the like.
        assert len(text) < 1000, "a text that cannot fit reached the tokenizer"
        return usual(_encoder, text)

    usual = Encoder._ids
    monkeypatch.setattr(Encoder, "_ids", ids)


def check(client: falcon.testing.TestClient, path: str, body: dict[str, Any]) -> None:
    response = client.simulate_post(path, json=body)
    assert response.status_code == 400, response.text[:300]
    assert response.json["error"]["code"] == "context_length_exceeded"


@pytest.mark.usefixtures("nothing_is_encoded")
def test_models_that_generate() -> None:
    with client_of(SimOptions()) as client:
        for path, body in GENERATING.values():
            check(client, path, body)


@pytest.mark.usefixtures("nothing_is_encoded")
def test_models_of_vectors() -> None:
    with client_of(SimOptions(embedding=True)) as client:
        for path, body in VECTORS.values():
            check(client, path, body)


@pytest.mark.usefixtures("nothing_is_encoded")
def test_models_that_rank(tmp_path: Path) -> None:
    model, template = ranker_folder(tmp_path)
    with client_of(SimOptions(model=model), chat_template=str(template)) as client:
        check(client, "/v1/rerank", {"query": "q", "documents": [LONG]})
        check(client, "/v1/rerank", {"query": LONG, "documents": ["d"]})
