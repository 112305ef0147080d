"""Templates that refuse or lose something are given another form of the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.messages import normalise
from sglrouter.prompt.template import ChatTemplate
from tests.prompt.ample import ample

Json = dict[str, Any]

TURN = "{% for m in messages %}<{{ m.role }}>"
END = "{% endfor %}"
CALLS = (
    "{% for call in m.tool_calls or [] %}"
    "[{{ call.function.name }} {{ call.function.arguments | tojson }}]{% endfor %}"
)

# Nothing is lost on it.
PLAIN = TURN + "{{ m.reasoning_content }}{{ m.content }}" + CALLS + END
# As DeepSeek's first templates: calls only without content, arguments added to text.
NULL = (
    TURN + "{% if m.content is none %}{% for call in m.tool_calls %}"
    "{{ '[' + call.function.name + ' ' + call.function.arguments + ']' }}{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}" + END
)
# As gpt-oss's: one text beside one call, one set of instructions, descriptions added to text.
ONE = (
    "{% for t in tools or [] %}{{ '//' + t.function.description }} {{ t.function.name }};"
    "{% endfor %}{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.tool_calls %}"
    "{% if m.content and m.thinking %}{{ raise_exception('both') }}{% endif %}"
    "<analysis>{{ m.thinking or m.content }}"
    "[{{ m.tool_calls[0].function.name }} {{ m.tool_calls[0].function.arguments | tojson }}]"
    "{% elif m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"
)
# As Mistral's: thoughts in parts, ids of nine characters, no empty turns.
CHUNKS = (
    TURN + "{% if m.role == 'assistant' and not m.content and not m.tool_calls %}"
    "{{ raise_exception('empty') }}{% endif %}{% if m.content is string %}{{ m.content }}"
    "{% else %}{% for block in m.content %}{% if block['type'] == 'thinking' %}"
    "[THINK]{{ block['thinking'] }}[/THINK]{% else %}{{ block['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{% for call in m.tool_calls or [] %}{% if call.id | length != 9 %}"
    "{{ raise_exception('ids') }}{% endif %}{{ call.id }}" + CALLS + END + END
)
# As Gemma's first: no instructions, no tools.
NO_ROLES = (
    TURN + "{% if m.role not in ['user', 'assistant'] %}{{ raise_exception(m.role) }}{% endif %}"
    "{{ m.content }}" + END
)


def adapted(source: str) -> AdaptedTemplate:
    return AdaptedTemplate(ChatTemplate(source, {}))


def render(template: AdaptedTemplate, *messages: Json, tools: Any = None) -> str:
    normal = normalise(
        messages,
        content_format=template.content_format,
        knows_developer=template.knows_developer,
        knows_thinking=template.knows_thinking,
    )
    return template.render(normal, tools, ample())


USER = {"role": "user", "content": "hi"}
SYSTEM, LATE = {"role": "system", "content": "S"}, {"role": "system", "content": "L"}


def turn(*arguments: Any, **more: Any) -> Json:
    calls = [
        {"id": f"c{i}", "function": {"name": f"f{i}", "arguments": value}}
        for i, value in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, **more, "tool_calls": calls}


def result(i: int) -> Json:
    return {"role": "tool", "tool_call_id": f"c{i}", "content": f"R{i}"}


@pytest.mark.parametrize(
    ("source", "forms", "hidden"),
    [
        (PLAIN, (), ()),
        (NULL, ("preamble apart", "null content", "text arguments"), ("thoughts",)),
        (
            ONE,
            ("filled tools", "merged instructions", "single calls", "preamble in thoughts"),
            (),
        ),
        (CHUNKS, ("thinking part", "blank answer", "short ids"), ()),
        (
            NO_ROLES,
            ("instructions to user", "calls in text", "results to user"),
            ("thoughts",),
        ),
    ],
)
def test_forms_are_chosen_at_start(source: str, forms: Any, hidden: Any) -> None:
    template = adapted(source)
    assert template.forms == forms
    parts = {part.split(": ")[1] for part in template.hidden} - {"tool", "description"}
    assert parts == set(hidden)


def test_a_call_is_shown_though_its_turn_has_no_content() -> None:
    text = render(adapted(NULL), USER, turn('{"a": 1}', content="x"), result(0))
    assert text == '<user>hi<assistant>x<assistant>[f0 {"a": 1}]<tool>R0'


def test_cut_arguments_are_shown_as_they_were_cut() -> None:
    assert '[f0 {"a": ]' in render(adapted(NULL), USER, turn('{"a": '), result(0))
    text = render(adapted(PLAIN), USER, turn('{"a": '), result(0))
    assert '[f0 {"INVALID_JSON": "{\\"a\\": "}]' in text


def test_thoughts_content_and_calls_are_shown_together() -> None:
    text = render(
        adapted(ONE), USER, turn("{}", '{"b": 1}', content="x", thinking="t"), result(1), result(0)
    )
    assert text == ('<user>hi<analysis>t\n\nx[f0 {}]<tool>R0<analysis>[f1 {"b": 1}]<tool>R1')


def test_a_later_instruction_is_not_lost() -> None:
    assert render(adapted(ONE), SYSTEM, USER, LATE, USER) == "<system>S\n\nL<user>hi<user>hi"
    assert render(adapted(PLAIN), SYSTEM, USER, LATE) == "<system>S<user>hi<system>L"
    assert render(adapted(NO_ROLES), SYSTEM, USER, LATE) == "<user>S\n\nL\n\nhi"


@pytest.mark.parametrize("function", [{"name": "f"}, {"name": "f", "description": None}])
def test_a_tool_needs_no_description(function: Json) -> None:
    assert render(adapted(ONE), USER, tools=[{"function": function}]) == "// f;<user>hi"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "yes", "reasoning": "hm"},
        {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]},
    ],
)
def test_thoughts_reach_a_template_that_wants_them_as_a_part(fields: Json) -> None:
    text = render(adapted(CHUNKS), USER, {"role": "assistant", **fields}, USER)
    assert text == "<user>hi<assistant>[THINK]hm[/THINK]yes<user>hi"


def test_an_empty_answer_is_taken_back() -> None:
    assert "<assistant> <user>" in render(
        adapted(CHUNKS), USER, {"role": "assistant", "content": None}, USER
    )


def test_a_model_without_tools_reads_calls_as_text() -> None:
    text = render(adapted(NO_ROLES), USER, turn("{}", '{"b": 1}'), result(0), result(1))
    assert text == (
        '<user>hi<assistant>{"name": "f0", "arguments": {}}\n{"name": "f1", "arguments": {"b": 1}}'
        "<user>R0\nR1"
    )


def test_what_only_this_conversation_needs_is_tried_then() -> None:
    source = PLAIN + "{% if messages | length == 3 and messages[2].role == 'system' %}"
    template = adapted(source + "{{ raise_exception('late') }}{% endif %}")
    assert template.forms == ()
    assert render(template, USER, USER, LATE) == "<system>L<user>hi<user>hi"


def test_the_first_refusal_is_told() -> None:
    source = "{{ raise_exception(messages | map(attribute='role') | join(' ')) }}"
    with pytest.raises(BadRequest, match=r"^user system$"):
        render(adapted(source), USER, LATE)
