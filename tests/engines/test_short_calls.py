"""Many calls for one request, made to a simulated engine."""

from __future__ import annotations

import threading
import time

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.engines.exchange import PARALLEL, Deadlines, End, Exchange
from sglrouter.engines.fleet.placement import Job
from sglrouter.engines.wire.scheduler import GENERATE
from sglrouter.errors import Aborted, BadRequest, ClientGone, EngineError, EngineTimeout
from tests.engines.calls import request
from tests.engines.conftest import AnEngine, Connect
from tests.engines.placed import OnChannel
from tests.patience import DEADLINE, PATIENCE, PROMPT


def batch(
    connect: Connect,
    engine: AnEngine,
    count: int,
    *,
    parallel: int = PARALLEL,
    timeout: float = PATIENCE,
    call_timeout: float = PATIENCE,
) -> Exchange:
    """Asks about prompts of one token, two tokens, and so on."""
    requests = [
        request(stream=False, max_new_tokens=0, ids=[1] * (number + 1)) for number in range(count)
    ]
    job = Job(GENERATE, requests, metadata=[("x-request-id", "mine")])
    placement = OnChannel(connect(engine.address))
    deadlines = Deadlines(timeout, call_timeout, timeout)
    return Exchange(placement, job, deadlines, parallel=parallel)


def prompt_tokens(message: bytes) -> int:
    return pb.GenerateResponse.FromString(message).complete.prompt_tokens


@pytest.mark.parametrize("parallel", [1, 3, 100])
def test_each_answer_comes_with_its_number(
    connect: Connect, engine: AnEngine, parallel: int
) -> None:
    answers = list(batch(connect, engine, 40, parallel=parallel).answers())
    assert {number: prompt_tokens(message) for number, message in answers} == {
        number: number + 1 for number in range(40)
    }
    assert len(answers) == 40
    assert engine.metadata[-1]["x-request-id"] == "mine"


def test_nothing_to_ask_is_no_answer(connect: Connect, engine: AnEngine) -> None:
    assert list(batch(connect, engine, 0).answers()) == []


def test_so_many_are_under_way_and_no_more(connect: Connect, engine: AnEngine) -> None:
    before = len(engine.requests)
    engine.fault("hang")
    with pytest.raises(EngineTimeout) as caught:
        list(batch(connect, engine, 20, parallel=5, call_timeout=DEADLINE).answers())
    assert caught.value.status == 504
    assert len(engine.requests) == before + 5
    engine.wait_until(lambda: engine.active == 0)


def test_the_first_failure_ends_all(connect: Connect, engine: AnEngine) -> None:
    before = len(engine.requests)
    engine.fault("fail,status=INVALID_ARGUMENT,times=1,message=too odd", "hang")
    began = time.monotonic()
    with pytest.raises(BadRequest, match="too odd"):
        list(batch(connect, engine, 20, parallel=5).answers())
    assert time.monotonic() - began < PROMPT
    engine.wait_until(lambda: engine.active == 0)
    assert len(engine.requests) <= before + 5


def test_a_call_without_an_answer_is_a_failure(connect: Connect, engine: AnEngine) -> None:
    engine.fault("close")
    with pytest.raises(EngineError, match="0 answers"):
        list(batch(connect, engine, 3).answers())


def test_a_client_that_leaves_ends_all(connect: Connect, engine: AnEngine) -> None:
    before = len(engine.requests)
    engine.wait_until(lambda: engine.active == 0)
    engine.fault("hang")
    waiting = batch(connect, engine, 20, parallel=5)

    def leave() -> None:
        engine.wait_until(lambda: engine.active == 5)
        waiting.end_early(ClientGone())

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(ClientGone):
        list(waiting.answers())
    leaving.join()
    engine.wait_until(lambda: engine.active == 0)
    assert len(engine.requests) == before + 5


def test_a_client_that_left_before_the_end_gets_no_half_answer(
    connect: Connect, engine: AnEngine
) -> None:
    waiting = batch(connect, engine, 3, parallel=3)
    answers = waiting.answers()
    next(answers)
    waiting.end_early(ClientGone())
    with pytest.raises(ClientGone):
        list(answers)


def test_who_stops_asking_leaves_nothing_behind(connect: Connect, engine: AnEngine) -> None:
    before = len(engine.requests)
    engine.fault("hang,after=1")
    answers = batch(connect, engine, 20, parallel=2, call_timeout=DEADLINE).answers()
    with pytest.raises(EngineTimeout):
        next(answers)
    engine.fault()
    answers = batch(connect, engine, 20, parallel=2).answers()
    next(answers)
    answers.close()
    engine.wait_until(lambda: engine.active == 0)
    assert len(engine.requests) <= before + 2 + 4


def test_all_together_have_a_deadline(connect: Connect, engine: AnEngine) -> None:
    before = len(engine.requests)
    waiting = batch(connect, engine, 200, parallel=1, timeout=0.3)

    def follow_slowly() -> None:
        for _ in waiting.answers():
            time.sleep(0.05)

    with pytest.raises(EngineTimeout):
        follow_slowly()
    assert len(engine.requests) - before < 20


def test_an_abort_ends_short_calls_and_tells_no_engine_by_name(
    connect: Connect, engine: AnEngine
) -> None:
    engine.fault("hang")
    before = len(engine.aborted)
    exchange = batch(connect, engine, 3)
    aborting = threading.Timer(0.1, exchange.abort)
    aborting.start()
    with pytest.raises(Aborted):
        list(exchange.answers())
    assert exchange.end is End.CANCELLED
    engine.wait_until(lambda: engine.active == 0)
    assert len(engine.aborted) == before
    with pytest.raises(Aborted):
        list(exchange.answers())


def test_short_calls_have_an_end(connect: Connect, engine: AnEngine) -> None:
    exchange = batch(connect, engine, 3)
    ends: list[End | None] = []
    exchange.on_over(lambda over: ends.append(over.end))
    list(exchange.answers())
    engine.fault("close")
    failing = batch(connect, engine, 3)
    failing.on_over(lambda over: ends.append(over.end))
    with pytest.raises(EngineError):
        list(failing.answers())
    assert ends == [End.COMPLETE, End.FAILED]
