"""Each timeout, buffer and setting of a client does what it says."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sglrouter import Buffers, Client, Timeouts
from sglrouter.client.client import SERVER_SETTINGS
from sglrouter.client.stream import ChatCompletionStream
from sglrouter.config import Settings
from sglrouter.engines.channel.grpcio import GrpcioCall
from sglrouter.errors import BadRequest, ConfigError, EngineError, EngineTimeout
from sglrouter.setting_sources import load_settings
from tests.client.conftest import PATCHED, AnEngine, Open, question, wait_until
from tests.engines.remote import RemoteEngine
from tests.patience import DEADLINE, PROMPT
from tests.processes import finish_reason, joined


@pytest.mark.parametrize(
    ("timeouts", "after", "words"),
    [
        (Timeouts(request=0.3), 0, "too long"),
        (Timeouts(request=0.3), 3, "too long"),
        (Timeouts(first_token=0.3), 0, "did not answer for 0.3"),
        (Timeouts(idle=0.3), 3, "went silent for 0.3"),
    ],
)
def test_engines_have_deadlines(
    open_client: Open, engine: AnEngine, timeouts: Timeouts, after: int, words: str
) -> None:
    client = open_client(timeouts=timeouts)
    engine.script([[301]] * 10)
    engine.fault(f"hang,after={after},times=2")
    started = time.monotonic()
    with pytest.raises(EngineTimeout, match=words):
        list(client.create_chat_completion_stream(question()))
    if after == 0:
        with pytest.raises(EngineTimeout, match=words):
            client.create_chat_completion(question())
    assert 0.25 < time.monotonic() - started < PROMPT
    wait_until(lambda: engine.active == 0, "the engine's rest")


def test_deadlines_are_settings_otherwise(open_client: Open) -> None:
    settings = open_client(timeouts=Timeouts(idle=5), request_timeout=7.0).settings
    assert (settings.request_timeout, settings.idle_timeout) == (7.0, 5.0)
    assert settings.first_token_timeout == Settings().first_token_timeout


def test_an_engine_that_answers_no_pings_is_given_up(open_client: Open) -> None:
    with RemoteEngine() as frozen:
        frozen.fault("hang,times=1")
        timeouts = Timeouts(keepalive_time=0.3, keepalive_timeout=DEADLINE)
        client = open_client(frozen.address, timeouts=timeouts)
        stream = client.create_chat_completion_stream(question())
        wait_until(lambda: frozen.active == 1)
        with frozen.frozen():
            started = time.monotonic()
            with pytest.raises(EngineError, match="not available"):
                stream.recv()
            assert time.monotonic() - started < PROMPT


def held(stream: ChatCompletionStream) -> list[bytes]:
    """The messages that have been read ahead."""
    return [message for _, messages in stream._answer.exchange.take() for message in messages]


def test_messages_are_read_ahead_only_so_far(open_client: Open, engine: AnEngine) -> None:
    engine.script([[301]] * 2000)
    client = open_client(buffers=Buffers(received=50))
    stream = client.create_chat_completion_stream(question())
    is_native = client.settings.channel == "native"
    wait_until(lambda: engine.active == 1)
    if not is_native:
        (call,) = stream._answer.exchange._running.values()
        assert isinstance(call, GrpcioCall)
        wait_until(lambda: len(call._messages) == 50)
    time.sleep(0.5)  # in which more would come
    previous = held(stream)
    if is_native:
        # The engine waits, for it has used up 64 bytes of credit for each message.
        assert 20 < len(previous) < 100
        assert engine.active == 1
    else:
        assert len(previous) == 50
    stream.cancel()


def test_a_small_buffer_loses_nothing(open_client: Open, engine: AnEngine) -> None:
    small = Buffers(received=1, results=1, errors=0)
    client = open_client(buffers=small)
    texts = []
    for _ in range(2):
        engine.script([[301]] * 500, [[302]] * 300)
        chunks = list(client.create_chat_completion_stream(question(n=2)))
        for index in range(2):
            assert finish_reason(chunks, index) == "stop"
        texts.append(sorted(joined(chunks, index) for index in range(2)))
        client = open_client()
    assert texts[0] == texts[1]
    assert len(texts[0][0]) > 300


def test_chunks_are_made_ahead_only_so_far(open_client: Open, engine: AnEngine) -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {"a": "b"}}\n</tool_call>'
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    counts = {}
    for results in (3, 10_000):
        engine.script(call * 30)
        client = open_client(buffers=Buffers(results=results), tool_call_parser="hermes")
        before = len(engine.requests)
        stream = client.create_chat_completion_stream(question(tools=tools))
        wait_until(lambda before=before: len(engine.requests) > before and engine.active == 0)  # type: ignore[misc]
        time.sleep(0.1)
        stream.recv()
        counts[results] = len(stream._chunks)
        chunks = list(stream)
        calls = [
            each for chunk in chunks for each in chunk["choices"][0]["delta"].get("tool_calls", ())
        ]
        assert sum("id" in each for each in calls) == 30
    assert counts[3] <= 3
    assert counts[10_000] > 3


def test_failures_are_kept_and_the_oldest_go(open_client: Open, engine: AnEngine) -> None:
    client = open_client(buffers=Buffers(errors=2))
    for number in range(3):
        engine.fault(f"fail,times=1,status=INTERNAL,message=number {number}")
        with pytest.raises(EngineError):
            list(client.create_chat_completion_stream(question()))
    assert [error.message[-1] for error in client.errors] == ["1", "2"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"colour": "red"}, "Client: colour: there is no such setting"),
        ({"max_n": 1000}, "Client: max_n: .*128"),
        ({"channel": "carrier pigeon"}, "Client: channel"),
        ({"timeouts": Timeouts(keepalive_time=0)}, "Timeouts: .*keepalive_time"),
        ({"timeouts": Timeouts(close_timeout=-1)}, "Timeouts: .*close_timeout"),
        ({"timeouts": Timeouts(idle=float("nan"))}, "Timeouts: .*idle"),
        ({"timeouts": Timeouts(keepalive_timeout=float("inf"))}, "Timeouts: .*keepalive_timeout"),
        ({"buffers": Buffers(results=0)}, "Buffers: .*results"),
        ({"buffers": Buffers(received=0)}, "Buffers: .*received"),
        ({"buffers": Buffers(errors=-1)}, "Buffers: .*errors"),
        ({"tokenizer": "/nowhere"}, "nowhere"),
    ],
)
def test_what_is_wrong_is_told(open_client: Open, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_client(**options)


def test_engines_may_come_in_many_forms(tiny_model: Path) -> None:
    for engines in (
        "grpc://a:1,grpc://b:2",
        ["grpc://a:1", "grpc://b:2"],
        ("grpc://a:1", "grpc://b:2"),
    ):
        with Client(engines, tiny_model) as client:
            assert client.settings.engine == ["grpc://a:1", "grpc://b:2"]
    with pytest.raises(ConfigError, match=r"Client: engine: 'http://a:1' should begin with grpc"):
        Client("http://a:1", tiny_model)
    with pytest.raises(ConfigError, match=r"Client: engine: .* first argument"):
        Client("grpc://a:1", tiny_model, engine="grpc://b:2")


@pytest.mark.parametrize("name", sorted(SERVER_SETTINGS))
def test_settings_of_the_server_are_refused(tiny_model: Path, name: str) -> None:
    value = getattr(Settings(), name)
    with pytest.raises(ConfigError, match=f"Client: {name}: only a server has this setting"):
        Client("grpc://a:1", tiny_model, **{name: value})


def test_no_environment_is_read_unless_it_is_asked(
    engine: AnEngine, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLROUTER_MAX_N", "3")
    monkeypatch.setenv("SGLROUTER_ENGINE", f"grpc://{engine.address}")
    monkeypatch.setenv("SGLROUTER_TOKENIZER", str(tiny_model))
    monkeypatch.setenv("SGLROUTER_PORT", "1234")
    with Client("grpc://a:1", tiny_model) as client:
        assert client.settings.max_n == Settings().max_n
    buffers = Buffers(errors=7)
    with Client.from_settings(load_settings(), buffers=buffers) as client:
        assert client.settings.max_n == 3
        assert client.errors.maxlen == 7
        assert client.create_chat_completion(question(max_tokens=1))


def test_settings_reach_the_answer(open_client: Open) -> None:
    client = open_client(reasoning_field="both", model_name="mine", max_n=2)
    completion = client.create_chat_completion(question(max_tokens=1))
    assert completion["model"] == "mine"
    assert client._serving._openai._reasoning_fields == ("reasoning_content", "reasoning")


def test_long_prompts_leave_the_loop_alone(open_client: Open) -> None:
    client = open_client(tokenizer_threads=1)
    encoder = client._serving._service.model.prompts.encoder
    with suppress(BadRequest):  # it may be too long for the model
        client.create_chat_completion(question("long " * 5000, max_tokens=1))
    assert encoder.counts()["offloaded"] == (1 if PATCHED else 0)
