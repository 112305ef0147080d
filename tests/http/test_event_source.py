"""The events of one answer, its silences and its faults."""

from __future__ import annotations

import logging

import pytest

from sglrouter.errors import ClientGone, EngineError, RouterError
from sglrouter.http.event_source import HEARTBEAT, EventSource

Step = tuple[bytes, RouterError | None] | Exception


class Scripted:
    """An answer that brings what it is told to."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.timeouts: list[float | None] = []
        self.failed: list[RouterError] = []
        self.closed = 0

    def begin(self) -> bytes:
        return b"<begin>"

    def wait(
        self, timeout: float | None = None, most: int | None = None
    ) -> tuple[bytes, RouterError | None]:
        assert most is None
        self.timeouts.append(timeout)
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def fail(self, error: RouterError) -> bytes:
        self.failed.append(error)
        return b"<error>"

    def close(self) -> None:
        self.closed += 1


def source_of(*steps: Step) -> tuple[EventSource, Scripted]:
    answer = Scripted(*steps)
    return EventSource(answer, 7.5, "req-1"), answer  # type: ignore[arg-type]


LOST = EngineError("lost")


def test_the_first_events_come_after_the_beginning() -> None:
    source, answer = source_of((b"a", None))
    assert source.open() == b"<begin>a"
    assert answer.timeouts == [7.5]
    assert answer.closed == 0


def test_silence_is_a_heartbeat_before_and_after_the_beginning() -> None:
    source, _ = source_of((b"", None), (b"", None), (b"b", None))
    assert source.open() == b"<begin>" + HEARTBEAT
    assert [source.wait(), source.wait()] == [HEARTBEAT, b"b"]


def test_a_failure_before_any_event_is_raised_and_nothing_goes_on() -> None:
    source, answer = source_of((b"", LOST))
    with pytest.raises(EngineError) as raised:
        source.open()
    assert raised.value is LOST
    assert (answer.closed, answer.failed) == (1, [])


def test_a_failure_beside_the_first_events_is_told_after_them() -> None:
    source, answer = source_of((b"a", LOST))
    assert source.open() == b"<begin>a<error>"
    assert (answer.closed, answer.failed) == (0, [LOST])


def test_a_failure_later_is_the_last_event(caplog: pytest.LogCaptureFixture) -> None:
    source, answer = source_of((b"a", None), (b"b", LOST))
    source.open()
    with caplog.at_level(logging.WARNING):
        assert source.wait() == b"b<error>"
    assert answer.failed == [LOST]
    assert "request req-1: the stream ended with an error: lost" in caplog.text


@pytest.mark.parametrize("exc", [ClientGone(), ValueError("a bug")])
def test_whatever_ends_the_first_wait_stops_the_engine(exc: Exception) -> None:
    source, answer = source_of(exc)
    with pytest.raises(type(exc)):
        source.open()
    assert answer.closed == 1


def test_a_bug_is_told_to_the_log_and_not_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    source, answer = source_of()
    assert source.fail_by(ValueError("inner workings")) == b"<error>"
    (error,) = answer.failed
    assert (error.message, error.code) == ("The router failed", "internal_error")
    assert "inner workings" in caplog.text
    assert "req-1" in caplog.text
