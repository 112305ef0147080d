"""Templates that go on for long or grow without end: refused in time, and never alone."""

from __future__ import annotations

import time

import pytest
from jinja2 import nodes

from sglrouter.errors import BadRequest
from sglrouter.prompt.bounded_syntax import STEP, STORE, BoundedContext, Bounding, store
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.sandbox import Sandbox
from sglrouter.prompt.template import ChatTemplate
from tests.patience import PROMPT
from tests.prompt.ample import ample

USER = [{"role": "user", "content": "hi"}]

ENDLESS = {
    "output": "{% for a in range(9999) %}{% for b in range(9999) %}y{% endfor %}{% endfor %}",
    "silent": "{% for a in range(9999) %}{% for b in range(9999) %}{% set x = b %}{% endfor %}"
    "{% endfor %}",
    "in a test": "{% for a in range(99999) %}{% for b in range(99999) if b > 99999 %}{% endfor %}"
    "{% endfor %}",
    "with loop": "{% for a in range(9999) %}{% for b in range(9999) %}{{ loop.index }}{% endfor %}"
    "{% endfor %}",
    "macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "recursive loop": "{% for a in [60] recursive %}"
    "{% if a %}{{ loop([a - 1]) }}{{ loop([a - 1]) }}{% endif %}{% endfor %}",
    "caller": "{% macro f(n) %}{% for i in range(99999) %}{{ caller() }}{% endfor %}{% endmacro %}"
    "{% call f(1) %}{% for i in range(99999) %}{% endfor %}{% endcall %}",
    "caller of callers": "{% macro f(n) %}{{ caller(n) }}{{ caller(n) }}{% endmacro %}"
    "{% macro g(n) %}{% if n %}{% call(m) f(n) %}{{ g(m - 1) }}{% endcall %}{% endif %}"
    "{% endmacro %}{{ g(60) }}",
    "block": "{% set ns = namespace(d=0) %}{% block b %}{% set ns.d = ns.d + 1 %}"
    "{% if ns.d < 40 %}{{ self.b() }}{{ self.b() }}{% endif %}{% set ns.d = ns.d - 1 %}"
    "{% endblock %}",
    "block in a scope": "{% for x in range(99999) %}{% block b scoped %}"
    "{% for y in range(99999) %}{% endfor %}{% endblock %}{% endfor %}",
    "generation": "{% for x in range(99999) %}{% generation %}{% for y in range(99999) %}"
    "{% endfor %}{% endgeneration %}{% endfor %}",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_what_goes_on_for_long_is_refused(source: str) -> None:
    template = ChatTemplate(source, {})
    started = time.monotonic()
    with pytest.raises(BadRequest, match=r"takes longer than 0\.1 s") as raised:
        template.render(USER, None, Budget(0.1, 10**9))
    assert time.monotonic() - started < PROMPT
    error = raised.value
    assert (error.status, error.code, error.param) == (400, "chat_template_error", "messages")


GROWING = {
    "output": "{% for a in range(9999) %}{{ x }}{% endfor %}",
    "variable": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "sum": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "list": "{% set ns = namespace(x=[1, 2]) %}{% for a in range(60) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "join": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
    "format": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor %}",
    "method": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x = ns.x.replace('x', 'xx') %}{% endfor %}",
    "block": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "filtered block": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x | upper %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "argument": "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f(x) }}",
    "recursive loop": "{% for a in [x] recursive %}{{ loop([a ~ a]) }}{% endfor %}",
    "call block": "{% macro f(x) %}{{ caller(x ~ x) }}{% endmacro %}"
    "{% macro g(x) %}{% call(y) f(x) %}{{ g(y) }}{% endcall %}{% endmacro %}{{ g(x) }}",
    "with": "{% for a in [x] recursive %}{% with b = a ~ a %}{{ loop([b]) }}{% endwith %}"
    "{% endfor %}",
    "list of texts": "{% set ns = namespace(x=[x]) %}{% for a in range(60) %}"
    "{% set ns.x = [ns.x[0] ~ ns.x[0]] %}{% endfor %}",
    "mapping": "{% set ns = namespace(x={'k': x}) %}{% for a in range(60) %}"
    "{% set ns.x = {'k': ns.x.k + ns.x.k} if true else 1 %}{% endfor %}",
    "namespaces": "{% set ns = namespace(x=namespace(y=x)) %}{% for a in range(60) %}"
    "{% set ns.x = namespace(y=ns.x.y ~ ns.x.y) %}{% endfor %}",
    "list as argument": "{% macro f(x) %}{{ f([x[0] ~ x[0]]) }}{% endmacro %}{{ f([x]) }}",
    "method of a sum": "{% set ns = namespace(x=x) %}{% for a in range(60) %}"
    "{% set ns.x = (ns.x ~ ns.x).strip() or '' %}{% endfor %}",
    "repetition": "{% set y = x * 99999999999 %}",
    "repetition of a list": "{{ ([1] * 99999999999) | length }}",
    "repetition the other way": "{{ 99999999999 * x }}",
    "power": "{{ 10 ** 10000000000 }}",
    "product": "{% set ns = namespace(x=9) %}{% for a in range(60) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}",
}


