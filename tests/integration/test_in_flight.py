"""Requests of every kind are counted while they are in flight, and never longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from sglrouter.app import Router
from sglrouter.config import Settings
from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Bell, Call, Metadata, Status
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.engines.exchange import End, Exchange
from sglrouter.engines.fleet.engine import Engine
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.fleet.placement import Job
from sglrouter.engines.fleet.policy import LeastLoad
from sglrouter.errors import ClientGone, RouterError
from sglrouter.http.client import ENVIRON_KEY
from sglrouter.http.clock import Clock
from sglrouter.http.event_source import EventSource
from sglrouter.http.pulled import PulledStream
from sglrouter.model import load_model
from sglrouter.serving.chat import ChatServing
from sglrouter.serving.service import Service
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.engines.silent import SilentCall
from tests.integration.test_scoring import model as model
from tests.patience import PATIENCE

CONVERSATION = {"messages": [{"role": "user", "content": "Hello"}]}
NATIVE = {"text": ["Hello", "yes"], "sampling_params": {"max_new_tokens": 2, "n": 2}}
GENERATING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CONVERSATION),
    "samples": ("/v1/chat/completions", {**CONVERSATION, "n": 3}),
    "streamed chat": ("/v1/chat/completions", {**CONVERSATION, "stream": True}),
    "completions": ("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 2}),
    "generate": ("/generate", NATIVE),
    "streamed generate": ("/generate", {**NATIVE, "stream": True}),
    "score": ("/v1/score", {"query": "a", "items": ["b"] * 40, "label_token_ids": [1, 2],
                            "apply_softmax": True}),
    "rerank": ("/v1/rerank", {"query": "a", "documents": ["no", "yes"]}),
}  # fmt: skip
EMBEDDING: dict[str, tuple[str, dict[str, Any]]] = {
    "embeddings": ("/v1/embeddings", {"input": ["a", "b", "c"]}),
    "encode": ("/encode", {"text": "a"}),
}
KINDS = [*GENERATING, *EMBEDDING]
# What only shows once a request has been read, and its model's limits are known.
WRONG: dict[str, dict[str, Any]] = {
    "generate": {"sampling_params": {"temperature": -1}},
    "streamed generate": {"sampling_params": {"temperature": -1}},
    "score": {"label_token_ids": [10**6]},
    "rerank": {"top_n": 0},
    "embeddings": {"input": [[10**6]]},
    "encode": {"text": None, "input_ids": [10**6]},
}


class FailedCall(SilentCall):
    """A call that has failed."""

    @property
    def status(self) -> Status:
        return Status("INTERNAL", "broken")


class Switched(GrpcioChannel):
    """A channel to an engine; instead of making calls it may hold or fail them."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.mode = "pass"
        self.streams = 0

    def stream(  # type: ignore[override]
        self,
        method: str,
        request: bytes,
        *,
        timeout: float,
        arrived: Bell,
        metadata: Metadata = (),
    ) -> Call:
        self.streams += 1
        if self.mode == "pass":
            return super().stream(
                method, request, timeout=timeout, arrived=arrived, metadata=metadata
            )
        if self.mode == "fail":
            arrived.set()
            return FailedCall()
        return SilentCall()


class Site:
    """A router in this process."""

    def __init__(self, model: Path, engine: SimulatedEngine) -> None:
        settings = Settings(engine=[f"grpc://{engine.address}"], tokenizer=str(model))
        self.fleet = Fleet([parse_endpoint(text) for text in settings.engine], Switched)
        self.model = load_model(settings, model)
        self.settings = settings
        self.app = Router(settings, self.model, self.fleet)
        self.client = falcon.testing.TestClient(self.app)
        self.fleet.facts()

    @property
    def channel(self) -> Switched:
        channel = self.fleet.engines[0].channel
        assert isinstance(channel, Switched)
        return channel

    @property
    def in_flight(self) -> tuple[int, int]:
        """Here, and at the engine."""
        return len(self.app.in_flight), len(self.fleet.engines[0].placements)

    def post(self, kind: str, extras: Mapping[str, object] | None = None) -> falcon.testing.Result:
        path, body = {**GENERATING, **EMBEDDING}[kind]
        return self.client.simulate_post(path, json=body, extras=extras)


