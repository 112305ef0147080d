"""Results are put behind their calls and get what they lack."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sglrouter.prompt.messages import normalise

Json = dict[str, Any]
USER = {"role": "user", "content": "hi"}


def calls(*ids: str | None) -> Json:
    return {
        "role": "assistant",
        "tool_calls": [
            {"id": call_id, "function": {"name": f"f{i}", "arguments": "{}"}}
            for i, call_id in enumerate(ids)
        ],
    }


def result(content: str, call_id: str | None = None, **more: str) -> Json:
    return {"role": "tool", "content": content, "tool_call_id": call_id, **more}


def results(*messages: Json) -> list[tuple[str, str | None, str | None]]:
    out = normalise(messages, content_format="string", knows_developer=False)
    return [
        (message["content"], message.get("name"), message.get("tool_call_id"))
        for message in out
        if message["role"] != "assistant"
    ]


@pytest.mark.parametrize("order", [*itertools.permutations("abc")])
def test_results_come_in_the_order_of_the_calls(order: tuple[str, ...]) -> None:
    sent = [result(call_id.upper(), call_id) for call_id in order]
    assert results(calls("a", "b", "c"), *sent) == [
        ("A", "f0", "a"),
        ("B", "f1", "b"),
        ("C", "f2", "c"),
    ]


def test_a_name_that_was_sent_stays() -> None:
    assert results(calls("a"), result("A", "a", name="mine")) == [("A", "mine", "a")]


def test_results_without_ids_go_by_position() -> None:
    assert results(calls("a", "b"), result("A"), result("B", "")) == [
        ("A", "f0", "a"),
        ("B", "f1", "b"),
    ]


def test_results_without_ids_go_by_name_first() -> None:
    sent = [result("B", name="f1"), result("A", name="f0")]
    assert results(calls("a", "b"), *sent) == [("A", "f0", "a"), ("B", "f1", "b")]


def test_one_without_an_id_takes_the_call_that_is_left() -> None:
    assert results(calls("a", "b"), result("B"), result("A", "a")) == [
        ("A", "f0", "a"),
        ("B", "f1", "b"),
    ]


def test_ids_that_were_given_twice_go_by_position() -> None:
    assert results(calls("x", "x"), result("A", "x"), result("B", "x")) == [
        ("A", "f0", "x"),
        ("B", "f1", "x"),
    ]


def test_calls_without_ids_share_theirs_with_the_results() -> None:
    assert results(calls(None, ""), result("A"), result("B")) == [
        ("A", "f0", "call00000"),
        ("B", "f1", "call00001"),
    ]


def test_a_result_of_no_call_keeps_its_place() -> None:
    sent = [result("?", "z"), result("B", "b"), result("A", "a")]
    assert results(calls("a", "b"), *sent) == [
        ("?", None, "z"),
        ("A", "f0", "a"),
        ("B", "f1", "b"),
    ]
    assert results(result("?", "z")) == [("?", None, "z")]


def test_unknown_ids_go_by_position_where_numbers_agree() -> None:
    assert results(calls("a", "b"), result("A", "y"), result("B", "z")) == [
        ("A", "f0", "y"),
        ("B", "f1", "z"),
    ]


def test_what_stands_between_results_is_not_crossed() -> None:
    sent = [result("B", "b"), USER, result("A", "a")]
    assert results(calls("a", "b"), *sent) == [
        ("B", "f1", "b"),
        ("hi", None, None),
        ("A", "f0", "a"),
    ]


def test_ids_may_come_again_in_a_later_turn() -> None:
    again = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "g"}}]}
    assert results(calls("a"), result("1", "a"), again, result("2", "a")) == [
        ("1", "f0", "a"),
        ("2", "g", "a"),
    ]
