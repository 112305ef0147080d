"""Streams that somebody cancels, drops or closes, with threads or greenlets around."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from sglrouter import Cancelled, Client, Timeouts
from sglrouter.client.stream import ChatCompletionStream
from sglrouter.serving.answer import Answer
from tests.client.conftest import AnEngine, Open, question, wait_until
from tests.patience import PATIENCE, PROMPT
from tests.processes import finish_reason, joined


def in_thread(function: Callable[[], Any]) -> Future[Any]:
    """Runs it in a thread; its result or failure is the future's."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    return future


def read_on(stream: ChatCompletionStream) -> None:
    """Reads until it cannot go on."""
    for _ in stream:
        pass


def is_idle(engine: AnEngine) -> Callable[[], bool]:
    return lambda: engine.active == 0


@pytest.mark.parametrize("silent", [False, True], ids=["tokens come", "none come"])
def test_cancel_ends_the_wait_of_another_thread(
    client: Client, endless: AnEngine, silent: bool
) -> None:
    if silent:
        endless.fault("hang,times=1,after=3")
    stream = client.create_chat_completion_stream(question())
    stream.recv()
    reader = in_thread(lambda: read_on(stream))
    time.sleep(0.2)
    started = time.monotonic()
    stream.cancel()
    with pytest.raises(Cancelled):
        reader.result(PATIENCE)
    assert time.monotonic() - started < PROMPT
    wait_until(is_idle(endless), "the engine's rest")
    assert not client.errors
    with pytest.raises(Cancelled):
        stream.recv()


def test_cancel_reaches_the_engine_while_nobody_reads(client: Client, endless: AnEngine) -> None:
    stream = client.create_chat_completion_stream(question())
    stream.recv()
    in_thread(stream.cancel).result(PATIENCE)
    wait_until(is_idle(endless), "the engine's rest")
    with pytest.raises(Cancelled):
        stream.recv_json()


def test_chunks_that_wait_are_dropped_by_a_cancel(client: Client, engine: AnEngine) -> None:
    engine.script("one two three four five six seven eight nine ten")
    before = len(engine.requests)
    stream = client.create_chat_completion_stream(question(logprobs=True))
    wait_until(lambda: len(engine.requests) > before and engine.active == 0)
    stream.recv()
    assert stream._chunks
    stream.cancel()
    with pytest.raises(Cancelled):
        stream.recv()


def test_cancel_before_the_first_chunk(client: Client, endless: AnEngine) -> None:
    stream = client.create_chat_completion_stream(question())
    stream.cancel()
    with pytest.raises(Cancelled):
        next(stream)
    wait_until(is_idle(endless), "the engine's rest")


def test_leaving_the_block_cancels_what_is_left(client: Client, endless: AnEngine) -> None:
    with client.create_chat_completion_stream(question()) as stream:
        assert stream.recv()["choices"][0]["delta"]["role"] == "assistant"
    wait_until(is_idle(endless), "the engine's rest")


def test_a_stream_that_is_dropped_is_cancelled(client: Client, endless: AnEngine) -> None:
    stream = client.create_chat_completion_stream(question())
    stream.recv()
    del stream
    gc.collect()
    wait_until(is_idle(endless), "the engine's rest")
    wait_until(lambda: not client._running, "the client's rest")


def test_a_stream_that_was_read_cannot_be_cancelled(client: Client) -> None:
    stream = client.create_chat_completion_stream(question(max_tokens=2))
    read_on(stream)
    stream.cancel()
    with pytest.raises(EOFError):
        stream.recv()
    assert not client._running


def test_each_chunk_goes_to_one_of_several_readers(client: Client, engine: AnEngine) -> None:
    engine.script([[301]] * 300)
    stream = client.create_chat_completion_stream(question())
    with ThreadPoolExecutor(4) as threads:
        parts = [part.result(PATIENCE) for part in [threads.submit(list, stream) for _ in range(4)]]
    chunks = [chunk for part in parts for chunk in part]
    assert finish_reason(chunks) == "stop"
    engine.script([[301]] * 300)
    whole = client.create_chat_completion(question())
    assert joined(chunks) == whole["choices"][0]["message"]["content"]


