"""Fixtures that every test may use: the corpus, the tiny model, engines, routers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from sglrouter.engines.channel.connect import http2_is_built
from sglrouter.sim import SimOptions, SimulatedEngine
from sglrouter.sim.options import TINY_MODEL
from tests.processes import RouterProcess

ROOT = Path(__file__).parents[1]

# Folders whose tests need what a newcomer may lack, or take long.
_LONG_FOLDERS = frozenset({"clients", "fuzz"})
_LONG_MARKS = ("long", "soak", "fuzz")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --quick, which `make test` uses, and --rest, which `make check` uses after it."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what is marked long, and try few random examples",
    )
    parser.addoption(
        "--rest",
        action="store_true",
        help="run what --quick leaves out, and all that is random with all its examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Says how many examples there are to be, before any test module asks."""
    if config.getoption("--quick"):
        os.environ.setdefault("SGLROUTER_TEST_EXAMPLES", "15")
        os.environ.setdefault("SGLROUTER_TEST_SOAK", "30")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what --quick or --rest is not for."""
    if config.getoption("--quick"):
        left_out = [item for item in items if _is_long(item)]
    elif config.getoption("--rest"):
        left_out = [item for item in items if not (_is_long(item) or _is_random(item))]
    else:
        return
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def _is_long(item: pytest.Item) -> bool:
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return folder in _LONG_FOLDERS or any(map(item.get_closest_marker, _LONG_MARKS))


def _is_random(item: pytest.Item) -> bool:
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real tokenizers, templates and captures; skips where it is absent."""
    path = Path(os.environ.get("SGLROUTER_CORPUS") or ROOT.parent / "shared" / "corpus")
    if not path.is_dir():
        pytest.skip(f"there is no corpus at {path} (set SGLROUTER_CORPUS)")
    return path


@pytest.fixture(scope="session")
def native() -> None:
    """For tests of what only the native channel does; skips where it is not built."""
    if not http2_is_built():
        pytest.skip("the native channel is not built: there is no libnghttp2")


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """The embedded model's folder."""
    return TINY_MODEL


@pytest.fixture(scope="module")
def engine() -> Iterator[SimulatedEngine]:
    """An engine of the tiny model for a module's tests, each of which finds it unscripted."""
    with SimulatedEngine(SimOptions()) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _fresh_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        engine = request.getfixturevalue("engine")
        if isinstance(engine, SimulatedEngine) and engine.alive:
            engine.script()
            engine.fault()


class StartRouter(Protocol):
    """Starts a router with settings by name, and waits until it answers."""

    def __call__(self, **settings: object) -> RouterProcess: ...


@pytest.fixture
def start_router() -> Iterator[StartRouter]:
    """Starts routers that end with the test."""
    routers: list[RouterProcess] = []

    def start(**settings: object) -> RouterProcess:
        router = RouterProcess(settings)
        routers.append(router)
        router.start()
        return router

    yield start
    for router in routers:
        router.stop()


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    """A router in front of `engine`, for a module's tests."""
    router = RouterProcess(
        {"engine": f"grpc://{engine.address}", "tokenizer": tiny_model, "model_name": "tiny"}
    )
    router.start()
    yield router
    router.stop()
