"""Channels under test. One suite, run against every kind of channel.

In a plain process that is grpcio. In one that gevent has patched, as workers are, it is
both kinds, and test_under_gevent.py runs the suite there, with what is native's alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from gevent.monkey import is_module_patched

from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel
from sglrouter.engines.channel.connect import http2_is_built
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.sim import SimulatedEngine
from tests.engines.flood import Flood
from tests.engines.remote import RemoteEngine, RemoteFlood, one_engine

PATCHED = is_module_patched("threading")
KINDS: dict[str, Callable[[Endpoint], Channel]] = {"grpcio": GrpcioChannel}
if PATCHED and http2_is_built():
    from sglrouter.engines.channel.http2 import Http2Channel

    KINDS["native"] = Http2Channel

# It needs a plain process; what needs a patched one skips by itself.
collect_ignore = ["test_tokenizer_fetch.py"] if PATCHED else []

Connect = Callable[[str], Channel]
AnEngine = SimulatedEngine | RemoteEngine


@pytest.fixture(params=sorted(KINDS))
def make_channel(request: pytest.FixtureRequest) -> Callable[[Endpoint], Channel]:
    """Each kind of channel."""
    return KINDS[request.param]


@pytest.fixture
def connect(make_channel: Callable[[Endpoint], Channel]) -> Iterator[Connect]:
    """Opens channels to HOST:PORT that are closed after the test."""
    channels: list[Channel] = []

    def open_channel(address: str) -> Channel:
        channels.append(make_channel(parse_endpoint(address)))
        return channels[-1]

    yield open_channel
    for channel in channels:
        channel.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[AnEngine]:
    """An engine for a module's tests, each of which finds it unscripted."""
    with one_engine(patched=PATCHED) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _fresh_remote_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        engine = request.getfixturevalue("engine")
        if isinstance(engine, RemoteEngine) and engine.alive:
            engine.script()
            engine.fault()


@pytest.fixture
def flood() -> Iterator[Flood | RemoteFlood]:
    """A server that sends as fast as it can, and counts what it has got rid of."""
    server = RemoteFlood() if PATCHED else Flood()
    yield server
    server.stop()
