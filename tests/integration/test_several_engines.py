"""One engine of several is away, hangs or says that it does not serve: no request notices."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import PATIENCE
from tests.processes import RouterProcess, free_port

CHANNELS = ["native", "grpcio"]

Post = Callable[[RouterProcess], int]


def chat(router: RouterProcess) -> int:
    return router.chat().status_code


def samples(router: RouterProcess) -> int:
    return router.chat(n=3).status_code


def stream(router: RouterProcess) -> int:
    answer = router.chat(stream=True)
    return answer.status_code if '"error"' not in answer.text else 500


def posting(path: str, **body: Any) -> Post:
    return lambda router: router.http.post(path, json=body).status_code


ENDPOINTS: dict[str, Post] = {
    "chat": chat,
    "samples": samples,
    "stream": stream,
    "completions": posting("/v1/completions", prompt=["a", "b"], max_tokens=2),
    "generate": posting("/generate", text="a", sampling_params={"max_new_tokens": 2}),
    "score": posting(
        "/v1/score", query="a", items=["b", "c"], label_token_ids=[1, 2], apply_softmax=True
    ),
}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)


def has_line(router: RouterProcess, words: str, times: int) -> bool:
    """Whether the log has it; never more often."""
    count = router.log.count(words)
    assert count <= times
    return count == times


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("other", ["refuses", "has no name"])
def test_an_engine_that_is_not_there_fails_no_request(
    start_router: StartRouter,
    engine: SimulatedEngine,
    tiny_model: Path,
    channel: str,
    other: str,
) -> None:
    address = "no-such-host.invalid:1" if other == "has no name" else f"127.0.0.1:{free_port()}"
    router = start_router(
        engine=f"grpc://{address},grpc://{engine.address}", tokenizer=tiny_model, channel=channel
    )
    with ThreadPoolExecutor(8) as threads:
        for name, post in ENDPOINTS.items():
            answers = Counter(threads.map(post, [router] * 16))
            assert answers == {200: 16}, name


@pytest.mark.parametrize("channel", CHANNELS)
def test_embeddings_go_to_the_engine_that_is_there(
    start_router: StartRouter, tiny_model: Path, channel: str
) -> None:
    with SimulatedEngine(SimOptions(embedding=True)) as engine:
        router = start_router(
            engine=f"grpc://127.0.0.1:{free_port()},grpc://{engine.address}",
            tokenizer=tiny_model,
            channel=channel,
        )
        for _ in range(6):
            answer = router.http.post("/v1/embeddings", json={"input": ["a", "b", "c"]})
            assert answer.status_code == 200


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_engine_that_goes_and_comes_back_leaves_a_line_each(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, channel: str
) -> None:
    with SimulatedEngine() as other:
        router = start_router(
            engine=f"grpc://{engine.address},grpc://{other.address}",
            tokenizer=tiny_model,
            channel=channel,
        )
        name = f"engine grpc://{other.address}"
        assert chat(router) == 200
        wait_for(lambda: f"{name} serves" in router.log, "the first answer")
        for times, by_death in ((1, True), (2, False)):
            if by_death:
                other.kill()
            else:
                other.set_serving(False)
            wait_for(
                partial(has_line, router, f"{name} gets no more requests", times),
                "the line of the engine that went",
            )
            seen = len(other.requests)
            assert [chat(router) for _ in range(10)] == [200] * 10
            assert len(other.requests) == seen
            if by_death:
                other.start()
            else:
                other.set_serving(True)
            wait_for(partial(has_line, router, f"{name} is back", times), "its return")
            assert [chat(router) for _ in range(10)] == [200] * 10
            assert len(other.requests) > seen


@pytest.fixture
def hanging_engine(tiny_model: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """An engine in a process of its own, which can be stopped like one that hangs."""
    port = free_port()
    command = [sys.executable, "-m", "sglrouter", "sim", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--model", str(tiny_model)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    process.stderr.readline()
    yield f"127.0.0.1:{port}", process
    process.kill()
    process.wait()
    process.stderr.close()


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_engine_that_hangs_gets_no_requests(
    start_router: StartRouter,
    engine: SimulatedEngine,
    tiny_model: Path,
    hanging_engine: tuple[str, subprocess.Popen[bytes]],
    channel: str,
) -> None:
    address, process = hanging_engine
    router = start_router(
        engine=f"grpc://{engine.address},grpc://{address}", tokenizer=tiny_model, channel=channel
    )
    assert [chat(router) for _ in range(4)] == [200] * 4
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: f"engine grpc://{address} gets no more requests" in router.log, "its line")
    assert [chat(router) for _ in range(20)] == [200] * 20
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: f"engine grpc://{address} is back" in router.log, "its return")


def test_a_busy_engine_gets_fewer_requests(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    with SimulatedEngine(SimOptions(max_running_requests=1, token_delay=0.05)) as busy:
        router = start_router(
            engine=f"grpc://{busy.address},grpc://{engine.address}", tokenizer=tiny_model
        )
        busy.script([[7]] * 20)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: chat(router), range(40)))
        assert len(busy.requests) < 10


def test_the_words_of_a_lone_engine_that_is_away(
    start_router: StartRouter, tiny_model: Path
) -> None:
    with SimulatedEngine() as lone:
        router = start_router(engine=f"grpc://{lone.address}", tokenizer=tiny_model)
        assert chat(router) == 200
        lone.kill()
        wait_for(lambda: "gets no more requests" in router.log, "the line")
        # With nobody else to ask, it is tried.
        assert chat(router) == 503
        lone.start()
        wait_for(lambda: "is back" in router.log, "its return")
        assert chat(router) == 200
