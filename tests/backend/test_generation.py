"""The calls of one request and their deadlines, over real channels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.backend.channel import Channel
from sglrouter.backend.generation import Generation
from sglrouter.backend.pool import Engine
from sglrouter.config import Endpoint, parse_endpoint
from sglrouter.errors import BadRequest, EngineError, EngineTimeout, RouterError
from tests.backend.calls import request
from tests.backend.conftest import AnEngine


@pytest.fixture
def backend(engine: AnEngine, make_channel: Callable[[Endpoint], Channel]) -> Iterator[Engine]:
    backend = Engine(parse_endpoint(engine.address), make_channel)
    yield backend
    backend.close()


def generate(backend: Engine, n: int = 1, *, first: float = 10.0, idle: float = 10.0) -> Generation:
    return backend.generate(
        {f"sample {i}": request() for i in range(n)},
        timeout=30.0,
        first_timeout=first,
        idle_timeout=idle,
    )


def wait_for_error(generation: Generation) -> RouterError:
    def drain() -> None:
        for _ in range(1000):
            generation.wait()

    with pytest.raises(RouterError) as caught:
        drain()
    return caught.value


def test_every_sample_is_told_by_its_index(backend: Engine, engine: AnEngine) -> None:
    engine.script([[5], [5]], [[6], [6], [6]])
    generation = generate(backend, 2)
    ids: dict[int, list[int]] = {0: [], 1: []}
    while generation.running:
        for index, messages in generation.wait():
            for message in messages:
                response = pb.GenerateResponse.FromString(message)
                ids[index] += response.chunk.token_ids
                if response.HasField("complete"):
                    generation.complete(index)
    # Which call the engine takes first is its own affair.
    eos = engine_eos(ids)
    assert sorted(ids.values()) == [[5, 5, eos], [6, 6, 6, eos]]


def engine_eos(ids: dict[int, list[int]]) -> int:
    (eos,) = {answer[-1] for answer in ids.values()}
    return eos


def test_a_wait_ends_without_news(backend: Engine, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    generation = generate(backend)
    started = time.monotonic()
    assert generation.wait(0.05) == []
    assert time.monotonic() - started < 5
    assert generation.running
    generation.cancel()
    assert not generation.running
    engine.wait_until(lambda: engine.active == 0)


def test_no_first_message_in_time_is_an_error(backend: Engine, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    generation = generate(backend, first=0.1)
    error = wait_for_error(generation)
    assert isinstance(error, EngineTimeout)
    assert error.status == 504
    assert "did not answer" in error.message
    generation.cancel()


def test_silence_after_the_first_message_is_an_error(backend: Engine, engine: AnEngine) -> None:
    engine.script([[7]] * 10)
    engine.fault("hang,after=3,times=1")
    generation = generate(backend, idle=0.1)
    error = wait_for_error(generation)
    assert isinstance(error, EngineTimeout)
    assert "went silent" in error.message
    generation.cancel()


def test_one_silent_sample_is_noticed_beside_a_lively_one(
    backend: Engine, engine: AnEngine
) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.01
    try:
        engine.fault("hang,after=2,times=1")
        generation = generate(backend, 2, idle=0.3)
        assert isinstance(wait_for_error(generation), EngineTimeout)
        generation.cancel()
    finally:
        engine.options.token_delay = 0.0
    engine.wait_until(lambda: engine.active == 0)


@pytest.mark.parametrize(
    ("fault", "kind", "status"),
    [
        ("fail,status=INVALID_ARGUMENT", BadRequest, 400),
        ("fail,status=RESOURCE_EXHAUSTED", EngineError, 429),
        ("fail,status=INTERNAL", EngineError, 502),
        ("drop,after=2", EngineError, 503),
        ("close,after=2", EngineError, 502),
    ],
)
def test_a_failed_call_is_the_error_of_its_status(
    backend: Engine, engine: AnEngine, fault: str, kind: type[RouterError], status: int
) -> None:
    engine.script([[7]] * 10)
    engine.fault(fault + ",times=1")
    generation = generate(backend)
    error = wait_for_error(generation)
    assert isinstance(error, kind)
    assert error.status == status
    generation.cancel()


def test_completing_a_sample_that_goes_on_stops_the_engine(
    backend: Engine, engine: AnEngine
) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.01
    try:
        generation = generate(backend)
        generation.wait()
        generation.complete(0, engine_goes_on=True)
        assert not generation.running
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0


def test_a_completed_call_is_not_cancelled(backend: Engine, engine: AnEngine) -> None:
    engine.script([[7]] * 3)
    before = len(engine.cancelled)
    generation = generate(backend)
    seen = 0
    while seen < 5:  # 3, EOS, complete
        seen += sum(len(messages) for _, messages in generation.wait())
    generation.complete(0)
    generation.cancel()
    engine.wait_until(lambda: engine.active == 0)
    assert len(engine.cancelled) == before
