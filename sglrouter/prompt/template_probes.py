"""Tries at start what a chat template shows, and in which forms it shows most.

Strategy: small conversations with a mark in every part are rendered. Where a mark is
missing, or the template raises, other forms are tried (sglrouter.prompt.forms); one is
taken if it loses nothing that was there and shows more. What no form brings out, the
template was not written to show. It is the model's own code that runs here, so all of
it together has a bound of time, and whatever it raises is no reason not to start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sglrouter.errors import BadRequest
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.forms import Conversation, Form, has_last_resort, in_forms, other_forms
from sglrouter.prompt.messages import Message, normalise
from sglrouter.prompt.template import ChatTemplate

# Seconds and characters for all probes of a template; most take some milliseconds.
_SECONDS = 1.0
_CHARACTERS = 1_000_000


class Findings(NamedTuple):
    """What probes say of a template.

    `forms` are those to use; `hidden` names what the template shows in none.
    """

    forms: tuple[Form, ...]
    hidden: frozenset[str]


def probe(template: ChatTemplate) -> Findings:
    """Chooses the forms for a template."""
    budget = Budget(_SECONDS, _CHARACTERS)
    chosen: tuple[Form, ...] = ()
    hidden: set[str] = set()
    for name, parts, client_messages, tools in _conversations():
        try:
            messages = normalise(
                client_messages,
                content_format=template.content_format,
                knows_developer=template.knows_developer,
                knows_thinking=template.knows_thinking,
            )
            marks = {part: _mark(part) for part in parts}
            shown = _shown(template, (messages, tools), chosen, marks, budget)
            if len(shown) < len(marks):
                best = chosen
                ordinary = True
                for forms in other_forms(
                    chosen,
                    messages,
                    tools,
                    knows_thinking=template.knows_thinking,
                    probing=True,
                ):
                    if ordinary and has_last_resort(set(forms).difference(chosen)):
                        if shown:
                            break
                        ordinary = False
                    new = _shown(template, (messages, tools), forms, marks, budget)
                    if new > shown:
                        best, shown = forms, new
                    if len(shown) == len(marks):
                        break
                chosen = best
            hidden |= {f"{name}: {part}" for part in marks if part not in shown}
        except _OutOfTime:
            break
    return Findings(chosen, frozenset(hidden))


class _OutOfTime(Exception):
    """The template is too slow to be tried any further."""


def _shown(
    template: ChatTemplate,
    conversation: Conversation,
    forms: Sequence[Form],
    marks: Mapping[str, str],
    budget: Budget,
) -> frozenset[str]:
    """The parts whose marks come out; none where the template raises."""
    text = ""
    # Whatever a stranger's code raises; requests will tell.
    with suppress(Exception):
        text = template.render(*in_forms(forms, *conversation), budget)
    try:
        budget.check()
    except BadRequest as exc:
        raise _OutOfTime from exc
    return frozenset(part for part, mark in marks.items() if mark in text)


def _mark(part: str) -> str:
    """A word that no template writes, rewrites or looks for; a function may be named so."""
    return f"zq{part.replace(' ', '')}qz"


# An id such as answers have.
_ID = "call_0123456789abcdef0123456{}"


def _message(role: str, part: str = "", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": _mark(part) if part else "", **fields}


def _call(number: int) -> dict[str, Any]:
    function = {"name": f"f{number}", "arguments": {"x": _mark(f"argument {number}")}}
    return {"id": _ID.format(number), "type": "function", "function": function}


def _result(number: int) -> dict[str, Any]:
    return _message("tool", f"result {number}", tool_call_id=_ID.format(number))


def _tool(number: int, **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "d"}}}
    function = {"name": f"f{number}", "description": "d", "parameters": schema, **fields}
    return {"type": "function", "function": function}


def _conversations() -> Iterator[
    tuple[str, Sequence[str], list[dict[str, Any]], list[dict[str, Any]] | None]
]:
    """Yields a name, the marked parts, messages and tools; the plainest first."""
    user = _message("user", "user")
    thoughts: Message = {"reasoning_content": _mark("thoughts")}
    late = _message("system", "late system")
    tools = [_tool(1), _tool(2)]
    one: Message = {"tool_calls": [_call(1)]}
    two: Message = {"tool_calls": [_call(1), _call(2)]}
    first = ("user", "argument 1", "result 1")
    both = (*first, "argument 2", "result 2")

    yield (
        "turns",
        ("system", "user", "answer", "question"),
        [
            _message("system", "system"),
            user,
            _message("assistant", "answer"),
            _message("user", "question"),
        ],
        None,
    )
    yield (
        "later instructions",
        ("system", "user", "answer", "late system", "question"),
        [
            _message("system", "system"),
            user,
            _message("assistant", "answer"),
            late,
            _message("user", "question"),
        ],
        None,
    )
    yield (
        "two instructions",
        ("system", "late system", "user"),
        [_message("system", "system"), late, user],
        None,
    )
    yield (
        "an empty answer",
        ("user", "question"),
        [
            user,
            _message("assistant"),
            _message("user", "question"),
        ],
        None,
    )
    yield (
        "tools",
        ("user", "tool", "description"),
        [user],
        [_tool(1, name=_mark("tool"), description=_mark("description"))],
    )
    undescribed = {"type": "function", "function": {"name": _mark("tool")}}
    yield "tools without description", ("user", "tool"), [user], [undescribed]
    yield "calls", first, [user, _message("assistant", **one), _result(1)], tools
    yield (
        "calls beside content",
        (*first, "preamble"),
        [user, _message("assistant", "preamble", **one), _result(1)],
        tools,
    )
    yield (
        "thoughts beside calls",
        (*first, "thoughts"),
        [user, _message("assistant", **thoughts, **one), _result(1)],
        tools,
    )
    yield (
        "thoughts beside content and calls",
        (*first, "thoughts", "preamble"),
        [user, _message("assistant", "preamble", **thoughts, **one), _result(1)],
        tools,
    )
    yield (
        "parallel calls",
        both,
        [user, _message("assistant", **two), _result(1), _result(2)],
        tools,
    )
