"""Streams written from the event loop keep HTTP as gunicorn keeps it, and end alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.integration.sockets import raw_client
from tests.patience import LONG, PROMPT
from tests.processes import RouterProcess, joined, sse_data


def text_of(body: bytes) -> str:
    *events, done = sse_data(body.decode())
    assert done == "[DONE]"
    return joined([json.loads(event) for event in events])


def test_a_connection_is_kept_for_the_next_stream(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three")
    with raw_client(router.port) as client:
        for _ in range(3):
            client.post(stream=True)
            head = client.until(b"\r\n\r\n").lower()
            assert b"transfer-encoding: chunked" in head
            assert b"connection: keep-alive" in head
            assert text_of(client.chunked_body()) == "one two three"
            assert client.data == b""


def test_the_head_comes_with_the_first_events(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three")
    with raw_client(router.port) as client:
        client.post(stream=True)
        assert b'"role":"assistant"' in client.receive()


def test_http_1_0_gets_plain_bytes_and_a_closed_connection(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three")
    with raw_client(router.port) as client:
        client.post("1.0", stream=True)
        head = client.until(b"\r\n\r\n").lower()
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        while client.receive():
            pass
        assert text_of(client.data) == "one two three"


def test_a_pipelined_request_is_no_disconnect(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three")
    engine.options.token_delay = 0.05
    try:
        with raw_client(router.port) as client:
            client.post(stream=True)
            client.post(stream=False)
            client.until(b"\r\n\r\n")
            assert text_of(client.chunked_body()) == "one two three"
            client.until(b"\r\n\r\n")
            client.until(b'"one two three"')
    finally:
        engine.options.token_delay = 0.0


def test_the_access_log_counts_what_was_written(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    engine.script("one two three")
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model, access_log=True)
    response = router.chat(stream=True)
    line = f'"POST /v1/chat/completions HTTP/1.1" 200 {len(response.content)} '
    engine.wait_until(lambda: line in router.log)


@pytest.mark.long
@pytest.mark.usefixtures("native")  # grpcio's windows are larger than this stream
@pytest.mark.parametrize("plain", [True, False])
def test_a_stalled_client_stalls_its_own_stream_alone(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, plain: bool
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, unknown_models="accept"
    )
    # Some eight megabytes of events, more than the sockets between hold: it is the model's
    # name that makes them large, or the log probabilities.
    tokens = 10_000 if plain else 3500
    long = [[7 + i % 50] for i in range(tokens)]
    engine.script(long, "quick")
    fields: dict[str, object] = {"stream": True, "max_tokens": 20_000}
    fields |= {"model": "m" * 1000} if plain else {"logprobs": True, "top_logprobs": 20}
    with raw_client(router.port, receive_buffer=4096) as client:
        client.post(**fields)  # type: ignore[arg-type]
        client.until(b"\r\n\r\n")
        before = time.monotonic()
        # The engine makes some thousand messages a second: it would long be through.
        while time.monotonic() < before + 4:
            assert joined(router.stream()) == "quick"
            time.sleep(0.2)
        assert engine.active == 1, "the engine was not held back"
        body = client.chunked_body()
    *events, done = sse_data(body.decode())
    assert done == "[DONE]"
    if plain:
        engine.script(long)
        whole = router.chat(**(fields | {"stream": False})).json()
        assert (
            joined([json.loads(event) for event in events])
            == (whole["choices"][0]["message"]["content"])
        )
        return
    entries = [
        entry
        for event in events
        for choice in json.loads(event)["choices"]
        if choice["logprobs"]
        for entry in choice["logprobs"]["content"]
    ]
    assert len(entries) == tokens


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("when", ["before the first token", "in the middle", "in silence"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_noticed_at_once(
    router: RouterProcess, engine: SimulatedEngine, stream: bool, when: str, reset: bool
) -> None:
    engine.script([[7]] * 3000)
    engine.options.first_delay = LONG if when == "before the first token" else 0.0
    engine.options.token_delay = 0.02
    if when == "in silence":
        engine.fault("hang,after=2,times=2")
    before = len(engine.cancelled)
    try:
        with raw_client(router.port) as client:
            client.post(stream=stream, n=2)
            engine.wait_until(lambda: engine.active == 2)
            if stream and when != "before the first token":
                client.until(b'"content"')
            started = time.monotonic()
            client.close(reset=reset)
        engine.wait_until(lambda: len(engine.cancelled) == before + 2)
        assert time.monotonic() - started < PROMPT
        engine.wait_until(lambda: engine.active == 0)
        # Each call once, and nothing else is hurt.
        assert len(engine.cancelled) == before + 2
        # By name as well: real engines overhear a cancellation now and then.
        named = set(engine.cancelled[before:])
        engine.wait_until(lambda: named <= set(engine.aborted))
    finally:
        engine.options.first_delay = engine.options.token_delay = 0.0
    engine.fault()
    engine.script("still here")
    assert joined(router.stream()) == "still here"
