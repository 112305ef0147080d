"""The calls of one request and their deadlines, over real channels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.config import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.job import Job
from sglrouter.engines.fleet.placement import Placement
from sglrouter.engines.generation import Generation
from sglrouter.engines.wire.scheduler import GENERATE
from sglrouter.errors import BadRequest, ClientGone, EngineError, EngineTimeout, RouterError
from tests.engines.calls import request
from tests.engines.conftest import AnEngine
from tests.engines.silent import SilentCall
from tests.patience import LONG, PROMPT


@pytest.fixture
def backend(engine: AnEngine, make_channel: Callable[[Endpoint], Channel]) -> Iterator[Engine]:
    backend = Engine(parse_endpoint(engine.address), make_channel)
    yield backend
    backend.close()


def generate(backend: Engine, n: int = 1, *, first: float = LONG, idle: float = LONG) -> Generation:
    return Placement([backend]).generate(
        Job(GENERATE, [request() for _ in range(n)], [f"sample {i}" for i in range(n)]),
        timeout=LONG,
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
    assert time.monotonic() - started < PROMPT
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


def test_an_aborted_sample_is_news_until_it_is_completed(backend: Engine, engine: AnEngine) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.01
    try:
        generation = generate(backend, 2)
        told: list[str] = []
        generation.when_over(lambda: told.append("over"))
        generation.wait()
        generation.abort(1)
        assert (generation.is_aborted(0), generation.is_aborted(1)) == (False, True)
        for _ in range(3):
            assert 1 in dict(generation.wait(5.0))
        generation.complete(1, engine_goes_on=True)
        engine.wait_until(lambda: engine.active == 1)
        generation.wait(5.0)
        assert told == []

        generation.abort()
        assert 0 in dict(generation.wait(5.0))
        generation.complete(0, engine_goes_on=True)
        engine.wait_until(lambda: engine.active == 0)
        assert told == ["over"]
        generation.abort()
        generation.cancel()
        assert told == ["over"]
    finally:
        engine.options.token_delay = 0.0


def test_an_abort_ends_a_wait_for_an_engine_that_says_nothing(
    backend: Engine, engine: AnEngine
) -> None:
    engine.fault("hang,times=1")
    generation = generate(backend)
    threading.Timer(0.1, generation.abort).start()
    assert generation.wait(30.0) == [(0, [])]
    generation.complete(0, engine_goes_on=True)
    engine.wait_until(lambda: engine.active == 0)


def test_a_listener_hears_of_an_abort() -> None:
    calls = [SilentCall(listens=True) for _ in range(3)]
    generation = Generation(calls, threading.Event(), first_timeout=10.0, idle_timeout=10.0)
    heard: list[int] = []

    def on_news() -> None:
        # It completes what it is told of at once, as a stream does.
        for index, _ in generation.take():
            generation.complete(index, engine_goes_on=True)
            heard.append(index)

    assert generation.listen(on_news)
    generation.abort(1)
    assert heard == [1]
    generation.abort()
    assert heard == [1, 0, 2]
    assert not generation.running


def test_nobody_hears_of_an_abort_who_has_ended_to_listen() -> None:
    calls = [SilentCall(listens=True)]
    generation = Generation(calls, threading.Event(), first_timeout=10.0, idle_timeout=10.0)
    heard: list[bool] = []
    generation.listen(lambda: heard.append(True))
    generation.listen(None)
    generation.abort()
    assert heard == []
    assert generation.arrived.is_set()


def test_cancelling_is_an_end_too(backend: Engine, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    generation = generate(backend)
    told: list[str] = []
    generation.when_over(lambda: told.append("over"))
    generation.cancel()
    generation.cancel()
    assert told == ["over"]


@pytest.mark.parametrize("waits", [True, False], ids=["while it waits", "before"])
def test_a_wait_can_be_ended_by_another_thread(
    backend: Engine, engine: AnEngine, waits: bool
) -> None:
    engine.fault("hang,times=1")
    generation = generate(backend)
    started = time.monotonic()
    if waits:
        threading.Timer(0.1, generation.interrupt).start()
    else:
        generation.interrupt()
    with pytest.raises(ClientGone):
        generation.wait()
    assert time.monotonic() - started < PROMPT
    # The calls are the waiter's, who may be in the middle of them.
    assert generation.running
    generation.cancel()
    engine.wait_until(lambda: engine.active == 0)
