"""One engine: its connection, whether it serves, its load, and calls that it is told to stop."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines.channel.channel import Channel, Status
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.engines.fleet import engine as engine_module
from sglrouter.engines.fleet.control import PROBE_TIMEOUT
from sglrouter.engines.fleet.engine import DOWN, SERVING, UNKNOWN, Engine
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.wire.control_messages import ABORT
from sglrouter.engines.wire.scheduler import GET_MODEL_INFO, HEALTH_CHECK
from tests.engines.scripted import (
    GONE,
    NOT_THERE,
    OK,
    SERVES,
    SERVES_NOT,
    Answer,
    ScriptedChannel,
    model_info,
)
from tests.patience import PATIENCE


def test_threads_that_come_at_once_share_one_connection() -> None:
    made = []

    def connect(endpoint: Endpoint) -> Channel:
        time.sleep(0.05)
        made.append(GrpcioChannel(endpoint))
        return made[-1]

    (engine,) = Fleet([parse_endpoint("a:1")], connect).engines
    with ThreadPoolExecutor(8) as threads:
        tasks = [threads.submit(channel, engine) for _ in range(8)]
        channels = {id(task.result()) for task in tasks}
    assert len(made) == len(channels) == 1
    engine.close()


def channel(engine: Engine) -> Channel:
    return engine.channel


class Known:
    """An engine, its channel, and how often it has said that something has changed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.channel = ScriptedChannel()
        self.changes = 0
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        monkeypatch.setattr(engine_module, "time", clock)
        self.engine = Engine(parse_endpoint("a:1"), lambda _: self.channel, self._note)

    def _note(self) -> None:
        self.changes += 1

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)
        self.now += seconds

    def asked(self) -> list[str]:
        """What the engine has been asked since the last look."""
        asked, self.channel.asked = self.channel.asked, []
        return asked


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    return Known(monkeypatch)


def test_nothing_is_connected_before_it_is_used(known: Known) -> None:
    made = []

    def connect(endpoint: Endpoint) -> Channel:
        made.append(endpoint)
        return ScriptedChannel()

    engine = Engine(parse_endpoint("a:1"), connect)
    assert (engine.standing, engine.load, engine.is_away) == (UNKNOWN, 0, False)
    engine.close()
    assert made == []
    first = engine.channel
    assert (made, engine.channel) == ([parse_endpoint("a:1")], first)
    engine.close()
    engine.close()
    # Closed is not for good: a worker may be asked again.
    assert first.closed  # type: ignore[attr-defined]
    assert engine.channel is not first


@pytest.mark.parametrize(
    ("answer", "standing"),
    [
        ((OK, SERVES), SERVING),
        ((OK, SERVES_NOT), DOWN),
        ((OK, b""), DOWN),
        ((OK, b"\xff"), DOWN),
        ((GONE, b""), DOWN),
        ((Status("DEADLINE_EXCEEDED", "late"), b""), DOWN),
        # An engine without the health service that answers at all is up.
        ((NOT_THERE, b""), SERVING),
    ],
)
def test_its_standing_is_what_its_health_service_says(
    known: Known, answer: Answer, standing: int
) -> None:
    known.channel.health = answer
    known.engine.look()
    assert known.engine.standing == standing
    assert known.engine.is_away == (standing == DOWN)
    assert known.engine.healthy() == (standing == SERVING)
    known.engine.forget_health()
    assert (known.engine.standing, known.engine.is_away) == (UNKNOWN, False)


def test_a_connection_that_cannot_be_made_is_as_good_as_down(known: Known) -> None:
    known.engine.look()
    known.channel.connected = False
    assert known.engine.standing == DOWN
    # But it has not said so itself.
    assert not known.engine.is_away
    known.channel.connected = True
    assert known.engine.standing == SERVING


def test_its_health_is_asked_for_once_a_second(known: Known) -> None:
    for _ in range(3):
        assert known.engine.healthy()
    assert known.asked().count(HEALTH_CHECK) == 1
    known.channel.health = OK, SERVES_NOT
    known.now += 0.9
    assert known.engine.healthy()
    known.now += 0.2
    assert not known.engine.healthy()


