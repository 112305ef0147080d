"""Counts what requests in callbacks leave to the garbage collector; run as a process of its own.

    python -m tests.server.leftovers ENGINE MODEL FIELDS

Prints, as JSON, how many objects of each kind so many requests have left.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import gevent
import gevent.socket

from sglrouter.app import Router
from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.http2 import Http2Channel
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.model import load_model
from tests.patience import PATIENCE
from tests.processes import chat_body
from tests.server.test_connection import Served, served

TIMES = 20


def read_all(client: gevent.socket.socket) -> None:
    """Takes what comes, so that nothing waits for it."""
    with suppress(OSError):
        while client.recv(65536):
            pass


def answered(it: Served, request: bytes, times: int) -> None:
    """Sends a request so many times, each after the answer to the one before."""
    for _ in range(times):
        before = it.worker.nr
        it.client.sendall(request)
        with gevent.Timeout(PATIENCE):
            while it.worker.nr == before or it.connection.state.value != "idle":
                gevent.sleep(0.001)
                if it.greenlet.ready():
                    # Beside other work it may seem to take long: once more.
                    it.greenlet = gevent.spawn(it.serve, it.greenlet.value)


def left_by(router: Router, fields: dict[str, object]) -> Counter[str]:
    """The kinds of objects that requests leave."""
    body = json.dumps(chat_body(max_tokens=8, **fields)).encode()
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )
    with served(router) as it:
        gevent.spawn(read_all, it.client)
        # The facts of the model, the connection to the engine.
        assert router.fleet.facts().model_path
        answered(it, request, 3)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        answered(it, request, TIMES)
        gc.collect()
        kinds = Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in map(type, gc.garbage))
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return kinds


def main(address: str, model: Path, fields: dict[str, object]) -> None:
    """Prints them."""
    settings = Settings(engine=[address], tokenizer=str(model))
    # Nothing here is patched for gevent, so that the channel has to be named.
    fleet = Fleet([parse_endpoint(address)], Http2Channel)
    router = Router(settings, load_model(settings, model), fleet)
    sys.stdout.write(json.dumps(left_by(router, fields)))
    fleet.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
