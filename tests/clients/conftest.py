"""One router and one engine for all the clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sglrouter.sim import SimOptions, SimulatedEngine
from tests.processes import RouterProcess

HEARTBEAT = 0.2


@pytest.fixture(scope="package")
def engine() -> Iterator[SimulatedEngine]:
    with SimulatedEngine(SimOptions()) as engine:
        yield engine


@pytest.fixture(scope="package")
def router(engine: SimulatedEngine) -> Iterator[RouterProcess]:
    """A router that reads calls and reasoning, and sends heartbeats soon."""
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": engine.options.model,
            "model_name": "tiny",
            "tool_call_parser": "qwen25",
            "reasoning_parser": "qwen3",
            "heartbeat": HEARTBEAT,
        }
    )
    router.start()
    yield router
    router.stop()


@pytest.fixture(autouse=True)
def _usual_pace(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leaves the engine as it was, for the next test."""
    yield
    if "engine" in request.fixturenames:
        options = request.getfixturevalue("engine").options
        options.tokens_per_chunk = 1
        options.first_delay = options.token_delay = 0.0


@pytest.fixture(params=[1, 50], ids=["a token a chunk", "all in a chunk"])
def any_chunks(engine: SimulatedEngine, request: pytest.FixtureRequest) -> None:
    """Streams that come token by token, and streams that come at once."""
    engine.options.tokens_per_chunk = request.param
