"""What is tried for a template that refuses a conversation, and when."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.prompt.second_tries import second_tries

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}


def system(content: Any, role: str = "system", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def merged(*messages: dict[str, Any]) -> list[Any]:
    tries = list(second_tries(messages, None))
    assert len(tries) == 1
    assert tries[0][1] is None
    return list(tries[0][0])


@pytest.mark.parametrize(
    "messages", [[USER], [system("a"), USER], [USER, {"role": "assistant", "content": "x"}, USER]]
)
def test_nothing_is_tried_where_nothing_can_be_changed(messages: Any) -> None:
    assert list(second_tries(messages, None)) == []


def test_tools_are_tried_bare() -> None:
    assert list(second_tries([USER], [TOOL])) == [([USER], [{"name": "f"}])]


def test_all_combinations_are_tried() -> None:
    messages = [USER, system("a")]
    once = [system("a"), USER]
    assert list(second_tries(messages, [TOOL])) == [
        (messages, [{"name": "f"}]),
        (once, [TOOL]),
        (once, [{"name": "f"}]),
    ]


def test_instructions_are_merged_into_the_first_message() -> None:
    assert merged(system("a", name="n"), USER, system("b"), USER, system("c")) == [
        system("a\n\nb\n\nc", name="n"),
        USER,
        USER,
    ]


def test_without_a_leading_message_there_is_a_new_one() -> None:
    assert merged(USER, system("a", name="n"), system("")) == [system("a"), USER]


def test_developers_are_merged_as_what_leads() -> None:
    assert merged(system("a", "developer"), USER, system("b")) == [
        system("a\n\nb", "developer"),
        USER,
    ]


def test_parts_become_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert merged(system(parts), system("c"), USER) == [system("a b\n\nc"), USER]
