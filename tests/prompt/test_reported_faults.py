"""Faults of prompts that users of other servers have reported, each shown to be absent here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tokenizers

from sglrouter.errors import BadRequest
from sglrouter.prompt.conversation import PromptBuilder, PromptOptions
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.model_files import read_model_files

Json = dict[str, Any]

# The kinds of template there are: text is joined, text is walked through, roles are strict.
JOINS = (
    "{% for message in messages %}{{ '<' + message.role + '>' + message.content }}"
    "{% if message.reasoning_content %}{{ '<think>' + message.reasoning_content + '</think>' }}"
    "{% endif %}{% for call in message.tool_calls or [] %}"
    "{{ '<call>' + (call.function | tojson) }}{% endfor %}<end>{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
WALKS = (
    "{% for message in messages %}<{{ message.role }}>"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<end>{% endfor %}"
)
STRICT = (
    "{% for message in messages %}"
    "{% if message.role == 'system' and not loop.first %}{{ raise_exception('Late system') }}"
    "{% elif message.role not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('Unknown role') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
)
ALL = (JOINS, WALKS, STRICT)
USER = {"role": "user", "content": "hi"}


@pytest.fixture(scope="module")
def builders(tiny_model: Path) -> dict[str, PromptBuilder]:
    return {source: make(tiny_model, source) for source in ALL}


def make(folder: Path, source: str, options: PromptOptions | None = None) -> PromptBuilder:
    return PromptBuilder(
        msgspec.structs.replace(read_model_files(folder), chat_templates={"default": source}),
        reference_encoder(tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))),
        options,
    )


def calls(arguments: object, content: str | None = None, **more: Any) -> Json:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": content, "tool_calls": [call], **more}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_of_earlier_turns_reaches_the_prompt(
    builders: dict[str, PromptBuilder], name: str
) -> None:
    messages = [USER, calls("{}", "", **{name: "plan A"})]
    assert "<think>plan A</think>" in builders[JOINS].build(messages).text


@pytest.mark.parametrize("arguments", ["null", "", "{}", None])
def test_a_past_call_without_arguments_has_an_empty_object(
    builders: dict[str, PromptBuilder], arguments: object
) -> None:
    text = builders[JOINS].build([USER, calls(arguments)]).text
    assert '<call>{"name": "f", "arguments": {}}' in text


@pytest.mark.parametrize("arguments", ["[]", '{"a": ', "3", '"text"', "{'a': 1}"])
def test_a_past_call_with_broken_arguments_is_shown_as_it_was(
    builders: dict[str, PromptBuilder], arguments: str
) -> None:
    text = builders[JOINS].build([USER, calls(arguments)]).text
    assert '"arguments": ' + json.dumps({"INVALID_JSON": arguments}) in text


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("role", ["tool", "assistant", "user", "system"])
def test_text_in_parts_reaches_the_prompt(
    builders: dict[str, PromptBuilder], source: str, role: str
) -> None:
    parts = [{"type": "text", "text": "41 km"}]
    text = builders[source].build([{"role": role, "content": parts}]).text
    assert f"<{role}>41 km<end>" in text


def test_no_content_is_empty_content(builders: dict[str, PromptBuilder]) -> None:
    for source in ALL:
        build = builders[source].build
        assert build([USER, calls("{}", "")]).text == build([USER, calls("{}", None)]).text


@pytest.mark.parametrize("source", ALL)
def test_a_developer_is_neither_dropped_nor_refused(
    builders: dict[str, PromptBuilder], source: str
) -> None:
    messages = [{"role": "developer", "content": "Answer in French"}, USER]
    assert builders[source].build(messages).text.startswith("<system>Answer in French<end>")


def test_an_instruction_in_the_middle_is_no_error(builders: dict[str, PromptBuilder]) -> None:
    messages = [USER, {"role": "developer", "content": "Be brief"}, USER]
    wanted = "<system>Be brief<end><user>hi<end><user>hi<end>"
    assert builders[STRICT].build(messages).text == wanted
    assert "<user>hi<end><system>Be brief<end>" in builders[JOINS].build(messages).text


def test_tools_are_shown_as_they_were_written(builders: dict[str, PromptBuilder]) -> None:
    function = {"name": "f", "description": "path (e.g. /tmp)", "parameters": {}}
    text = builders[JOINS].build([USER], [{"type": "function", "function": function}]).text
    assert (
        '[{"type": "function", "function": '
        '{"name": "f", "description": "path (e.g. /tmp)", "parameters": {}}}]'
    ) in text


def test_arguments_are_not_escaped_for_html(builders: dict[str, PromptBuilder]) -> None:
    text = builders[JOINS].build([USER, calls({"q": "\"a\" & <b> 'c'"})]).text
    assert '"arguments": {"q": "\\"a\\" & <b> \'c\'"}' in text


def test_tools_in_another_order_can_make_the_same_prompt(tiny_model: Path) -> None:
    one = {"properties": {"a": {}, "b": {}}, "required": ["a"], "type": "object"}
    two = {"type": "object", "required": ["a"], "properties": {"b": {}, "a": {}}}
    builder = make(tiny_model, JOINS, PromptOptions(sort_tools=True))
    first, second = (
        builder.build([USER], [{"function": {"name": "f", "parameters": schema}}]).text
        for schema in (one, two)
    )
    assert first == second


def test_a_call_without_a_result_is_shown_and_not_continued(
    builders: dict[str, PromptBuilder],
) -> None:
    messages = [USER, calls('{"a": 1}')]
    assert '{"name": "f", "arguments": {"a": 1}}' in builders[JOINS].build(messages).text
    with pytest.raises(BadRequest, match="tool_calls"):
        builders[JOINS].build(messages, continue_final_message=True)


@pytest.mark.parametrize("source", ALL)
def test_a_given_beginning_ends_the_prompt(builders: dict[str, PromptBuilder], source: str) -> None:
    messages = [USER, {"role": "assistant", "content": "Sure, "}]
    text = builders[source].build(messages, continue_final_message=True).text
    assert text == "<user>hi<end><assistant>Sure, "


def test_a_template_that_reaches_for_python_gets_nowhere(tiny_model: Path) -> None:
    for expression in ("cycler.__init__.__globals__.os", "self.__init__.__globals__['os']"):
        builder = make(tiny_model, "{{ " + expression + ".popen('id').read() }}")
        with pytest.raises(BadRequest):
            builder.build([USER])


@pytest.mark.parametrize("depth", [2000, 200_000])
def test_tools_nested_deeply_are_a_400(builders: dict[str, PromptBuilder], depth: int) -> None:
    schema: Json = {}
    for _ in range(depth):
        schema = {"items": schema}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with pytest.raises(BadRequest):
        builders[JOINS].build([USER], [tool])
