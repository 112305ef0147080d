"""The calls of one request and their deadlines, over real channels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.exchange import Deadlines, End, Exchange
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.placement import Job, Placement
from sglrouter.engines.wire.scheduler import GENERATE
from sglrouter.errors import BadRequest, ClientGone, EngineError, EngineTimeout, RouterError
from tests.engines.calls import request
from tests.engines.conftest import AnEngine
from tests.engines.placed import OfCalls, exchange_of
from tests.engines.silent import SilentCall
from tests.patience import LONG, PROMPT


@pytest.fixture
def backend(engine: AnEngine, make_channel: Callable[[Endpoint], Channel]) -> Iterator[Engine]:
    backend = Engine(parse_endpoint(engine.address), make_channel)
    yield backend
    backend.close()


def generate(backend: Engine, n: int = 1, *, first: float = LONG, idle: float = LONG) -> Exchange:
    job = Job(GENERATE, [request() for _ in range(n)], [f"sample {i}" for i in range(n)])
    exchange = Exchange(Placement([backend]), job, Deadlines(LONG, first, idle))
    exchange.begin()
    return exchange


def wait_for_error(exchange: Exchange) -> RouterError:
    def drain() -> None:
        for _ in range(1000):
            exchange.wait()

    with pytest.raises(RouterError) as caught:
        drain()
    return caught.value


def test_every_sample_is_told_by_its_index(backend: Engine, engine: AnEngine) -> None:
    engine.script([[5], [5]], [[6], [6], [6]])
    exchange = generate(backend, 2)
    ids: dict[int, list[int]] = {0: [], 1: []}
    while exchange.running:
        for index, messages in exchange.wait():
            for message in messages:
                response = pb.GenerateResponse.FromString(message)
                ids[index] += response.chunk.token_ids
                if response.HasField("complete"):
                    exchange.complete(index)
    # Which call the engine takes first is its own affair.
    eos = engine_eos(ids)
    assert sorted(ids.values()) == [[5, 5, eos], [6, 6, 6, eos]]


def engine_eos(ids: dict[int, list[int]]) -> int:
    (eos,) = {answer[-1] for answer in ids.values()}
    return eos


def test_a_wait_ends_without_news(backend: Engine, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    exchange = generate(backend)
    started = time.monotonic()
    assert exchange.wait(0.05) == []
    assert time.monotonic() - started < PROMPT
    assert exchange.running
    exchange.cancel()
    assert not exchange.running
    engine.wait_until(lambda: engine.active == 0)


def test_no_first_message_in_time_is_an_error(backend: Engine, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    exchange = generate(backend, first=0.1)
    error = wait_for_error(exchange)
    assert isinstance(error, EngineTimeout)
    assert error.status == 504
    assert "did not answer" in error.message
    exchange.cancel()


def test_silence_after_the_first_message_is_an_error(backend: Engine, engine: AnEngine) -> None:
    engine.script([[7]] * 10)
    engine.fault("hang,after=3,times=1")
    exchange = generate(backend, idle=0.1)
    error = wait_for_error(exchange)
    assert isinstance(error, EngineTimeout)
    assert "went silent" in error.message
    exchange.cancel()


def test_one_silent_sample_is_noticed_beside_a_lively_one(
    backend: Engine, engine: AnEngine
) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.01
    try:
        engine.fault("hang,after=2,times=1")
        exchange = generate(backend, 2, idle=0.3)
        assert isinstance(wait_for_error(exchange), EngineTimeout)
        exchange.cancel()
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
    exchange = generate(backend)
    error = wait_for_error(exchange)
    assert isinstance(error, kind)
    assert error.status == status
    exchange.cancel()


def test_completing_a_sample_that_goes_on_stops_the_engine(
    backend: Engine, engine: AnEngine
) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.01
    try:
        exchange = generate(backend)
        exchange.wait()
        exchange.complete(0, engine_goes_on=True)
        assert not exchange.running
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0


def test_a_completed_call_is_not_cancelled(backend: Engine, engine: AnEngine) -> None:
    engine.script([[7]] * 3)
    before = len(engine.cancelled)
    exchange = generate(backend)
    seen = 0
    while seen < 5:  # 3, EOS, complete
        seen += sum(len(messages) for _, messages in exchange.wait())
    exchange.complete(0)
    exchange.cancel()
    engine.wait_until(lambda: engine.active == 0)
    assert len(engine.cancelled) == before


def test_an_aborted_sample_is_news_until_it_is_completed(backend: Engine, engine: AnEngine) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.01
    try:
        exchange = generate(backend, 2)
        told: list[str] = []
        exchange.on_over(lambda _: told.append("over"))
        exchange.wait()
        exchange.abort(1)
        assert (exchange.is_aborted(0), exchange.is_aborted(1)) == (False, True)
        for _ in range(3):
            assert 1 in dict(exchange.wait(5.0))
        exchange.complete(1, engine_goes_on=True)
        engine.wait_until(lambda: engine.active == 1)
        exchange.wait(5.0)
        assert told == []

        exchange.abort()
        assert 0 in dict(exchange.wait(5.0))
        exchange.complete(0, engine_goes_on=True)
        engine.wait_until(lambda: engine.active == 0)
        assert told == ["over"]
        exchange.abort()
        exchange.cancel()
        assert told == ["over"]
    finally:
        engine.options.token_delay = 0.0


def test_an_abort_ends_a_wait_for_an_engine_that_says_nothing(
    backend: Engine, engine: AnEngine
) -> None:
    engine.fault("hang,times=1")
    exchange = generate(backend)
    threading.Timer(0.1, exchange.abort).start()
    assert exchange.wait(30.0) == [(0, [])]
    exchange.complete(0, engine_goes_on=True)
    engine.wait_until(lambda: engine.active == 0)


def test_a_listener_hears_of_an_abort() -> None:
    calls = [SilentCall(listens=True) for _ in range(3)]
    exchange = exchange_of(*calls)
    heard: list[int] = []

    def on_news() -> None:
        # It completes what it is told of at once, as a stream does.
        for index, _ in exchange.take():
            exchange.complete(index, engine_goes_on=True)
            heard.append(index)

    assert exchange.listen(on_news)
    exchange.abort(1)
    assert heard == [1]
    exchange.abort()
    assert heard == [1, 0, 2]
    assert not exchange.running


def test_nobody_hears_of_an_abort_who_has_ended_to_listen() -> None:
    calls = [SilentCall(listens=True)]
    exchange = exchange_of(*calls)
    heard: list[bool] = []
    exchange.listen(lambda: heard.append(True))
    exchange.listen(None)
    exchange.abort()
    assert heard == []
    assert exchange.arrived.is_set()


def test_cancelling_is_an_end_too(backend: Engine, engine: AnEngine) -> None:
    engine.fault("hang,times=1")
    exchange = generate(backend)
    told: list[str] = []
    exchange.on_over(lambda _: told.append("over"))
    exchange.cancel()
    exchange.cancel()
    assert told == ["over"]


@pytest.mark.parametrize("waits", [True, False], ids=["while it waits", "before"])
def test_a_wait_can_be_ended_by_another_thread(
    backend: Engine, engine: AnEngine, waits: bool
) -> None:
    engine.fault("hang,times=1")
    exchange = generate(backend)
    started = time.monotonic()
    if waits:
        threading.Timer(0.1, exchange.interrupt).start()
    else:
        exchange.interrupt()
    with pytest.raises(ClientGone):
        exchange.wait()
    assert time.monotonic() - started < PROMPT
    # The calls are the waiter's, who may be in the middle of them.
    assert exchange.running
    exchange.cancel()
    engine.wait_until(lambda: engine.active == 0)


def ends_of(exchange: Exchange) -> list[tuple[End | None, str]]:
    ends: list[tuple[End | None, str]] = []
    exchange.on_over(lambda over: ends.append((over.end, over.failure)))
    return ends


def test_the_end_of_an_exchange_says_how_it_was() -> None:
    placement = OfCalls([SilentCall(), SilentCall()])
    complete = Exchange(placement, Job("/a/B", [b""] * 2, ["a", "b"]), Deadlines(9.0, 9.0, 9.0))
    complete.begin()
    ends = ends_of(complete)
    complete.complete(0)
    assert (ends, placement.released) == ([], 0)
    complete.complete(1, engine_goes_on=True)
    complete.cancel()
    assert (ends, placement.released) == ([(End.COMPLETE, "")], 1)
    assert placement.aborted == ["b"]
    # Who comes late hears of it at once.
    assert ends_of(complete) == [(End.COMPLETE, "")]

    cancelled = exchange_of(SilentCall())
    ends = ends_of(cancelled)
    cancelled.end_early(ClientGone())
    assert ends == [(End.CANCELLED, "")]

    late = exchange_of(SilentCall(), first=0.0)
    ends = ends_of(late)
    with pytest.raises(EngineTimeout):
        late.wait()
    late.cancel()
    assert ends == [(End.FAILED, "engine_timeout")]

    failed = exchange_of(SilentCall())
    ends = ends_of(failed)
    failed.fail(EngineError("what it said makes no sense"))
    assert ends == [(End.FAILED, "engine_error")]


def test_calls_that_cannot_all_be_made_are_an_end() -> None:
    calls = [SilentCall(), SilentCall()]
    placement = OfCalls(calls[:1])
    exchange = Exchange(placement, Job("/a/B", [b""] * 2, ["a", "b"]), Deadlines(9.0, 9.0, 9.0))
    with pytest.raises(IndexError):
        exchange.begin()
    assert (exchange.end, placement.released, placement.aborted) == (End.CANCELLED, 1, ["a"])
