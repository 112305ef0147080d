"""POST /abort_request: requests stopped by their clients' names, on every worker."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import PATIENCE
from tests.processes import RouterProcess, chat_body

LONG_ANSWER = " ".join(f"word{number}" for number in range(80))
ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


@pytest.fixture(autouse=True)
def slowly(engine: SimulatedEngine) -> Iterator[None]:
    """An answer that would take longer than a test may."""
    engine.script(LONG_ANSWER)
    engine.options.token_delay = 0.3
    yield
    engine.options.token_delay = 0.0


@pytest.fixture(scope="module", params=["native", "grpcio"])
def channel(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        request.getfixturevalue("native")
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def router(channel: str, engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    router = RouterProcess(
        {"engine": f"grpc://{engine.address}", "tokenizer": tiny_model, "channel": channel}
    )
    router.start()
    yield router
    router.stop()


@contextmanager
def two_workers(channel: str, engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router of two workers."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "channel": channel,
            "workers": 2,
        }
    )
    router.start()
    try:
        engine.wait_until(lambda: len(workers(router)) == 2)
        yield router
    finally:
        router.stop()


@pytest.fixture(scope="module")
def pair(channel: str, engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router of two workers, all of which live."""
    with two_workers(channel, engine, tiny_model) as router:
        yield router


@contextmanager
def streaming(router: RouterProcess, path: str, body: dict[str, Any]) -> Iterator[Iterator[str]]:
    """The data of a stream's events, on a connection of its own."""
    with (
        httpx.Client(base_url=router.url, timeout=PATIENCE) as client,
        client.stream("POST", path, json={**body, "stream": True}) as response,
    ):
        assert response.status_code == 200
        yield (line[6:] for line in response.iter_lines() if line.startswith("data: "))


def abort(router: RouterProcess, **body: object) -> None:
    response = router.http.post("/abort_request", json=body)
    assert (response.status_code, response.content) == (200, b""), response.text