@pytest.mark.parametrize("source", GROWING.values(), ids=GROWING)
def test_what_grows_without_end_is_refused(source: str) -> None:
    template = ChatTemplate(source, {})
    with pytest.raises(BadRequest, match="makes more than 100000 characters"):
        template.render(USER, None, Budget(20.0, 100_000), kwargs={"x": "x" * 100})


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("{{ 'ab' * 3 }}{{ 3 * [1] }}{{ 2 * 3 }}{{ 2.5 * 2 }}", "ababab[1, 1, 1]65.0"),
        ("{{ 2 ** 10 }}{{ 4 ** 0.5 }}{{ 2 ** -1 }}", "10242.00.5"),
        ("{% for a in [] %}{% else %}none{% endfor %}", "none"),
        ("{% for a in [1, 2] if a > 1 %}{{ loop.first }}{{ loop.length }}{% endfor %}", "True1"),
        ("{% macro f(x, y=2) %}{{ x }}{{ y }}{{ varargs }}{% endmacro %}{{ f(1) }}", "12()"),
        (
            "{% macro f() %}{{ caller(3) }}{% endmacro %}{% call(x) f() %}<{{ x }}>{% endcall %}",
            "<3>",
        ),
        ("{% set x | upper | trim %} a{{ 'b' }} {% endset %}{{ x }}", "AB"),
        ("{% set x %}{% endset %}[{{ x }}]", "[]"),
        ("{% set a, b = 'x-y'.split('-') %}{{ b }}{{ a }}", "yx"),
        ("{% with a = 'x' ~ 1, b = [2] + [3] %}{{ a }}{{ b }}{% endwith %}", "x1[2, 3]"),
        (
            "{% for a in [[1, [2]]] recursive %}{{ a[0] }}{{ loop([a[1:]]) if a[1:] }}{% endfor %}",
            "1[2]",
        ),
        ("{% for a, b in {'k': 'v'}.items() recursive %}{{ a }}{{ b }}{% endfor %}", "kv"),
        ("{% set x = missing_macro_is_fine %}{{ x is defined }}", "False"),
        ("{% macro f(x) %}{{ x is defined }}{% endmacro %}{{ f() }}", "False"),
        ("{% block a %}{{ messages[0].content }}{% endblock %}{{ self.a() }}", "hihi"),
    ],
)
def test_bounds_do_not_show_in_what_is_rendered(source: str, wanted: str) -> None:
    assert ChatTemplate(source, {}).render(USER, None, ample()) == wanted


def bounds(source: str) -> tuple[int, int]:
    """How many steps and how many stores a template's syntax gets."""
    tree = Bounding().visit(Sandbox().parse(source))
    names = [node.name for node in tree.find_all(nodes.Filter)]
    return names.count(STEP), names.count(STORE)


LOOP = "{% for a in messages %}BODY{% endfor %}"
MACRO = "{% macro f(x) %}BODY{% endmacro %}"


@pytest.mark.parametrize(
    ("source", "steps", "stores"),
    [
        # What runs once is left alone, however it grows.
        ("{% set x = a ~ b %}{{ x + x }}", 0, 0),
        ("{% set x %}a{% endset %}{% with y = a ~ b %}{% endwith %}", 0, 0),
        ("{{ f(a ~ b) }}", 0, 0),
        (LOOP, 1, 0),
        (LOOP.replace("BODY", LOOP), 2, 0),
        # Behind a loop it runs once again.
        (LOOP + MACRO + "{% set x = a ~ b %}{{ f(a ~ b) }}", 2, 0),
        (MACRO, 1, 0),
        ("{% block b %}{% endblock %}", 1, 0),
        # A call block takes steps where its macro is called.
        ("{% call f() %}{% set x = a ~ b %}{% endcall %}", 0, 1),
    ],
)
def test_rounds_are_counted_where_there_are_some(source: str, steps: int, stores: int) -> None:
    assert bounds(source) == (steps, stores)


