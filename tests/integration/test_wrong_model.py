"""Requests that the engine's model is not made for are refused at once: it would not answer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.patience import PROMPT
from tests.processes import RouterProcess

PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"prompt": "Hi"},
    "/generate": {"text": "Hi"},
}


@pytest.fixture(scope="module")
def embedding_router(tiny_model: Path) -> Iterator[RouterProcess]:
    with SimulatedEngine(SimOptions(embedding=True)) as engine:
        router = RouterProcess({"engine": f"grpc://{engine.address}", "tokenizer": tiny_model})
        router.start()
        yield router
        router.stop()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_an_embedding_model_makes_no_text(
    embedding_router: RouterProcess, path: str, stream: bool
) -> None:
    body: dict[str, Any] = {**PATHS[path], "stream": stream}
    begun = time.monotonic()
    response = embedding_router.http.post(path, json=body)
    assert time.monotonic() - begun < PROMPT, "it waited for the engine"
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_model", "model")
    assert "/v1/embeddings" in error["message"]
