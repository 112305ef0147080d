"""A client on a gevent loop, and threads of the system beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gevent
import pytest
from gevent.monkey import get_original, is_module_patched

from sglrouter import Cancelled, ChatCompletionStream, Client
from tests.client.conftest import AnEngine, question, wait_until
from tests.patience import PATIENCE, PROMPT

if not is_module_patched("threading"):
    pytest.skip("run by tests.engines.channel.under_gevent", allow_module_level=True)

thread_now = get_original("_thread", "get_ident")


def outside(function: Callable[[], Any]) -> Any:
    """Calls it in a real thread, while the loop here goes on."""
    return gevent.get_hub().threadpool.spawn(function).get(timeout=PATIENCE)


def where_it_is_cancelled(stream: ChatCompletionStream) -> list[tuple[int, bool]]:
    """Notes the thread in which its calls are ended, and whether in the loop itself."""
    places = []
    generation = stream._answer.exchange
    cancel = generation.cancel

    def noted() -> None:
        places.append((thread_now(), gevent.getcurrent() is gevent.get_hub()))
        cancel()

    generation.cancel = noted  # type: ignore[method-assign]
    return places


def test_another_thread_cannot_wait_and_is_told(client: Client, endless: AnEngine) -> None:
    stream = client.create_chat_completion_stream(question())
    stream.recv()
    for function in (
        lambda: client.create_chat_completion(question()),
        lambda: client.create_chat_completion_stream(question()),
        lambda: [stream.recv() for _ in range(100)],
        client.close,
    ):
        with pytest.raises(RuntimeError, match="gevent loop of another thread"):
            outside(function)
    assert stream.recv()


def test_another_thread_can_cancel_what_a_greenlet_waits_for(
    client: Client, endless: AnEngine
) -> None:
    endless.fault("hang,times=1,after=3")
    stream = client.create_chat_completion_stream(question())
    reader = gevent.spawn(list, stream)
    gevent.sleep(0.2)
    started = time.monotonic()
    outside(stream.cancel)
    with pytest.raises(Cancelled):
        reader.get(timeout=PATIENCE)
    assert time.monotonic() - started < PROMPT
    wait_until(lambda: endless.active == 0, "the engine's rest")


def test_another_thread_can_cancel_what_nobody_waits_for(client: Client, endless: AnEngine) -> None:
    stream = client.create_chat_completion_stream(question())
    stream.recv()
    places = where_it_is_cancelled(stream)
    outside(stream.cancel)
    wait_until(lambda: endless.active == 0, "the engine's rest")
    with pytest.raises(Cancelled):
        stream.recv()
    # Loops and sockets are not for every thread.
    assert set(places) == {(thread_now(), False)}


def test_another_thread_can_drop_the_last_reference(client: Client, endless: AnEngine) -> None:
    kept = [client.create_chat_completion_stream(question())]
    kept[0].recv()
    outside(kept.clear)
    wait_until(lambda: endless.active == 0, "the engine's rest")
    assert not client._running


def test_a_callback_of_the_loop_can_cancel(client: Client, endless: AnEngine) -> None:
    stream = client.create_chat_completion_stream(question())
    stream.recv()
    places = where_it_is_cancelled(stream)
    gevent.get_hub().loop.run_callback(stream.cancel)
    wait_until(lambda: endless.active == 0, "the engine's rest")
    # A callback must not block, and grpcio has locks.
    assert set(places) == {(thread_now(), False)}


def test_other_greenlets_go_on_while_one_waits(client: Client, endless: AnEngine) -> None:
    endless.fault("hang,times=1,after=3")
    stream = client.create_chat_completion_stream(question())
    reader = gevent.spawn(list, stream)
    turns = 0
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        gevent.sleep(0.001)
        turns += 1
    assert turns > 50
    stream.cancel()
    with pytest.raises(Cancelled):
        reader.get(timeout=PATIENCE)


def test_a_gevent_timeout_leaves_the_stream_readable(client: Client, engine: AnEngine) -> None:
    engine.script([[301]] * 20)
    engine.options.token_delay = 0.05
    stream = client.create_chat_completion_stream(question())
    chunks = []
    while True:
        with gevent.Timeout(0.02, False):
            try:
                chunks.append(stream.recv())
            except EOFError:
                break
    engine.options.token_delay = 0.0
    engine.script([[301]] * 20)
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    whole = client.create_chat_completion(question())
    assert text == whole["choices"][0]["message"]["content"]
