"""What a request leaves behind: nothing that only the garbage collector would find.

A worker looks for cycles rarely (see gunicorn_conf), and every one that a request leaves is
work that stops all streams.
"""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import gevent
import gevent.socket
import pytest

from sglrouter.app import Router
from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.http2 import Http2Channel
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.model import load_model
from sglrouter.sim import SimulatedEngine
from tests.patience import PATIENCE
from tests.processes import chat_body
from tests.server.test_connection import served

TIMES = 20


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[Router]:
    address = f"grpc://{engine.address}"
    settings = Settings(engine=[address], tokenizer=str(tiny_model))
    model = load_model(settings, tiny_model)
    # Nothing here is patched for gevent, so that the channel has to be named.
    fleet = Fleet([parse_endpoint(address)], Http2Channel)
    yield Router(settings, model, fleet)
    fleet.close()


def read_all(client: gevent.socket.socket) -> None:
    """Takes what comes, so that nothing waits for it."""
    with suppress(OSError):
        while client.recv(65536):
            pass


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": True},
        {"n": 2},
        {"n": 2, "stream": True},
        {"logprobs": True, "stream": True},
        {"top_p": 9},
        {"stop": "answer", "stream": True},
    ],
    ids=json.dumps,
)
def test_a_request_in_callbacks_leaves_no_cycle(
    router: Router, engine: SimulatedEngine, fields: dict[str, object]
) -> None:
    engine.script("A first answer.")
    body = json.dumps(chat_body(max_tokens=8, **fields)).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    with served(router) as it:
        gevent.spawn(read_all, it.client)
        # The facts of the model, the connection to the engine.
        assert router.fleet.facts().model_path

        def answered(times: int) -> None:
            for _ in range(times):
                before = it.worker.nr
                it.client.sendall(request)
                with gevent.Timeout(PATIENCE):
                    while it.worker.nr == before or it.connection.state.value != "idle":
                        gevent.sleep(0.001)
                        if it.greenlet.ready():
                            # Beside other work it may seem to take long: once more.
                            it.greenlet = gevent.spawn(it.serve, it.greenlet.value)

        answered(3)
        gc.collect()
        gc.disable()
        try:
            answered(TIMES)
            # Those of the engine, which is in this process, are its own.
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [type(item) for item in gc.garbage]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    kinds = Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in left)
    engine_s = ("grpc.", "importlib.", "_cython_")
    ours = {kind: n for kind, n in kinds.items() if not kind.startswith(engine_s) and n >= TIMES}
    # A tuple of theirs for each call.
    ours.pop("builtins.tuple", None)
    assert ours == {}
