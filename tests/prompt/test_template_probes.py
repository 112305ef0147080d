"""What templates show, and in which forms they show most, found out at start."""

from __future__ import annotations

import time

import pytest

from sglrouter.prompt import template_probes
from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.template import ChatTemplate
from sglrouter.prompt.template_probes import Findings, probe
from tests.prompt.test_adapted_template import CALLS, CHUNKS, END, NULL, ONE, PLAIN, TURN, adapted

TOOLS = "{% for t in tools or [] %}{{ t.function.name }}{{ t.function.description }}{% endfor %}"
WHOLE = TOOLS + PLAIN


def found(source: str) -> Findings:
    return probe(ChatTemplate(source, {}))


def names(findings: Findings) -> set[str]:
    return {form.name for form in findings.forms}


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{{ 'x' * 999 }}{% endfor %}",
        "{{ messages[99].content.x.y }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{{ 'x' | center(10 ** 7) }}",
        "",
    ],
)
def test_a_hostile_template_does_not_hold_up_the_start(source: str) -> None:
    since = time.thread_time()
    adapted(source)
    assert time.thread_time() - since < 2.5


def test_probes_of_an_ordinary_template_are_quick() -> None:
    template = ChatTemplate(PLAIN, {})
    costs = []
    for _ in range(3):
        since = time.thread_time()
        AdaptedTemplate(template)
        costs.append(time.thread_time() - since)
    assert min(costs) < 0.1


def test_a_template_that_shows_all_needs_no_form() -> None:
    assert found(WHOLE) == Findings((), frozenset())


@pytest.mark.parametrize(
    ("source", "hidden"),
    [
        (PLAIN, {"tool", "description"}),
        (TOOLS + TURN + "{{ m.content }}" + CALLS + END, {"thoughts"}),
        (WHOLE.replace("{{ t.function.description }}", ""), {"description"}),
        (WHOLE.replace("{% for m in messages %}", "{% for m in messages[:1] %}"), None),
    ],
)
def test_what_no_form_brings_out_is_named_and_changes_nothing(
    source: str, hidden: set[str] | None
) -> None:
    findings = found(source)
    parts = {name.split(": ")[1] for name in findings.hidden}
    if hidden is None:
        # Of several turns, the first alone; where it can be, more is put into that.
        assert {"question", "answer"} <= parts
    else:
        assert (findings.forms, parts) == ((), hidden)


def test_a_form_is_taken_only_where_it_loses_nothing() -> None:
    # Two systems are refused, unless they are one; but one is shown only to its first word.
    refuses = (
        "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
        "{{ raise_exception('late') }}{% endif %}{% endfor %}"
    )
    assert "merged instructions" in names(found(refuses + WHOLE))
    loses = WHOLE.replace("{{ m.content }}", "{{ (m.content or '').split()[:1] | join }}")
    findings = found(refuses + loses)
    # Either part is shown at most: the mark of the second is what is lost.
    assert any("late system" in part for part in findings.hidden)


def test_forms_found_for_one_conversation_hold_for_the_next() -> None:
    """Found once, a form is not found again: each later one adds to it."""
    for source in (NULL, ONE, CHUNKS):
        template = ChatTemplate(source, {})
        findings = probe(template)
        assert probe(template) == findings
        assert AdaptedTemplate(template).forms == tuple(form.name for form in findings.forms)


@pytest.mark.parametrize("error", ["raise_exception('no')", "1 // 0", "nothing.at.all", "nope()"])
def test_a_template_that_raises_shows_nothing_and_is_no_reason_not_to_start(error: str) -> None:
    findings = found("{{ " + error + " }}")
    assert findings.forms == ()
    assert {"turns: user", "calls: result 1", "tools: description"} <= findings.hidden


def test_a_template_too_slow_to_be_tried_keeps_what_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_probes, "_SECONDS", 0.0)
    # Nothing is said of what was not tried.
    assert found(WHOLE) == found("") == Findings((), frozenset())
