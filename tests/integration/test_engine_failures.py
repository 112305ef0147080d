"""Engines that are down, slow, refuse, or die: the client is told, the worker lives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import DEADLINE, PATIENCE
from tests.processes import RouterProcess, chat_body, free_port, joined, sse_data

MESSAGES = [{"role": "user", "content": "x"}]


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router without patience."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "first_token_timeout": 1.0,
            "idle_timeout": 1.0,
            "heartbeat": 0.2,
        }
    )
    router.start()
    yield router
    router.stop()


def error_of(text: str) -> dict[str, object]:
    error: dict[str, object] = json.loads(text)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


def broken_stream(router: RouterProcess, **fields: object) -> tuple[str, dict[str, object]]:
    """Streams a completion that breaks; returns its text and the terminal error."""
    response = router.chat(stream=True, **fields)
    assert response.status_code == 200
    *events, last, done = sse_data(response.text)
    assert done == "[DONE]"
    return joined([json.loads(event) for event in events]), error_of(last)


@pytest.mark.parametrize("stream", [False, True])
def test_no_engine_is_503(start_router: StartRouter, tiny_model: Path, stream: bool) -> None:
    router = start_router(engine=f"grpc://127.0.0.1:{free_port()}", tokenizer=tiny_model)
    for _ in range(2):
        response = router.chat(stream=stream)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert error_of(response.text)["code"] == "engine_unavailable"
    assert router.http.get("/health").status_code == 503
    assert router.http.get("/liveness").status_code == 200
    assert router.http.get("/v1/models").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_never_answers_is_504(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.fault("hang,times=1")
    if stream:
        text, error = broken_stream(router)
        assert text == ""
    else:
        response = router.chat()
        assert response.status_code == 504
        error = error_of(response.text)
    assert error["type"] == "timeout_error"
    engine.wait_until(lambda: engine.active == 0)


def test_a_full_queue_that_never_answers_is_a_timeout(
    start_router: StartRouter, tiny_model: Path
) -> None:
    options = SimOptions(max_running_requests=1, max_queued_requests=0, token_delay=0.02)
    with SimulatedEngine(options) as engine:
        engine.script([[7]] * 2000)
        router = start_router(
            engine=f"grpc://{engine.address}", tokenizer=tiny_model, first_token_timeout=DEADLINE
        )
        with router.http.stream("POST", "/v1/chat/completions", json=chat_body(stream=True)) as r:
            next(r.iter_bytes())
            refused = router.chat()
        assert refused.status_code == 504
        assert "did not answer" in str(error_of(refused.text)["message"])


def test_heartbeats_fill_the_silence(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script("late")
    engine.options.first_delay = 0.45
    try:
        response = router.chat(stream=True)
    finally:
        engine.options.first_delay = 0.0
    assert ": ping\n\n" in response.text
    *events, done = sse_data(response.text)
    assert done == "[DONE]"
    assert joined([json.loads(event) for event in events]) == "late"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "http", "kind"),
    [
        ("INVALID_ARGUMENT", 400, "invalid_request_error"),
        ("NOT_FOUND", 404, "invalid_request_error"),
        ("RESOURCE_EXHAUSTED", 429, "rate_limit_error"),
        ("UNAVAILABLE", 503, "server_error"),
        ("DEADLINE_EXCEEDED", 504, "timeout_error"),
        ("INTERNAL", 502, "server_error"),
        ("UNIMPLEMENTED", 501, "server_error"),
    ],
)
def test_a_refusal_has_its_own_status(
    router: RouterProcess,
    engine: SimulatedEngine,
    status: str,
    http: int,
    kind: str,
    stream: bool,
) -> None:
    engine.fault(f"fail,times=1,status={status},message=because, it said")
    response = router.chat(stream=stream)
    assert response.status_code == http
    error = error_of(response.text)
    assert error["type"] == kind
    assert "because, it said" in str(error["message"])


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("fail,after=3,status=INTERNAL", "engine_error"),
        ("drop,after=3", "engine_unavailable"),
        ("hang,after=3", "engine_timeout"),
        ("close,after=3", "engine_error"),
    ],
)
def test_a_stream_that_breaks_keeps_its_text_and_ends_with_an_error(
    router: RouterProcess, engine: SimulatedEngine, fault: str, code: str
) -> None:
    engine.script("one two three four five six")
    engine.fault(fault + ",times=1")
    engine.options.token_delay = 0.02  # the first is there before a connection is cut
    try:
        text, error = broken_stream(router)
    finally:
        engine.options.token_delay = 0.0
    if fault.startswith("drop"):
        # A connection that is cut may take bytes with it that have not been read.
        assert "one two three".startswith(text)
    else:
        assert text == "one two three"
    assert error["code"] == code
    engine.wait_until(lambda: engine.active == 0)
    assert joined(router.stream()) == "one two three four five six"


@pytest.mark.parametrize("fault", ["fail,status=INTERNAL", "close"])
def test_a_whole_answer_that_breaks_is_an_error(
    router: RouterProcess, engine: SimulatedEngine, fault: str
) -> None:
    engine.fault(fault + ",times=1")
    response = router.chat()
    assert response.status_code == 502
    error_of(response.text)


def test_one_broken_choice_breaks_the_answer_and_stops_the_others(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script([[7]] * 3000)
    engine.options.token_delay = 0.01
    try:
        engine.fault("fail,after=2,times=1,status=INTERNAL")
        _, error = broken_stream(router, n=3)
        assert error["code"] == "engine_error"
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0


def test_the_openai_client_sees_a_broken_stream_as_an_error(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three four")
    engine.fault("fail,after=2,times=1,status=INTERNAL,message=boom")
    stream = router.openai().chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x"}], stream=True
    )
    with pytest.raises(openai.APIError, match="boom"):
        list(stream)


def test_an_engine_that_dies_and_comes_back_serves_again(
    start_router: StartRouter, tiny_model: Path
) -> None:
    with SimulatedEngine() as engine:
        engine.script("one two three four")
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        assert joined(router.stream()) == "one two three four"
        engine.fault("die,after=2,times=1")
        engine.options.token_delay = 0.02
        text, error = broken_stream(router)
        assert "one two".startswith(text)  # a reset may take the last bytes with it
        assert error["code"] == "engine_unavailable"
        assert router.chat().status_code == 503
        engine.start()
        engine.wait_until(lambda: router.chat().status_code == 200, timeout=PATIENCE)
        assert "Booting worker" not in router.log.split("Booting worker", 1)[1]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["0.5.9", "0.13", "current"])
def test_every_engine_version_gives_the_same_text(
    start_router: StartRouter, tiny_model: Path, dialect: str, stream: bool
) -> None:
    with SimulatedEngine(SimOptions(dialect=dialect)) as engine:
        engine.script("the very same text 🚀")
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        if stream:
            assert joined(router.stream()) == "the very same text 🚀"
        else:
            choice = router.chat().json()["choices"][0]
            assert choice["message"]["content"] == "the very same text 🚀"


@pytest.mark.parametrize(("dialect", "status"), [("0.5.9", 400), ("0.13", 502), ("current", 400)])
def test_a_grammar_that_no_engine_takes_is_an_error_in_every_version(
    start_router: StartRouter, tiny_model: Path, dialect: str, status: int
) -> None:
    with SimulatedEngine(SimOptions(dialect=dialect)) as engine:
        router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model)
        for stream in (False, True):
            response = router.chat(stream=stream, regex="(((")
            assert response.status_code == status, response.text
            error_of(response.text)
