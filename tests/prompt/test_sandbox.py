"""The environment that templates run in: what they can say, and what they cannot do."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, tzinfo
from typing import Any, Self

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt import sandbox
from sglrouter.prompt.template import ChatTemplate
from tests.prompt.ample import ample

USER = [{"role": "user", "content": "hi"}]


def render(source: str, **variables: Any) -> str:
    return ChatTemplate(source, {}).render(USER, None, ample(), kwargs=variables)


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


ESCAPES = [
    "{{ lipsum.__globals__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ cycler('a').__init__.__globals__['os'] }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ dict.__mro__ }}",
    "{{ (1).__class__.__base__ }}",
    "{{ ''['__class__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ [''] | map('attr', '__class__') | list }}",
    "{{ messages | selectattr('__class__') | list | length }}",
    "{{ '{0.__class__.__mro__}'.format('') }}",
    "{{ '{x.__class__}'.format_map({'x': ''}) }}",
    "{{ '%s' | format(''.__class__) }}",
    "{{ strftime_now.__globals__ }}",
    "{{ strftime_now.__closure__ }}",
    "{{ raise_exception.__code__.co_consts }}",
    "{{ joiner.__init__.__builtins__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ loop._iterable }}",
    "{% for m in messages %}{{ loop._iterator }}{% endfor %}",
    "{% macro f() %}{% endmacro %}{{ f._func }}{{ f.__init__.__globals__ }}",
    "{{ (messages | groupby('role'))[0].__class__ }}",
    "{{ environment.filters }}",
    "{{ _ }}{{ __builtins__ }}",
    "{{ messages.__reduce_ex__(2) }}",
    "{{ ''.format.__self__ }}",
    "{{ range(3).__class__ }}{{ (range(3) | list).__len__ }}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_no_way_out_shows_anything(source: str) -> None:
    text = ""
    with suppress(BadRequest):
        text = render(source)
    assert "<" not in text  # no Python object has shown itself
    assert "globals" not in text
    assert text.replace("Undefined", "").strip("[]0, ") == ""


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("{{ 'ab' * -5 }}{{ 'ab' * 0 }}{{ [] * 9 }}", "[]"),
        ("{{ 'ab' * true }}", "ab"),
        ("{{ 2 ** 1000 > 1 }}{{ (2 ** 1000) * (2 ** 1000) > 1 }}", "TrueTrue"),
        ("{{ 0.5 ** 9999999 }}{{ 1e308 * 10 }}", "0.0inf"),
        ("{{ (1, 2) * 2 }}", "(1, 2, 1, 2)"),
    ],
)
def test_ordinary_products_are_python_s(source: str, wanted: str) -> None:
    assert render(source) == wanted


@pytest.mark.parametrize(
    "source",
    [
        "{{ 2 ** 9999999999999 }}",
        "{{ (0 - 7) ** 9999999999999 }}",
        "{{ 1 ** 9999999999999 }}",
        "{{ (2 ** 1000) ** 100 }}",
        "{% set x = 3 ** 2000 %}{{ x * x }}",
        "{{ 'x' * 9999999999999 }}",
        "{{ 9999999999999 * (1, 2) }}",
        "{{ ['x'] * (2 ** 80) }}",
        "{{ ('x' * 1000000) * 1000000 }}",
    ],
)
def test_what_makes_much_of_little_is_refused_before_it_is_made(source: str) -> None:
    with pytest.raises(BadRequest, match="makes more than"):
        render(source)


@pytest.mark.parametrize(
    "source", ["{{ 'x' * 1.5 }}", "{{ {} * 3 }}", "{{ none ** 2 }}", "{{ 'x' ** 9 }}"]
)
def test_products_of_what_has_none_are_a_400(source: str) -> None:
    with pytest.raises(BadRequest) as raised:
        render(source)
    assert "unsupported operand" in raised.value.message or "multiply" in raised.value.message


def test_a_namespace_keeps_what_it_is_given() -> None:
    source = (
        "{% set ns = namespace({'a': 1}, b=2, self=3) %}{% set ns.c = ns.a + ns.b %}"
        "{{ ns.c }}{{ ns.self }}{{ ns.nope is defined }}"
    )
    assert render(source) == "33False"


def test_templates_share_no_variables() -> None:
    setting = ChatTemplate("{% set namespace = 1 %}{% set x = 2 %}{{ x }}{{ namespace }}", {})
    assert setting.render(USER, None, ample()) == "21"
    assert render("{{ x is defined }}{{ namespace(a=1).a }}") == "False1"
