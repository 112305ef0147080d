"""Requests by their clients' names."""

from __future__ import annotations

import pytest

from sglrouter.engines.exchange import Exchange
from sglrouter.errors import BadRequest
from sglrouter.serving.in_flight import MAX_RID, InFlight, names_of
from tests.engines.placed import exchange_of
from tests.engines.silent import SilentCall


def exchange(samples: int = 1) -> Exchange:
    return exchange_of(*(SilentCall() for _ in range(samples)))


def aborted(one: Exchange, samples: int = 1) -> list[bool]:
    return [one.is_aborted(index) for index in range(samples)]


def test_a_name_stops_what_has_it_and_nothing_else() -> None:
    in_flight = InFlight()
    one, other, third = exchange(), exchange(), exchange()
    in_flight.add(one, [("a", None)])
    in_flight.add(other, [("ab", None)])
    in_flight.add(third, [])
    in_flight.abort("a")
    in_flight.abort("")
    assert [aborted(each) for each in (one, other, third)] == [[True], [False], [False]]


def test_two_requests_of_one_name_both_stop() -> None:
    in_flight = InFlight()
    one, other = exchange(), exchange()
    in_flight.add(one, [("a", None)])
    in_flight.add(other, [("a", None)])
    one.cancel()
    in_flight.abort("a")
    assert aborted(other) == [True]


def test_a_sample_has_a_name_of_its_own() -> None:
    in_flight = InFlight()
    several = exchange(3)
    in_flight.add(several, [("a_0", 0), ("a_1", 1), ("a_2", 2), ("a", None)])
    in_flight.abort("a_1")
    assert aborted(several, 3) == [False, True, False]
    in_flight.abort("a")
    assert aborted(several, 3) == [True, True, True]


def test_all_stops_those_without_a_name_too() -> None:
    in_flight = InFlight()
    each = [exchange(), exchange(2)]
    in_flight.add(each[0], [])
    in_flight.add(each[1], [("a", None)])
    in_flight.abort(None)
    assert [aborted(each[0]), aborted(each[1], 2)] == [[True], [True, True]]


def test_what_is_over_is_forgotten() -> None:
    in_flight = InFlight()
    completed, cancelled = exchange(), exchange(2)
    in_flight.add(completed, [("a", None), ("a", None), ("b", 0)])
    in_flight.add(cancelled, [("a", 1)])
    assert len(in_flight) == 2
    completed.complete(0)
    assert len(in_flight) == 1
    cancelled.cancel()
    assert len(in_flight) == 0
    assert not in_flight._named
    in_flight.abort("a")
    in_flight.abort(None)


def test_others_are_told_what_was_asked_for() -> None:
    in_flight = InFlight()
    told: list[str | None] = []
    in_flight.abort_everywhere("nobody knows others")
    in_flight.share(told.append)
    in_flight.abort("a")
    assert told == []
    in_flight.abort_everywhere("a")
    in_flight.abort_everywhere(None)
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
