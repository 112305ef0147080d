"""The library and the HTTP server say the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sglrouter import ChatCompletionStream, Client
from sglrouter.errors import RouterError
from sglrouter.sim import SimulatedEngine
from tests.client.conftest import question
from tests.processes import RouterProcess, sse_data

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
REQUESTS: list[dict[str, Any]] = [
    question(temperature=0),
    question(temperature=0, n=2, logprobs=True, top_logprobs=2, max_tokens=4),
    question(temperature=0, stop=["Paris"], stream_options={"include_usage": True}),
    question(temperature=0, tools=TOOLS, tool_choice="required"),
]
REFUSED: list[dict[str, Any]] = [
    question(temperature=-1),
    question(tools=[{}]),
    {"messages": []},
]


@pytest.fixture(scope="module")
def library(engine: SimulatedEngine, tiny_model: Path) -> Iterator[Client]:
    with Client(f"grpc://{engine.address}", tiny_model, model_name="tiny") as client:
        yield client


@pytest.mark.parametrize("body", REQUESTS, ids=range(len(REQUESTS)))
def test_streams_are_the_same(library: Client, router: RouterProcess, body: dict[str, Any]) -> None:
    library.create_chat_completion(body)  # for both, the engine has read the prompt before
    response = router.http.post("/v1/chat/completions", json={**body, "stream": True})
    stream = library.create_chat_completion_stream(body)
    *expected, done = sse_data(response.text)
    assert done == "[DONE]"
    chunks = [json.loads(text) for text in iter_json(stream)]
    assert len(chunks) > 2
    # How much text a chunk holds is a matter of time, all else is not.
    assert told(chunks) == told([json.loads(text) for text in expected])


@pytest.mark.parametrize("body", REQUESTS, ids=range(len(REQUESTS)))
def test_bodies_are_the_same(library: Client, router: RouterProcess, body: dict[str, Any]) -> None:
    body = {name: value for name, value in body.items() if name != "stream_options"}
    library.create_chat_completion(body)
    response = router.http.post("/v1/chat/completions", json=body)
    completion = library.create_chat_completion(body)
    for each in (completion, expected := response.json()):
        each["id"], each["created"] = "", 0
        for choice in each["choices"]:
            for call in choice["message"].get("tool_calls", ()):
                call["id"] = ""
    assert completion == expected


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_refusals_are_the_same(
    library: Client, router: RouterProcess, body: dict[str, Any]
) -> None:
    response = router.http.post("/v1/chat/completions", json=body)
    with pytest.raises(RouterError) as refusal:
        library.create_chat_completion(body)
    assert response.status_code == refusal.value.status == 400
    assert response.json() == json.loads(refusal.value.body())


def iter_json(stream: ChatCompletionStream) -> Iterator[str]:
    """The rest of a stream as text."""
    while True:
        try:
            yield stream.recv_json()
        except EOFError:
            return


def told(chunks: list[dict[str, Any]]) -> dict[str, object]:
    """What a stream says, however it is cut."""
    texts: defaultdict[str, str] = defaultdict(str)
    names: set[str] = set()
    for chunk in chunks:
        for choice in chunk["choices"]:
            place, delta = f"choice {choice['index']}", choice["delta"]
            texts[f"{place} text"] += delta.get("content") or ""
            texts[f"{place} role"] += delta.get("role") or ""
            texts[f"{place} reason"] += choice["finish_reason"] or ""
            for call in delta.get("tool_calls", ()):
                texts[f"{place} call {call['index']}"] += call["function"]["arguments"]
            logprobs = choice["logprobs"] or {"content": ()}
            texts[f"{place} logprobs"] += "".join(map(json.dumps, logprobs["content"]))
        names |= set(paths(chunk))
    return {**texts, "names": names, "usage": chunks[-1].get("usage")}


def paths(value: Any, at: str = "") -> Iterator[str]:
    """The names in an object, with where they are."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from paths(item, f"{at}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from paths(item, f"{at}[]")
    yield at
