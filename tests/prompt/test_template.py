"""Chat templates: what is passed to them, how they fail, and what is read from their source."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt.template import ChatTemplate
from tests.prompt.ample import ample

USER = [{"role": "user", "content": "hi"}]


def render(source: str, **variables: Any) -> str:
    return ChatTemplate(source, {}).render(USER, None, ample(), kwargs=variables)


def refusal(source: str, **variables: Any) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        render(source, **variables)
    error = raised.value
    assert (error.status, error.code, error.param) == (400, "chat_template_error", "messages")
    return error


def test_raise_exception_is_a_400_in_the_templates_words() -> None:
    error = refusal("{{ raise_exception('Roles must alternate, ' ~ messages[0].role) }}")
    assert error.message == "Roles must alternate, user"


@pytest.mark.parametrize(
    "source",
    [
        "{{ missing.field }}",
        "{{ messages[0].content + 1 }}",
        "{{ 1 // 0 }}",
        "{{ messages[0].content.nope() }}",
        "{{ missing() }}",
        "{{ missing | tojson }}",
        "{{ range(10000000) }}",
        "{{ 'x'.encode('no such codec') }}",
        "{{ '%d' | format('x') }}",
        "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "{{ messages | map(attribute='a.b.c') | join | int(base=99) }}",
        "{% for a, b in [1] %}{% endfor %}",
    ],
)
def test_a_template_that_stumbles_is_a_400(source: str) -> None:
    assert refusal(source).message


@pytest.mark.parametrize(
    "source",
    ["{% if %}", "{{ x", "{% for m in messages %}", "{% nope %}", "{{ x | nope }}", "{% break %}"],
)
def test_a_template_that_does_not_compile_is_a_wrong_configuration(source: str) -> None:
    with pytest.raises(ConfigError, match=r"^chat template: ."):
        ChatTemplate(source, {})


def test_special_tokens_are_variables_and_a_request_may_set_others() -> None:
    template = ChatTemplate("{{ bos_token }}{{ eos_token }}{{ x }}{{ nope }}", {"bos_token": "<s>"})
    assert template.render(USER, None, ample()) == "<s>"
    assert template.render(USER, None, ample(), kwargs={"x": 1, "bos_token": "B"}) == "B1"


def test_tools_and_documents_are_none_when_there_are_none() -> None:
    source = "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}"
    template = ChatTemplate(source, {})
    assert template.render(USER, None, ample()) == "TrueTrueTrue"
    tools = [{"type": "function"}]
    assert template.render(USER, tools, ample(), add_generation_prompt=False) == "FalseTrueFalse"


def test_tools_are_shown_in_the_clients_key_order_with_unknown_keys() -> None:
    tool = {"z": 1, "function": {"parameters": {}, "name": "f", "x": None}, "a": [2]}
    text = ChatTemplate("{{ tools[0] | tojson }}", {}).render(USER, [tool], ample())
    assert text == '{"z": 1, "function": {"parameters": {}, "name": "f", "x": null}, "a": [2]}'


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("{% for p in message.content %}{% endfor %}", "openai"),
        ("{% for p in message['content'] %}{% endfor %}", "openai"),
        ("{% for p in msg.content %}{% endfor %}", "openai"),
        ("{% for p in m['content'] | list %}{% endfor %}", "openai"),
        ("{% for p in message.content[1:] %}{% endfor %}", "openai"),
        ("{% for p in message.content | selectattr('type') | list %}{% endfor %}", "openai"),
        ("{% if x %}{% for p in message.content %}{% endfor %}{% endif %}", "openai"),
        ("{% macro f(m) %}{% for p in m.content %}{% endfor %}{% endmacro %}", "openai"),
        ("{% for p in c %}{% if p.type == 'image' %}<i>{% endif %}{% endfor %}", "openai"),
        ("{% for p in message.tool_calls %}{% endfor %}", "string"),
        ("{% for p in other.content %}{% endfor %}", "string"),
        ("{% for p in message[content] %}{% endfor %}", "string"),
        ("{% for p in message.content.split('x') %}{% endfor %}", "string"),
        ("{% set c = message.content %}{{ c }}", "string"),
        ("{% for message in messages %}{{ message.content }}{% endfor %}", "string"),
    ],
)
def test_content_format(source: str, wanted: str) -> None:
    assert ChatTemplate(source, {}).content_format == wanted


@pytest.mark.parametrize(
    ("source", "knows"),
    [
        ("{% if m.role == 'developer' %}{% endif %}", True),
        ('{% if m.role in ["system", "developer"] %}{% endif %}', True),
        ("{{ {'developer': 'system'}[m.role] }}", True),
        ("{# developer #}Written by a developer.", False),
        ("{{ 'the developer says' }}", False),
        ("{{ '<|developer_start|>' }}", False),
        ("", False),
    ],
)
def test_developer_is_known_only_where_the_role_is_named(source: str, knows: bool) -> None:
    assert ChatTemplate(source, {}).knows_developer is knows
