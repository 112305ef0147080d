"""Clients under test, with threads here and with greenlets in a patched process.

One suite for both: test_under_gevent.py runs it once more in a process that gevent has
patched, where it is run with either kind of channel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from gevent.monkey import is_module_patched

from sglrouter import Client
from sglrouter.engines.channel.connect import http2_is_built
from sglrouter.sim import SimulatedEngine
from tests.engines.remote import RemoteEngine, one_engine
from tests.patience import PATIENCE

PATCHED = is_module_patched("threading")
CHANNELS = ["grpcio", "native"] if PATCHED and http2_is_built() else ["grpcio"]

AnEngine = SimulatedEngine | RemoteEngine

# These start processes of their own.
collect_ignore = (
    ["test_examples.py", "test_imports.py", "test_processes.py", "test_same_as_http.py",
     "test_under_gevent.py"]
    if PATCHED
    else ["test_other_threads.py"]
)  # fmt: skip


class Open(Protocol):
    """Opens a client of the test's engine, or another, that is closed after the test."""

    def __call__(self, engine: str = "", **options: Any) -> Client: ...


@pytest.fixture(scope="module")
def engine() -> Iterator[AnEngine]:
    """An engine for a module's tests, each of which finds it unscripted."""
    with one_engine(patched=PATCHED) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _unscripted(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        engine = request.getfixturevalue("engine")
        engine.script()
        engine.fault()
        engine.options.token_delay = 0.0


@pytest.fixture(params=CHANNELS)
def open_client(
    request: pytest.FixtureRequest, engine: AnEngine, tiny_model: Path
) -> Iterator[Open]:
    """See Open; over each kind of channel."""
    clients: list[Client] = []
    own = engine.address

    def open_client(engine: str = "", **options: Any) -> Client:
        defaults: dict[str, Any] = {"tokenizer": tiny_model, "channel": request.param}
        clients.append(Client(f"grpc://{engine or own}", **{**defaults, **options}))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture
def client(open_client: Open) -> Client:
    """A client of the engine."""
    return open_client()


@pytest.fixture
def endless(engine: AnEngine) -> AnEngine:
    """The engine, whose answers go on for longer than any test."""
    engine.script(*[[[7]] * 5000] * 3)
    engine.options.token_delay = 0.005
    return engine


def question(text: str = "Hello", **fields: object) -> dict[str, Any]:
    """A request with one message."""
    return {"messages": [{"role": "user", "content": text}], **fields}


def wait_until(condition: Callable[[], bool], what: str = "it") -> None:
    """Waits for something to become true; AssertionError if it does not."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true in time"
        time.sleep(0.005)