# Closing the client.


def test_close_cancels_what_runs(open_client: Open, endless: AnEngine) -> None:
    client = open_client()
    stream = client.create_chat_completion_stream(question())
    readers = [
        in_thread(lambda: read_on(stream)),
        in_thread(lambda: client.create_chat_completion(question())),
    ]
    wait_until(lambda: endless.active == 2, "two calls")
    aborted = len(endless.aborted)
    started = time.monotonic()
    client.close()
    assert time.monotonic() - started < PROMPT
    for reader in readers:
        with pytest.raises(Cancelled):
            reader.result(PATIENCE)
    wait_until(is_idle(endless), "the engine's rest")
    # By name as well: engines overhear some of the cancellations.
    assert len(endless.aborted) == aborted + 2
    client.close()
    for start in (client.create_chat_completion, client.create_chat_completion_stream):
        with pytest.raises(RuntimeError, match="closed"):
            start(question())


def test_close_waits_only_so_long(open_client: Open, endless: AnEngine) -> None:
    client = open_client(timeouts=Timeouts(close_timeout=0.3))
    stream = client.create_chat_completion_stream(question())
    with stream._work._turn:  # a reader that does not come back
        started = time.monotonic()
        client.close()
        assert 0.2 < time.monotonic() - started < PROMPT


def test_a_request_that_is_just_being_checked_is_closed_as_well(
    open_client: Open, endless: AnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_client()
    start = client._serving.start

    def slow_start(*arguments: Any, **options: Any) -> Answer:
        client.close()
        return start(*arguments, **options)

    monkeypatch.setattr(client._serving, "start", slow_start)
    with pytest.raises(Cancelled):
        client.create_chat_completion(question())
    wait_until(is_idle(endless), "the engine's rest")
    assert client._fleet.engines[0]._channel is None


def test_the_block_closes_the_client(open_client: Open) -> None:
    with open_client() as client:
        assert client.create_chat_completion(question(max_tokens=1))
    with pytest.raises(RuntimeError, match="closed"):
        client.create_chat_completion(question())


# Many at a time.


@pytest.mark.long
def test_threads_share_a_client(client: Client, engine: AnEngine) -> None:
    """Eight threads of fifty requests each, half of which are cancelled on the way."""
    engine.options.answer = "echo"
    texts = [f"{i} times of " + "what was said " * i for i in range(40)]
    expected = [client.create_chat_completion(question(text)) for text in texts]

    def work(thread: int) -> int:
        dice = random.Random(thread)
        served = 0
        for i in range(50):
            place = dice.randrange(len(texts))
            whole = expected[place]["choices"][0]["message"]["content"]
            if i % 2:
                stream = client.create_chat_completion_stream(question(texts[place]))
                stream.recv()
                canceller = in_thread(stream.cancel) if i % 4 == 1 else None
                try:
                    text = ""
                    for _ in range(dice.randrange(4)):
                        text += stream.recv()["choices"][0]["delta"].get("content") or ""
                    assert whole.startswith(text)
                    stream.close()
                except (Cancelled, EOFError):
                    pass
                if canceller is not None:
                    canceller.result(PATIENCE)
            elif i % 4:
                chunks = list(client.create_chat_completion_stream(question(texts[place])))
                assert joined(chunks) == whole
                served += 1
            else:
                completion = client.create_chat_completion(question(texts[place]))
                assert completion["choices"][0]["message"]["content"] == whole
                served += 1
        return served

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(work, range(8)))
    assert results == [25] * 8
    engine.options.answer = "model"
    wait_until(is_idle(engine), "the engine's rest")
    wait_until(lambda: not client._running, "the client's rest")
    assert not client.errors
