"""Many calls for one request, made to a simulated engine."""

from __future__ import annotations

import threading
import time

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.engines.batch import Batch
from sglrouter.engines.wire.scheduler import GENERATE
from sglrouter.errors import BadRequest, ClientGone, EngineError, EngineTimeout
from tests.engines.calls import request
from tests.engines.conftest import AnEngine, Connect
from tests.patience import DEADLINE, PATIENCE, PROMPT


def batch(connect: Connect, engine: AnEngine, count: int, **options: float) -> Batch:
    """Asks about prompts of one token, two tokens, and so on."""
    requests = [
        request(stream=False, max_new_tokens=0, ids=[1] * (number + 1)) for number in range(count)
    ]
    timeouts = {"timeout": PATIENCE, "call_timeout": PATIENCE, **options}
    return Batch(
        connect(engine.address),
        GENERATE,
        requests,
        metadata=[("x-request-id", "mine")],
        **timeouts,  # type: ignore[arg-type]
    )


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