def test_who_stood_still_himself_blames_no_engine(known: Known) -> None:
    def stand_still(_: str) -> None:
        known.now += PROBE_TIMEOUT + 1.5

    known.engine.look()
    known.channel.health = Status("DEADLINE_EXCEEDED", "late"), b""
    known.channel.meanwhile = stand_still
    known.engine.look()
    assert known.engine.standing == SERVING
    # Within its deadline, the engine's silence is its own.
    known.channel.meanwhile = lambda _: None
    known.engine.look()
    assert known.engine.standing == DOWN


def test_its_facts_are_asked_again_when_it_is_back(known: Known) -> None:
    known.engine.look()
    assert known.engine.facts_now().model_path == "m"
    known.asked()
    known.engine.look()
    assert known.asked() == [HEALTH_CHECK]
    known.channel.health = GONE, b""
    known.engine.look()
    assert known.asked() == [HEALTH_CHECK]
    known.channel.health, known.channel.info = (OK, SERVES), (OK, model_info("n"))

    def nobody_is_sent_there_yet(method: str) -> None:
        assert method != GET_MODEL_INFO or known.engine.standing == DOWN

    known.channel.meanwhile = nobody_is_sent_there_yet
    known.engine.look()
    assert known.asked() == [HEALTH_CHECK, GET_MODEL_INFO]
    assert known.engine.facts_now().model_path == "n"


def test_facts_that_it_failed_to_say_are_asked_at_once_when_it_is_back(known: Known) -> None:
    known.channel.info = GONE, b""
    known.engine.look()
    for answer in ((GONE, b""), (OK, SERVES)):
        known.channel.health = answer
        known.channel.info = OK, model_info("n")
        known.engine.look()
    assert known.engine.facts.known is not None


def test_each_change_is_told_once(known: Known) -> None:
    known.engine.look()
    first = known.changes
    assert first
    known.engine.look()
    assert known.changes == first
    known.channel.health = GONE, b""
    known.engine.look()
    second = known.changes
    assert second > first
    known.engine.look()
    assert known.changes == second


def test_it_goes_and_comes_in_the_log(known: Known, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        known.engine.look()
        for answer in ((GONE, b""), (GONE, b""), (OK, SERVES), (OK, SERVES), (OK, SERVES_NOT)):
            known.channel.health = answer
            known.engine.look()
    lines = [line for line in caplog.messages if "serves m" not in line]
    assert [line.partition(":1 ")[2].partition(":")[0] for line in lines] == [
        "gets no more requests",
        "is back",
        "gets no more requests",
    ]
    assert lines[2].endswith("it says that it does not serve")


def test_failures_of_late_are_load_and_are_forgotten_with_time(known: Known) -> None:
    engine = known.engine
    assert engine.channel is known.channel
    known.channel.active = 3
    assert engine.load == 3
    for _ in range(5):
        engine.note_end(fault=True)
    assert engine.load == 8
    for left in (5, 4, 3, 3):
        engine.look()
        assert engine.load == left
    engine.note_end(fault=True)
    engine.note_end(fault=False)
    assert engine.load == 3


def test_an_engine_that_is_back_begins_without_failures(known: Known) -> None:
    """Else requests would go on to others for as long as it takes to forget them."""
    engine = known.engine
    engine.look()
    for _ in range(100):
        engine.note_end(fault=True)
    known.channel.health = (GONE, b"")
    engine.look()
    assert engine.load == 50
    known.channel.health = (OK, SERVES)
    engine.look()
    assert engine.load == 0


def test_an_engine_is_told_to_stop_aside(known: Known) -> None:
    told, go_on = Event(), Event()

    def hold(method: str) -> None:
        told.set()
        assert go_on.wait(PATIENCE)

    known.channel.meanwhile = hold
    known.engine.abort("r")
    assert told.wait(PATIENCE)
    assert known.asked() == [ABORT]
    # It is waited for only so long, and not at all once the engine knows.
    settled = Event()

    def settle() -> None:
        known.engine.settle(PATIENCE)
        settled.set()

    waiting = Thread(target=settle)
    waiting.start()
    assert not settled.wait(0.05)
    go_on.set()
    waiting.join(PATIENCE)
    assert settled.is_set()


def test_an_abort_that_fails_is_waited_for_no_longer(known: Known) -> None:
    known.channel.abort = GONE, b""
    known.engine.abort("r")
    known.engine.settle(PATIENCE)
    assert known.asked() == [ABORT]
    assert known.engine._aborting == set()