@pytest.fixture(scope="module")
def sites(model: Path, tiny_model: Path) -> Iterator[dict[str, Site]]:
    """One for each kind of request."""
    with (
        SimulatedEngine() as generating,
        SimulatedEngine(SimOptions(model=model, answer="echo")) as ranking,
        SimulatedEngine(SimOptions(embedding=True)) as embedding,
    ):
        text, vectors = Site(tiny_model, generating), Site(tiny_model, embedding)
        ranks = Site(model, ranking)
        yield {
            **dict.fromkeys(GENERATING, text),
            **dict.fromkeys(EMBEDDING, vectors),
            "rerank": ranks,
        }
        for site in (text, vectors, ranks):
            site.fleet.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def site(sites: dict[str, Site], kind: str) -> Iterator[Site]:
    site = sites[kind]
    yield site
    site.channel.mode = "pass"


class Leaving:
    """A client that the server watches."""

    writer = None
    has_greenlet = True

    def __init__(self) -> None:
        self.clock = Clock()
        self.on_end: Callable[[RouterError], None] | None = None

    def watch(self, on_end: Callable[[RouterError], None], ping: object = None) -> None:
        self.on_end = on_end

    def unwatch(self) -> None:
        self.on_end = None

    def send(self, body: bytes, *, last: bool = False) -> bool:
        return True


@contextmanager
def meanwhile(condition: Callable[[], bool], action: Callable[[], object]) -> Iterator[None]:
    """Does something aside once it is time for it."""

    def act() -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.002)
        action()

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def test_success_is_an_end(site: Site, kind: str) -> None:
    response = site.post(kind)
    assert response.status_code == 200, response.text
    assert site.in_flight == (0, 0)


def test_an_engine_s_failure_is_an_end(site: Site, kind: str) -> None:
    site.channel.mode = "fail"
    assert site.post(kind).status_code == 502
    assert site.in_flight == (0, 0)


def test_an_abort_is_an_end(site: Site, kind: str) -> None:
    site.channel.mode = "hold"
    with meanwhile(lambda: site.in_flight == (1, 1), lambda: site.app.in_flight.abort(None)):
        response = site.post(kind)
    # Of text there is what had come; of anything else there is no part.
    whole = kind in EMBEDDING or kind in ("score", "rerank")
    assert response.status_code == (499 if whole else 200)
    assert site.in_flight == (0, 0)


def test_a_client_that_leaves_is_an_end(site: Site, kind: str) -> None:
    site.channel.mode = "hold"
    client = Leaving()

    def leave() -> None:
        assert client.on_end is not None
        client.on_end(ClientGone())

    with meanwhile(lambda: client.on_end is not None and site.in_flight == (1, 1), leave):
        assert site.post(kind, {ENVIRON_KEY: client}).status_code == 499
    assert site.in_flight == (0, 0)


class Counted(LeastLoad):
    """Counts how often it is asked."""

    asked = 0

    def order(self, engines: Sequence[Engine], job: Job, /) -> list[Engine]:
        self.asked += 1
        return super().order(engines, job)


def test_a_refused_request_consumes_no_turn_and_opens_no_connection(site: Site, kind: str) -> None:
    opened: list[Endpoint] = []

    def connect(endpoint: Endpoint) -> Switched:
        opened.append(endpoint)
        return Switched(endpoint)

    policy = Counted()
    endpoint = site.fleet.engines[0].endpoint
    fleet = Fleet([endpoint, endpoint], connect, policy)
    fleet.facts()
    with meanwhile(lambda: all(engine.facts.known for engine in fleet.engines), lambda: None):
        pass
    client = falcon.testing.TestClient(Router(site.settings, site.model, fleet))
    before = len(opened)
    path, body = {**GENERATING, **EMBEDDING}[kind]
    for _ in range(3):
        wrong = client.simulate_post(path, json={**body, **WRONG.get(kind, {"n": 10**6})})
        assert wrong.status_code == 400, wrong.text
    assert (policy.asked, len(opened)) == (0, before)
    for engine in fleet.engines:
        assert isinstance(engine.channel, Switched)
        assert (engine.channel.streams, engine.placements) == (0, set())
    assert client.simulate_post(path, json=body).status_code == 200
    assert policy.asked == 1
    fleet.close()


def test_a_stream_that_is_closed_in_the_middle_is_an_end(sites: dict[str, Site]) -> None:
    site = sites["chat"]
    service = Service(site.settings, site.model, site.fleet)
    ends: list[End | None] = []

    def note(exchange: Exchange) -> None:
        ends.append(exchange.end)

    serving = ChatServing(service)
    answer = serving.start(
        serving.read(b'{"messages":[{"role":"user","content":"a"}]}', stream=True)
    )
    answer.exchange.on_over(note)
    events = PulledStream(source := EventSource(answer, PATIENCE), source.open())
    assert next(events)
    assert (len(service.in_flight), ends) == (1, [])
    events.close()
    assert (len(service.in_flight), ends) == (0, [End.CANCELLED])
    assert site.in_flight == (0, 0)
