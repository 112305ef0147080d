"""Requests by their clients' names."""

from __future__ import annotations

from threading import Event

import pytest

from sglrouter.engines.generation import Generation
from sglrouter.errors import BadRequest
from sglrouter.serving.in_flight import MAX_RID, Running, names_of
from tests.engines.silent import SilentCall


def generation(samples: int = 1) -> Generation:
    calls = [SilentCall() for _ in range(samples)]
    return Generation(calls, Event(), first_timeout=10.0, idle_timeout=10.0)


def aborted(generation: Generation, samples: int = 1) -> list[bool]:
    return [generation.is_aborted(index) for index in range(samples)]


def test_a_name_stops_what_has_it_and_nothing_else() -> None:
    running = Running()
    one, other, third = generation(), generation(), generation()
    running.add(one, [("a", None)])
    running.add(other, [("ab", None)])
    running.add(third, [])
    running.abort("a")
    running.abort("")
    assert [aborted(each) for each in (one, other, third)] == [[True], [False], [False]]


def test_two_requests_of_one_name_both_stop() -> None:
    running = Running()
    one, other = generation(), generation()
    running.add(one, [("a", None)])
    running.add(other, [("a", None)])
    one.cancel()
    running.abort("a")
    assert aborted(other) == [True]


def test_a_sample_has_a_name_of_its_own() -> None:
    running = Running()
    several = generation(3)
    running.add(several, [("a_0", 0), ("a_1", 1), ("a_2", 2), ("a", None)])
    running.abort("a_1")
    assert aborted(several, 3) == [False, True, False]
    running.abort("a")
    assert aborted(several, 3) == [True, True, True]


def test_all_stops_those_without_a_name_too() -> None:
    running = Running()
    each = [generation(), generation(2)]
    running.add(each[0], [])
    running.add(each[1], [("a", None)])
    running.abort(None)
    assert [aborted(each[0]), aborted(each[1], 2)] == [[True], [True, True]]


def test_what_is_over_is_forgotten() -> None:
    running = Running()
    completed, cancelled = generation(), generation(2)
    running.add(completed, [("a", None), ("a", None), ("b", 0)])
    running.add(cancelled, [("a", 1)])
    assert len(running) == 2
    completed.complete(0)
    assert len(running) == 1
    cancelled.cancel()
    assert len(running) == 0
    assert not running._named
    running.abort("a")
    running.abort(None)


def test_others_are_told_what_was_asked_for() -> None:
    running = Running()
    told: list[str | None] = []
    running.abort_everywhere("nobody knows others")
    running.share(told.append)
    running.abort("a")
    assert told == []
    running.abort_everywhere("a")
    running.abort_everywhere(None)
    assert told == ["a", None]


def test_a_request_has_the_names_of_its_answer_and_of_its_client() -> None:
    assert names_of(None, "id") == [("id", None)]
    assert names_of("mine", "id") == [("id", None), ("mine", None)]
    assert names_of(["a", "b"], "id") == [("id", None), ("a", None), ("b", None)]
    assert names_of("", "id") == [("id", None)]


@pytest.mark.parametrize("rid", ["x" * (MAX_RID + 1), ["a", "x" * (MAX_RID + 1)]])
def test_what_is_no_name_is_refused(rid: str | list[str]) -> None:
    with pytest.raises(BadRequest) as caught:
        names_of(rid, "id")
    assert caught.value.param == "rid"
