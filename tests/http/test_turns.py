"""A pause lets others go on, where there is anybody to wait for it."""

from __future__ import annotations

import gevent
import pytest

from sglrouter.http.turns import let_others_go_on
from sglrouter.waiting import NeedsGreenlet, in_callback
from tests.patience import PATIENCE


def test_others_go_on_meanwhile() -> None:
    turns: list[str] = []

    def work(name: str) -> None:
        for _ in range(3):
            turns.append(name)
            let_others_go_on()

    gevent.joinall([gevent.spawn(work, "a"), gevent.spawn(work, "b")], timeout=PATIENCE)
    assert turns == ["a", "b"] * 3


def test_a_request_in_a_callback_is_served_elsewhere() -> None:
    with pytest.raises(NeedsGreenlet):
        in_callback(let_others_go_on)
    # The next one may wait again.
    let_others_go_on()


def test_a_callback_that_writes_an_answer_goes_on() -> None:
    """To wait there would stop everybody, and to end it would lose the answer."""
    done: list[bool] = []

    def write() -> None:
        let_others_go_on()
        done.append(True)

    gevent.get_hub().loop.run_callback(write)
    with gevent.Timeout(PATIENCE):
        while not done:
            gevent.sleep(0.001)