@pytest.mark.parametrize(
    ("value", "stores"),
    [
        # No larger than what it is made of.
        ("a", 0),
        ("'text'", 0),
        ("a.b[0]['c']", 0),
        ("a == b", 0),
        ("not a", 0),
        ("a and b", 0),
        ("[a, b]", 0),
        ("{'k': a}", 0),
        ("a if b else c", 0),
        ("a | trim | length", 0),
        ("a.strip().split('x')[0]", 0),
        ("namespace(x=a)", 0),
        ("range(9)", 0),
        ("n + 1", 0),
        ("2 * n", 0),
        # Larger than each.
        ("a ~ b", 1),
        ("a + b", 1),
        ("a * b", 1),
        ("'%s%s' % (a, b)", 1),
        ("a | join", 1),
        ("a | replace('a', 'aa')", 1),
        ("a.join(b)", 1),
        ("(a ~ b).strip()", 1),
        ("(a ~ b) | trim", 1),
        ("(a ~ b)[1:]", 1),
        ("a and (b ~ b)", 1),
        ("(a ~ a) or b", 1),
        ("f(a)", 1),
        # Each value in it that may have grown.
        ("[a ~ b, a, [b + a]]", 2),
        ("{'k': a ~ b, 'l': a}", 1),
        ("a ~ b if c else a + b", 2),
        ("a ~ b if c", 1),
    ],
)
def test_what_may_have_grown_is_looked_at_where_it_is_kept(value: str, stores: int) -> None:
    for kept in ("{% set x = VALUE %}", "{% with x = VALUE %}{% endwith %}"):
        source = LOOP.replace("BODY", kept.replace("VALUE", value))
        assert bounds(source) == (1, stores)
    for call in ("{{ f(VALUE) }}", "{{ f(x=VALUE) }}"):
        assert bounds(MACRO.replace("BODY", call.replace("VALUE", value))) == (1, stores)
    # Written at once, it is counted with all that is written.
    assert bounds(LOOP.replace("BODY", "{{ VALUE }}".replace("VALUE", value)))[1] == 0


def test_a_value_is_measured_by_its_length() -> None:
    context = BoundedContext(Sandbox(), {}, None, {})
    context.budget = Budget(60.0, 3)
    for value in ("abc", [1, 2, 3], (1, 2, 3), 10**9, None, {"a": 1, "b": 2, "c": 3, "d": 4}):
        assert store(value, context) is value
    for large in ("abcd", [1, 2, 3, 4], (1, 2, 3, 4)):
        with pytest.raises(BadRequest, match="more than 3 characters"):
            store(large, context)
    # The scoped blocks' contexts are other ones, and spend the same.
    assert context.derived({"x": 1}).budget is context.budget


def test_no_template_can_name_the_bounds() -> None:
    for name in ("step", "store", "(step)"):
        with pytest.raises(Exception, match="chat template"):
            ChatTemplate("{{ messages | " + name + " }}", {})


def test_a_long_rendering_rests_and_its_rests_are_not_counted() -> None:
    rests = 0

    def pause() -> None:
        nonlocal rests
        rests += 1
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            pass

    template = ChatTemplate(
        "{% for a in range(9999) %}{% for b in range(9) %}{% endfor %}{% endfor %}", {}
    )
    while rests < 10:  # however fast the machine is
        template.render(USER, None, Budget(2.0, 1000, pause))


def test_a_short_rendering_never_rests() -> None:
    def pause() -> None:
        raise AssertionError("rested")

    budget = Budget(60.0, 1000, pause)
    budget.until += 60.0  # however slow the machine is
    ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", {}).render(
        USER, None, budget
    )


def test_a_quadratic_template_ends_in_time_over_many_messages() -> None:
    source = "{% for m in messages %}{% for n in messages %}{% endfor %}{% endfor %}"
    many = [{"role": "user", "content": "x"}] * 100_000
    started = time.monotonic()
    with pytest.raises(BadRequest, match="takes longer"):
        ChatTemplate(source, {}).render(many, None, Budget(0.1, 1000))
    assert time.monotonic() - started < PROMPT


def test_two_renderings_at_once_spend_their_own_budgets() -> None:
    """While one rests, another runs through the same compiled template."""
    template = ChatTemplate(
        "{% for a in range(n) %}{% for b in range(999) %}{% endfor %}{% endfor %}{{ n }}", {}
    )
    inner: list[str] = []

    def pause() -> None:
        if not inner:
            inner.append(template.render(USER, None, ample(), kwargs={"n": 3}))

    with pytest.raises(BadRequest, match=r"takes longer than 0\.05 s"):
        template.render(USER, None, Budget(0.05, 1000, pause), kwargs={"n": 99_999})
    assert inner == ["3"]
