"""The environment that templates run in: what they can say, and what they cannot do."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any, Self

import pytest

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt import sandbox
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


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("x | tojson", '{"z": "<é>&\'", "a": [1, 2.0, true, null]}'),
        ("x | tojson(ensure_ascii=true)", '{"z": "<\\u00e9>&\'", "a": [1, 2.0, true, null]}'),
        ("x | tojson(true)", '{"z": "<\\u00e9>&\'", "a": [1, 2.0, true, null]}'),
        ("x | tojson(separators=(',', ':'))", '{"z":"<é>&\'","a":[1,2.0,true,null]}'),
        ("x | tojson(sort_keys=true)", '{"a": [1, 2.0, true, null], "z": "<é>&\'"}'),
        ("{'b': [1]} | tojson(indent=2)", '{\n  "b": [\n    1\n  ]\n}'),
        ("{'b': 1, 'c': 2} | tojson(indent=0)", '{\n"b": 1,\n"c": 2\n}'),
        ("'a\\u2028\"' | tojson", '"a\u2028\\""'),
        ("none | tojson", "null"),
        ("{1: 2} | tojson", '{"1": 2}'),
    ],
)
def test_tojson_writes_as_python_does(expression: str, wanted: str) -> None:
    value = {"z": "<é>&'", "a": [1, 2.0, True, None]}
    assert render("{{ " + expression + " }}", x=value) == wanted


def test_text_is_not_escaped_for_html() -> None:
    assert render("{{ x }}", x="<b>&'\"") == "<b>&'\""


def test_whitespace_round_blocks_is_trimmed_and_one_last_newline_dropped() -> None:
    source = "a\n    {% if true %}\nb\n    {% endif %}\nc\n\n"
    assert render(source) == "a\nb\nc\n"


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


def test_loop_controls() -> None:
    source = (
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
        "{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    )
    assert render(source) == "023"


def test_generation_marks_are_rendered_as_their_body() -> None:
    source = (
        "{% set x = 'out' %}{% for m in messages %}{%- generation -%} {{ m.content }}"
        "{% set x = 'in' %}{{ loop.index }}{%- endgeneration -%}{{ x }}{% endfor %}"
    )
    assert render(source) == "hi1out"


def test_strftime_now_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Frozen(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            assert tz is None
            return cls(2025, 7, 26, 12, 34, 56)

    monkeypatch.setattr(sandbox, "datetime", Frozen)
    assert render("{{ strftime_now('%d %b %Y %H:%M') }}") == "26 Jul 2025 12:34"


def test_python_methods_and_jinja_globals_work() -> None:
    source = (
        "{% set ns = namespace(n=0, self=1) %}{% set ns.n = 2 %}{{ ns.n }}{{ ns.self }}"
        "{{ messages[::-1][0].content.upper().rstrip('I') }}{{ dict(a=1).items() | list }}"
        "{{ messages[0].get('nope', 'd') }}{{ messages is iterable }}"
    )
    assert render(source) == "21H[('a', 1)]dTrue"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages[0].update(role='x') }}",
        "{{ messages[0].pop('role') }}",
        "{{ messages.clear() }}",
        "{{ numbers.sort() }}",
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ namespace(_x=1) }}",
        "{% set ns = namespace() %}{% set ns.__html__ = raise_exception %}",
        "{{ namespace({'__html__': raise_exception}) }}",
        "{% include 'x' %}",
        "{% import 'x' as x %}",
        "{% extends 'x' %}",
    ],
)
def test_the_sandbox_refuses_mutation_and_private_attributes(source: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    before = [dict(message) for message in messages]
    with pytest.raises(BadRequest):
        ChatTemplate(source, {}).render(messages, None, ample(), kwargs={"numbers": [2, 1]})
    assert messages == before


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ ('{0.__class__}' | attr('format'))(messages) }}",
    ],
)
def test_private_attributes_read_as_nothing(source: str) -> None:
    assert render(source) == ""


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
