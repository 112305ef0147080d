"""Each form changes its one thing, and leaves alone what has it already."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.forms import FORMS, has_last_resort, in_forms, other_forms
from sglrouter.prompt.template import ChatTemplate, TemplateRefusal

Json = dict[str, Any]
BY_NAME = {form.name: form for form in FORMS}
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}


def system(content: Any, role: str = "system", **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def call(call_id: str = "a", name: str = "f", arguments: Any = None) -> Json:
    return {"id": call_id, "function": {"name": name, "arguments": arguments or {}}}


def turn(content: Any = "", *calls: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": content, **more, "tool_calls": list(calls)}


def result(content: str, call_id: str = "a") -> Json:
    return {"role": "tool", "content": content, "tool_call_id": call_id}


def thoughts(text: str) -> Json:
    return dict.fromkeys(("reasoning_content", "thinking", "reasoning", "thought"), text)


def in_form(name: str, *messages: Json, tools: Any = None) -> Any:
    before = copy.deepcopy(messages)
    new_messages, new_tools = BY_NAME[name].change(messages, tools)
    assert messages == before
    return new_messages if tools is None else new_tools


PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
CASES: list[tuple[str, list[Json], list[Json]]] = [
    (
        "merged instructions",
        [system("a", name="n"), USER, system("b"), USER, system("c")],
        [system("a\n\nb\n\nc", name="n"), USER, USER],
    ),
    (
        "merged instructions",
        [USER, system("a", name="n"), system("")],
        [system("a"), USER],
    ),
    (
        "merged instructions",
        [system("a", "developer"), USER, system("b")],
        [system("a\n\nb", "developer"), USER],
    ),
    ("merged instructions", [system(PARTS), system("c"), USER], [system("a b\n\nc"), USER]),
    (
        "instructions to user",
        [system("a"), USER, system("b")],
        [{"role": "user", "content": "a\n\nb\n\nhi"}],
    ),
    (
        "instructions to user",
        [system(""), {"role": "assistant", "content": "x"}, USER],
        [{"role": "assistant", "content": "x"}, USER],
    ),
    (
        "single calls",
        [
            turn("x", call("a"), call("b"), **thoughts("t")),
            result("A"),
            result("?", "z"),
            result("B", "b"),
            USER,
        ],
        [
            turn("x", call("a"), **thoughts("t")),
            result("A"),
            turn("", call("b")),
            result("B", "b"),
            result("?", "z"),
            USER,
        ],
    ),
    (
        "thinking part",
        [{"role": "assistant", "content": "x", **thoughts("t")}],
        [
            {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}],
            }
        ],
    ),
    (
        "thinking part",
        [turn("", call(), **thoughts("t"))],
        [turn([{"type": "thinking", "thinking": "t"}], call())],
    ),
    (
        "preamble in thoughts",
        [turn("x", call(), **thoughts("t"))],
        [turn("", call(), **thoughts("t\n\nx"))],
    ),
    (
        "preamble apart",
        [turn("x", call(), **thoughts("t"))],
        [{"role": "assistant", "content": "x"}, turn("", call(), **thoughts("t"))],
    ),
    ("no preamble", [turn("x", call())], [turn("", call())]),
    (
        "calls in text",
        [turn("x", call(arguments={"é": 1}), call("b"))],
        [
            {
                "role": "assistant",
                "content": 'x\n{"name": "f", "arguments": {"é": 1}}\n'
                '{"name": "f", "arguments": {}}',
            }
        ],
    ),
    (
        "results to user",
        [result("A"), result("B"), {"role": "assistant", "content": "x"}, result("C"), USER],
        [
            {"role": "user", "content": "A\nB"},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": "C\nhi"},
        ],
    ),
    ("content parts", [USER], [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]),
    ("null content", [turn("", call()), turn([], call())], [turn(None, call())] * 2),
    (
        "blank answer",
        [{"role": "assistant", "content": ""}],
        [{"role": "assistant", "content": " "}],
    ),
    (
        "text arguments",
        [turn("", call(arguments={"a": "é"}), call(arguments={"INVALID_JSON": '{"b": '}))],
        [turn("", call(arguments='{"a": "é"}'), call(arguments='{"b": '))],
    ),
]


@pytest.mark.parametrize(("name", "messages", "wanted"), CASES)
def test_a_form_changes_its_one_thing(name: str, messages: list[Json], wanted: list[Json]) -> None:
    assert in_form(name, *messages) == wanted


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_leaves_alone_what_it_is_not_for(form: Any) -> None:
    """The very same objects: what changes nothing is not worth trying."""
    content = [{"type": "text", "text": "x"}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": content}]
    bare = [TOOL["function"]]
    new_messages, new_tools = form.change(messages, bare)
    assert new_messages is messages
    assert new_tools == bare


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_is_reached_at_once(form: Any) -> None:
    """Forms of forms would depend on how often they are applied."""
    for name, messages, _ in CASES:
        if name == form.name:
            once, _ = form.change(messages, [TOOL])
            twice, _ = form.change(once, [TOOL])
            assert twice == once


def test_tools_are_bare() -> None:
    assert in_form("bare tools", USER, tools=[TOOL]) == [TOOL["function"]]
    assert in_form("bare tools", USER, tools=[{"type": "other"}]) == [{"type": "other"}]


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("more", [{}, {"description": None}, {"parameters": None}])
def test_tools_are_filled(wrapped: bool, more: Json) -> None:
    function = {"name": "f", **more}
    tool = {"type": "function", "function": function} if wrapped else function
    (filled,) = in_form("filled tools", USER, tools=[tool])
    assert (filled["function"] if wrapped else filled) == {
        "name": "f",
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    }


def test_tools_are_plain() -> None:
    properties = {
        "a": {"type": ["null", "integer"], "default": None, "enum": [1, None]},
        "b": True,
        "c": {"type": ["null"], "description": None},
        "d": {"items": {"anyOf": [{"type": ["string", "null"]}, {"type": "null"}]}},
    }
    parameters = {"type": "object", "properties": properties}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    (plain,) = in_form("plain tools", USER, tools=[tool])
    assert plain["function"]["parameters"]["properties"] == {
        "a": {"type": "integer", "enum": [1]},
        "b": {},
        "c": {"type": "string"},
        "d": {"items": {"anyOf": [{"type": "string"}, {}]}},
    }


def test_short_ids_stay_those_of_their_calls() -> None:
    messages = [turn("", call("call_1"), call("abc123XYZ")), result("A", "call_1")]
    (first, second) = in_form("short ids", *messages)
    ids = [past["id"] for past in first["tool_calls"]]
    assert ids[1] == "abc123XYZ"
    assert second["tool_call_id"] == ids[0]
    assert len(ids[0]) == 9
    assert ids[0].isalnum()


def names(forms: Any) -> tuple[str, ...]:
    return tuple(form.name for form in forms)


def test_only_what_changes_anything_is_tried() -> None:
    content = [{"type": "text", "text": "x"}]
    assert list(other_forms((), [{"role": "user", "content": content}], None)) == []
    assert list(map(names, other_forms((), [USER], [TOOL]))) == [
        ("bare tools",),
    ]


def test_last_resorts_are_tried_last() -> None:
    tries = list(other_forms((), [USER, turn("x", call()), result("A")], None, probing=True))
    last = [has_last_resort(forms) for forms in tries]
    assert last == sorted(last)
    assert {len(forms) for forms in tries} == {1, 2}
    assert names(tries[-1]) == ("calls in text", "results to user")


def test_what_was_chosen_stays_and_is_applied_in_order() -> None:
    chosen = (BY_NAME["text arguments"],)
    tries = list(map(names, other_forms(chosen, [USER, system("late"), turn("", call())], None)))
    assert ("merged instructions", "text arguments") in tries
    assert all("text arguments" in forms for forms in tries)


def test_thoughts_are_a_part_only_where_the_template_knows_it() -> None:
    messages = [{"role": "assistant", "content": "x", **thoughts("t")}]
    for knows in (True, False):
        tries = map(names, other_forms((), messages, None, knows_thinking=knows))
        assert (("thinking part",) in list(tries)) is knows


def test_forms_add_up() -> None:
    messages = [turn("x", call(arguments={"a": 1}), call("b"))]
    forms = [BY_NAME[n] for n in ("single calls", "preamble apart", "null content")]
    assert in_forms(forms, messages, None)[0] == [
        {"role": "assistant", "content": "x"},
        turn(None, call(arguments={"a": 1})),
        turn(None, call("b")),
    ]


def test_a_refusal_of_text_does_not_make_parts_of_it() -> None:
    """They would be shown as Python writes lists, where the template adds content to text."""
    source = (
        "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('not this') }}"
        "{% endif %}{{ m.content }}{% endfor %}"
    )
    adapted = AdaptedTemplate(ChatTemplate(source, {}))
    with pytest.raises(TemplateRefusal, match="not this"):
        adapted.render([USER, {"role": "user", "content": "bad"}], None, Budget(1.0, 1000))
