"""What a request may give the template, and by which fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt.reserved_names import RESERVED, refuse_reserved
from sglrouter.prompt.sandbox import Sandbox
from sglrouter.request.template_variables import template_variables
from sglrouter.schema.chat import decode_chat_request

LOOPS = "{% for a in range(9999) %}{% for b in range(9999) %}y{% endfor %}{% endfor %}"


def variables(**fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "hi"}]
    return template_variables(
        decode_chat_request(json.dumps({"messages": messages, **fields}).encode())
    )


def refusal(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        variables(**fields)
    assert raised.value.status == 400
    return raised.value


def test_a_request_that_says_nothing_sets_nothing() -> None:
    assert variables() == {}
    assert variables(chat_template_kwargs={}, reasoning={}, reasoning_effort=None) == {}
    assert variables(chat_template=None, thinking=None, enable_thinking=None) == {}


def test_any_other_variable_may_be_set() -> None:
    mine = {"bos_token": "", "documents": [{"title": "t", "text": "x"}], "deep": {"a": [1, None]}}
    assert variables(chat_template_kwargs=mine) == mine


@pytest.mark.parametrize("template", [LOOPS, "", 3, {"default": "x"}, [LOOPS]])
def test_a_template_is_not_taken_from_a_request(template: object) -> None:
    error = refusal(chat_template=template)
    assert error.param == "chat_template"
    error = refusal(chat_template_kwargs={"chat_template": template})
    assert error.param == "chat_template_kwargs.chat_template"


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_reserved_names_are_refused(name: str) -> None:
    error = refusal(chat_template_kwargs={"fine": 1, name: None})
    assert error.param == f"chat_template_kwargs.{name}"
    assert error.param.partition(".")[0] in error.message
    assert name in error.message


@pytest.mark.parametrize(
    "name",
    ["chat_template", "messages", "tools", "add_generation_prompt", "continue_final_message"],
)
@pytest.mark.parametrize(
    ("wrapped", "path"),
    [
        ("{%}", ""),
        ('{"x": {%}}', ".x"),
        ('{"chat_template_kwargs": {%}}', ".chat_template_kwargs"),
        ('{"x": [1, {%}]}', ".x[1]"),
        ('{"x": [[{"y": [{%}]}]]}', ".x[0][0].y[0]"),
    ],
)
def test_what_could_bring_a_template_is_refused_at_any_depth(
    name: str, wrapped: str, path: str
) -> None:
    kwargs = json.loads(wrapped.replace("%", f'"{name}": "x"'))
    assert refusal(chat_template_kwargs=kwargs).param == f"chat_template_kwargs{path}.{name}"


def test_a_deep_value_is_looked_through_without_recursion() -> None:
    deep: dict[str, Any] = {"chat_template": "x"}
    for _ in range(2000):
        deep = {"a": [deep]}
    with pytest.raises(BadRequest, match="may not set chat_template"):
        refuse_reserved(deep)


def test_all_that_templates_can_call_is_reserved() -> None:
    assert set(Sandbox().globals) <= RESERVED


@pytest.mark.parametrize(
    ("fields", "thinks"),
    [
        ({"enable_thinking": True}, True),
        ({"enable_thinking": False}, False),
        ({"thinking": True}, True),
        ({"thinking": False}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, True),
        ({"thinking": {"type": "adaptive"}}, True),
        ({"thinking": {"type": "disabled"}}, False),
        ({"reasoning": {"enabled": True}}, True),
        ({"reasoning": {"enabled": False, "effort": None}}, False),
        ({"enable_thinking": False, "thinking": True}, False),
        ({"thinking": False, "reasoning": {"enabled": True}}, False),
    ],
)
def test_a_switch_has_the_names_that_templates_read(fields: Any, thinks: bool) -> None:
    assert variables(**fields) == {"thinking": thinks, "enable_thinking": thinks}


@pytest.mark.parametrize(
    ("fields", "effort", "thinks"),
    [
        ({"reasoning_effort": "high"}, "high", True),
        ({"reasoning_effort": "minimal"}, "minimal", True),
        ({"reasoning_effort": "none"}, "none", False),
        ({"reasoning_effort": 0.5}, 0.5, True),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, "low", True),
        ({"reasoning": {"effort": "none"}}, "none", False),
        ({"reasoning_effort": "high", "reasoning": {"effort": "none"}}, "high", True),
        ({"reasoning": {"effort": "high", "enabled": False}}, "high", False),
        ({"reasoning_effort": "high", "enable_thinking": False}, "high", False),
    ],
)
def test_effort_is_a_variable_and_a_switch(fields: Any, effort: object, thinks: bool) -> None:
    assert variables(**fields) == {
        "reasoning_effort": effort,
        "thinking": thinks,
        "enable_thinking": thinks,
    }


def test_the_clients_own_variables_win() -> None:
    kwargs = {"enable_thinking": False, "reasoning_effort": "low"}
    assert variables(chat_template_kwargs=kwargs, reasoning_effort="high") == {
        "enable_thinking": False,
        "reasoning_effort": "low",
        "thinking": True,
    }


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning": "high"}, "reasoning"),
        ({"reasoning": {"effort": ["x"]}}, "reasoning.effort"),
        ({"thinking": "yes please"}, "thinking"),
        ({"thinking": {"type": 3}}, "thinking.type"),
        ({"enable_thinking": "perhaps"}, "enable_thinking"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs"),
    ],
)
def test_a_switch_of_another_type_is_named(fields: Any, param: str) -> None:
    assert refusal(**fields).param == param