def test_a_native_stream_ends_with_what_it_has(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    body = {"text": "Hello", "rid": "mine", "sampling_params": {"max_new_tokens": None}}
    before = len(engine.cancelled)
    with streaming(router, "/generate", body) as events:
        first = json.loads(next(events))
        assert first["meta_info"]["finish_reason"] is None
        abort(router, rid="min")  # not a name, only how one begins
        abort(router, rid="mine")
        rest = list(events)
    last = json.loads(rest[-2])
    assert rest[-1] == "[DONE]"
    assert last["meta_info"]["id"] == "mine"
    assert last["meta_info"]["finish_reason"] == ABORTED
    assert last["text"].startswith(first["text"])
    assert len(last["output_ids"]) == last["meta_info"]["completion_tokens"] < 20
    engine.wait_until(lambda: engine.running == 0 and len(engine.cancelled) == before + 1)
    # No engine hears a client's name, which others may begin with.
    assert not {"mine", "min"} & set(engine.aborted)


def test_a_whole_answer_ends_too(router: RouterProcess, engine: SimulatedEngine) -> None:
    found: list[dict[str, Any]] = []

    def ask() -> None:
        body = {"text": "Hello", "rid": "whole", "sampling_params": {"max_new_tokens": 80}}
        found.append(httpx.post(f"{router.url}/generate", json=body, timeout=PATIENCE).json())

    thread = threading.Thread(target=ask)
    thread.start()
    engine.wait_until(lambda: engine.running == 1)
    abort(router, rid="whole")
    thread.join(PATIENCE)
    (answer,) = found
    assert answer["meta_info"]["finish_reason"] == ABORTED
    # An engine that does not stream has sent nothing yet.
    assert (answer["text"], answer["output_ids"]) == ("", [])
    engine.wait_until(lambda: engine.running == 0)


def test_one_of_several_prompts_is_stopped(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.options.token_delay = 0.1
    body = {"text": ["a", "b"], "rid": "pair", "sampling_params": {"max_new_tokens": 10}}
    with streaming(router, "/generate", body) as events:
        first = json.loads(next(events))
        assert first["meta_info"]["id"] == f"pair_{first['index']}"
        abort(router, rid="pair_1")
        documents = [json.loads(event) for event in events if event != "[DONE]"]
    last = {document["index"]: document["meta_info"] for document in documents}
    assert last[0]["finish_reason"] == {"type": "length", "length": 10}
    assert last[1]["finish_reason"] == ABORTED


def test_a_name_stops_all_that_has_it(router: RouterProcess, engine: SimulatedEngine) -> None:
    body = {"text": ["a", "b"], "rid": "pair", "sampling_params": {"max_new_tokens": 80, "n": 2}}
    with streaming(router, "/generate", body) as events:
        next(events)
        abort(router, rid="pair")
        documents = [json.loads(event) for event in events if event != "[DONE]"]
    ends = {
        document["index"]: document["meta_info"]["finish_reason"]
        for document in documents
        if document["meta_info"]["finish_reason"]
    }
    assert ends == dict.fromkeys(range(4), ABORTED)
    engine.wait_until(lambda: engine.running == 0)


@pytest.mark.parametrize("by", ["rid", "id"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", chat_body(rid="talk")),
        ("/v1/completions", {"prompt": "Hello", "rid": "talk", "max_tokens": 80}),
    ],
)
def test_openais_requests_are_stopped_by_rid_and_by_id(
    router: RouterProcess, engine: SimulatedEngine, path: str, body: dict[str, Any], by: str
) -> None:
    with streaming(router, path, body) as events:
        chunks = [json.loads(next(events)), json.loads(next(events))]
        abort(router, rid="talk" if by == "rid" else chunks[0]["id"])
        *rest, done = events
    choices = [chunk["choices"][0] for chunk in chunks + [json.loads(event) for event in rest]]
    assert done == "[DONE]"
    text = "".join(
        choice["delta"].get("content", "") if "delta" in choice else choice["text"]
        for choice in choices
    )
    assert text
    assert LONG_ANSWER.startswith(text)
    assert choices[-1]["finish_reason"] == "abort"
    engine.wait_until(lambda: engine.running == 0)


def test_everything_is_stopped_and_the_router_serves_on(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    with (
        streaming(router, "/v1/chat/completions", chat_body()) as first,
        streaming(router, "/generate", {"text": "Hello"}) as second,
    ):
        next(first), next(second)
        abort(router, abort_all=True)
        assert [list(each)[-1] for each in (first, second)] == ["[DONE]"] * 2
    engine.wait_until(lambda: engine.running == 0)
    engine.options.token_delay = 0.0
    assert router.chat().json()["choices"][0]["finish_reason"] == "stop"


def workers(router: RouterProcess) -> list[int]:
    children = Path(f"/proc/{router.pid}/task/{router.pid}/children").read_text()
    return [int(pid) for pid in children.split()]


@contextmanager
def only(worker: int, router: RouterProcess) -> Iterator[None]:
    """Has one worker alone take new connections meanwhile."""
    others = [pid for pid in workers(router) if pid != worker]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("what", [{"rid": "far"}, {"abort_all": True}])
def test_another_worker_is_told(
    pair: RouterProcess, engine: SimulatedEngine, what: dict[str, object]
) -> None:
    router = pair
    here, there = workers(router)
    body = {"text": "Hello", "rid": "far", "sampling_params": {"max_new_tokens": 80}}
    with httpx.Client(base_url=router.url, timeout=PATIENCE) as client:
        with only(here, router):
            assert client.get("/liveness").status_code == 200
        with only(there, router), streaming(router, "/generate", body) as events:
            next(events)
            os.kill(here, signal.SIGCONT)
            # On the connection that the other worker has.
            assert client.post("/abort_request", json=what).status_code == 200
            *_, last, done = events
    assert done == "[DONE]"
    assert json.loads(last)["meta_info"]["finish_reason"] == ABORTED
    engine.wait_until(lambda: engine.running == 0)


def test_a_worker_that_died_is_forgotten(
    channel: str, engine: SimulatedEngine, tiny_model: Path
) -> None:
    with two_workers(channel, engine, tiny_model) as router:
        killed = workers(router)[0]
        os.kill(killed, signal.SIGKILL)
        engine.wait_until(lambda: len(workers(router)) == 2 and killed not in workers(router))
        for _ in range(4):
            with httpx.Client(base_url=router.url, timeout=PATIENCE) as client:
                response = client.post("/abort_request", json={"abort_all": True})
            assert response.status_code == 200
        assert "was not told" not in router.log


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_rid"),
        ({"rid": ""}, "missing_rid"),
        ({"rid": 7}, "invalid_type"),
        ({"rid": None, "abort_all": False}, "missing_rid"),
    ],
)
def test_nothing_to_stop_is_an_error(
    router: RouterProcess, body: dict[str, object], code: str
) -> None:
    response = router.http.post("/abort_request", json=body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == code


def test_a_name_that_nobody_has_is_none(router: RouterProcess) -> None:
    abort(router, rid="nobody")


def test_the_workers_folder_goes_with_the_router(
    start_router: StartRouter,
    engine: SimulatedEngine,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert [path.name for path in folder.iterdir()] == [str(pid) for pid in workers(router)]
    router.signal(signal.SIGTERM)
    assert router.wait() == 0
    assert list(tmp_path.iterdir()) == []
