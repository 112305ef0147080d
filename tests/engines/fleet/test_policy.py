"""Which of several engines gets a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.fleet.engine import DOWN, SERVING, UNKNOWN, Engine
from sglrouter.engines.fleet.facts import NO_FACTS, FactsOfEngine
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.fleet.placement import Job
from sglrouter.engines.fleet.policy import LeastLoad
from tests.engines.fleet.test_fleet import fleet_of, placed
from tests.engines.scripted import ScriptedChannel


def test_engines_take_turns() -> None:
    with fleet_of("a:1", "b:2", "c:3") as fleet:
        picked = [placed(fleet).endpoint.host for _ in range(6)]
    assert picked == ["a", "b", "c", "a", "b", "c"]


def test_an_engine_that_fails_at_once_does_not_draw_everything_to_it() -> None:
    with fleet_of("a:1", "b:2") as fleet:
        failing, sound = fleet.engines
        for _ in range(4):
            failing.note_end(fault=True)
        assert [placed(fleet) for _ in range(4)] == [sound] * 4
        failing.note_end(fault=False)
        assert {placed(fleet) for _ in range(2)} == {failing, sound}


class Standing:
    """An engine as a policy sees it."""

    def __init__(
        self, name: str, standing: int = SERVING, load: int = 0, *, missing: bool = False
    ) -> None:
        self.name = name
        self.standing = standing
        self.load = load
        self.facts = FactsOfEngine(lambda: NO_FACTS, name, lambda: None)
        self.facts.missing = missing


def order(policy: LeastLoad, *engines: Standing) -> str:
    """The names of the engines in the order that the policy puts them in."""
    ordered = policy.order(cast("Sequence[Engine]", engines), Job("/a/B", []))
    return "".join(cast("Standing", engine).name for engine in ordered)


@pytest.mark.parametrize(
    ("engines", "wanted"),
    [
        ([Standing("a", load=2), Standing("b", load=1), Standing("c", load=3)], "bac"),
        # Who is down gets nothing while another one is not, however busy.
        ([Standing("a", DOWN), Standing("b", load=9)], "b"),
        ([Standing("a", DOWN), Standing("b", UNKNOWN, load=9)], "b"),
        # If all are, all are tried.
        ([Standing("a", DOWN, load=2), Standing("b", DOWN)], "ba"),
        # Who serves comes before who may serve, and who has said of itself before who has not.
        ([Standing("a", UNKNOWN), Standing("b", load=9)], "ba"),
        ([Standing("a", missing=True), Standing("b", load=9)], "ba"),
        ([Standing("a", missing=True), Standing("b", UNKNOWN, load=9)], "ba"),
        ([Standing("a", DOWN)], "a"),
    ],
)
def test_the_least_loaded_of_those_that_serve_is_first(
    engines: list[Standing], wanted: str
) -> None:
    assert order(LeastLoad(), *engines) == wanted


def test_engines_of_one_load_take_turns_and_all_follow() -> None:
    policy = LeastLoad()
    engines = [Standing("a"), Standing("b"), Standing("c")]
    assert [order(policy, *engines) for _ in range(4)] == ["abc", "bca", "cab", "abc"]
    engines[1].load = 1
    assert {order(policy, *engines) for _ in range(3)} == {"acb", "cab"}
    # Where some are avoided, the others take turns.
    assert [order(policy, *engines[::2]) for _ in range(2)] in (["ac", "ca"], ["ca", "ac"])


def test_what_is_asked_is_left_as_it_was() -> None:
    engines = [Standing("a", load=1), Standing("b")]
    assert order(LeastLoad(), *engines) == "ba"
    assert [engine.name for engine in engines] == ["a", "b"]


def test_a_fleet_asks_the_policy_that_it_is_given() -> None:
    asked = []

    class Last:
        """The last of all engines, alone."""

        def order(self, engines: Sequence[Engine], job: Job, /) -> list[Engine]:
            asked.append(job)
            return [engines[-1]]

    endpoints = [parse_endpoint(f"{name}:1") for name in "abc"]
    fleet = Fleet(endpoints, lambda _: ScriptedChannel(), Last())
    job = Job("/a/B", [], ids=[1, 2])
    assert fleet.place(job).engine is fleet.engines[2]
    assert fleet.place(job, avoid=[fleet.engines[2]]).engine is fleet.engines[1]
    assert asked == [job, job]
    fleet.close()
