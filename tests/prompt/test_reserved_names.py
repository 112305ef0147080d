"""Names that variables from outside may not have: refused by their path, however deep."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt.reserved_names import RESERVED, refuse_reserved
from sglrouter.prompt.sandbox import Sandbox
from sglrouter.turns import LONGEST_TURN
from tests.patience import PATIENCE


def refusal(variables: dict[str, Any], where: str = "chat_template_kwargs") -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        refuse_reserved(variables, where)
    error = raised.value
    assert (error.status, error.code) == (400, "reserved_name")
    return error


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("value", [None, False, "", {}, "x"])
def test_a_reserved_name_is_refused_whatever_its_value(name: str, value: object) -> None:
    error = refusal({"fine": 1, name: value})
    assert error.param == f"chat_template_kwargs.{name}"
    assert error.message == f"chat_template_kwargs may not set {name}: leave it out"


def test_all_that_templates_can_call_is_reserved() -> None:
    """Or a request could put something else in its place."""
    for name in Sandbox().globals:
        refusal({name: 1})


@pytest.mark.parametrize("name", ["chat_template", "messages", "tools", "tokenize"])
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda inner: {"a": inner}, ".a"),
        (lambda inner: {"a": [0, inner]}, ".a[1]"),
        (lambda inner: {"a": [[{"b": inner}]]}, ".a[0][0].b"),
        (lambda inner: {"": {"x y": inner}}, "..x y"),
        (lambda inner: {"a": [], "b": {}, "c": [inner]}, ".c[0]"),
    ],
)
def test_what_could_bring_another_conversation_is_refused_at_any_depth(
    name: str, wrap: Any, path: str
) -> None:
    assert refusal(wrap({name: "x"})).param == f"chat_template_kwargs{path}.{name}"
    assert refusal(wrap({name: "x"}), "defaults").param == f"defaults{path}.{name}"


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"enable_thinking": True, "reasoning_effort": "high"},
        {"Messages": 1, "messages ": 1, "tool": 1},
        # As a value, or in a list of texts, a name is a text.
        {"a": "messages", "b": ["tools", "chat_template"]},
        # Below the top, what templates call is only the name of a member.
        {"a": {"range": 1, "dict": 2, "padding": {}}},
        {"a": [{"namespace": 1}]},
    ],
)
def test_other_names_are_the_client_s(variables: dict[str, Any]) -> None:
    refuse_reserved(variables)


def test_variables_as_deep_as_they_like_are_looked_through() -> None:
    deep: Any = {"messages": 1}
    for _ in range(50_000):
        deep = [{"a": deep}]
    param = refusal({"x": deep}).param
    assert param is not None
    assert param.startswith("chat_template_kwargs.x[0].a[0].a")
    assert param.endswith("[0].a.messages")


def test_long_variables_let_others_go_on() -> None:
    rests: list[bool] = []
    many: dict[str, Any] = {"a": [{"b": []}] * 100_000}
    for _ in range(int(PATIENCE / LONGEST_TURN)):  # however fast the machine is
        refuse_reserved(many, pause=lambda: rests.append(True))
        if rests:
            return
    raise AssertionError("it has never rested")
