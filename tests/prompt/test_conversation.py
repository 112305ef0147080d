"""From a conversation to ids: which template, which variables, which tokens."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tokenizers
from tokenizers.processors import TemplateProcessing

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt.conversation import PromptBuilder, PromptOptions
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.model_files import ModelFiles, read_model_files
from sglrouter.prompt.reserved_names import RESERVED

USER = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.fixture(scope="module")
def files(tiny_model: Path) -> ModelFiles:
    return read_model_files(tiny_model)


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(tiny_model / "tokenizer.json"))


class Build:
    """Makes builders of the tiny model with other templates."""

    def __init__(self, files: ModelFiles, tokenizer: tokenizers.Tokenizer) -> None:
        self._files = files
        self._tokenizer = tokenizer

    def __call__(self, options: PromptOptions | None = None, /, **templates: str) -> PromptBuilder:
        files = msgspec.structs.replace(self._files, chat_templates=templates)
        return PromptBuilder(files, reference_encoder(self._tokenizer), options)


@pytest.fixture
def build(files: ModelFiles, tokenizer: tokenizers.Tokenizer) -> Build:
    return Build(files, tokenizer)


def test_the_ids_are_those_of_the_text(files: ModelFiles, tokenizer: tokenizers.Tokenizer) -> None:
    prompt = PromptBuilder(files, reference_encoder(tokenizer)).build(USER)
    assert prompt.text.endswith("<|im_start|>assistant\n")
    assert list(prompt.ids) == tokenizer.encode(prompt.text, add_special_tokens=False).ids
    assert tokenizer.token_to_id("<|im_start|>") in prompt.ids


def test_the_first_token_is_not_added_twice(files: ModelFiles, tiny_model: Path) -> None:
    """Many tokenizers put one before every text, and the template has written it already."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    first = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.post_processor = TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", first)]
    )
    assert tokenizer.encode("x").ids[0] == first
    for source, count in (("{{ bos_token }}{{ messages[0].content }}", 1), ("hi", 0)):
        with_first = msgspec.structs.replace(
            files,
            special_tokens={"bos_token": "<|endoftext|>"},
            chat_templates={"default": source},
        )
        ids = list(PromptBuilder(with_first, reference_encoder(tokenizer)).build(USER).ids)
        assert ids.count(first) == count


@pytest.mark.parametrize(
    ("templates", "tools", "wanted"),
    [
        ({"default": "d"}, None, "d"),
        ({"default": "d"}, TOOLS, "d"),
        ({"default": "d", "tool_use": "t"}, None, "d"),
        ({"default": "d", "tool_use": "t"}, TOOLS, "t"),
        ({"default": "d", "tool_use": "t"}, [], "d"),
        ({"default": "d", "rag": "r"}, TOOLS, "d"),
        ({"tool_use": "t"}, TOOLS, "t"),
    ],
)
def test_tool_use_is_the_template_where_there_are_tools(
    build: Build, templates: dict[str, str], tools: Any, wanted: str
) -> None:
    assert build(**templates).build(USER, tools).text == wanted


@pytest.mark.parametrize("templates", [{}, {"tool_use": "t"}, {"rag": "r"}])
def test_without_a_template_a_request_is_refused(build: Build, templates: dict[str, str]) -> None:
    builder = build(**templates)
    assert builder.has_template is bool(templates)
    with pytest.raises(BadRequest, match="no chat template") as raised:
        builder.build(USER)
    assert raised.value.code == "chat_template_error"


def test_the_operators_template_replaces_all_of_the_models(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("mine ü", encoding="utf-8")
    builder = build(PromptOptions(template_file=path), default="d", tool_use="t")
    assert builder.build(USER).text == "mine ü"
    assert builder.build(USER, TOOLS).text == "mine ü"


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_the_operators_template_must_be_readable(
    build: Build, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "mine.jinja"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine\.jinja"):
        build(PromptOptions(template_file=path))


def test_a_template_that_does_not_compile_stops_the_start(build: Build) -> None:
    with pytest.raises(ConfigError, match="chat template"):
        build(default="fine", tool_use="{% if %}")


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_request_may_not_set_what_the_router_sets(build: Build, name: str) -> None:
    with pytest.raises(BadRequest, match=name) as raised:
        build(default="x").build(USER, kwargs={"fine": 1, name: True})
    assert raised.value.param == f"chat_template_kwargs.{name}"


def test_a_request_sets_the_templates_variables(build: Build) -> None:
    builder = build(default="{{ enable_thinking }} {{ eos_token }} {{ add_generation_prompt }}")
    prompt = builder.build(USER, kwargs={"enable_thinking": False}, add_generation_prompt=False)
    assert prompt.text == "False <|im_end|> False"
    assert builder.build(USER).text == " <|im_end|> True"


def test_messages_are_normalised_for_the_chosen_template(build: Build) -> None:
    builder = build(
        default="{{ messages[0].role }}: {{ messages[0].content }}",
        tool_use="{% for message in messages %}{{ message.role }}:"
        "{% for part in message.content %} [{{ part.text }}]{% endfor %}"
        "{% if message.role == 'developer' %}!{% endif %}{% endfor %}",
    )
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": parts}]
    before = copy.deepcopy(messages)
    assert builder.build(messages).text == "system: a b"
    assert builder.build(messages, TOOLS).text == "developer: [a] [b]!"
    assert messages == before


def test_no_messages_are_refused(build: Build) -> None:
    with pytest.raises(BadRequest, match="must not be empty"):
        build(default="x").build([])


def test_an_empty_prompt_has_no_ids(build: Build) -> None:
    assert list(build(default="").build(USER).ids) == []


NAMED = {"default": "d", "tool_use": "t", "rag": "{{ documents[0].text }}"}


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_the_operator_may_choose_a_template_by_name(build: Build, tools: Any) -> None:
    builder = build(PromptOptions(template_name="rag"), **NAMED)
    assert builder.build(USER, tools, kwargs={"documents": [{"text": "x"}]}).text == "x"


def test_a_template_that_is_not_there_cannot_be_chosen(build: Build) -> None:
    with pytest.raises(ConfigError, match=r"^chat_template_name: .*'nope'.*default, rag, tool_use"):
        build(PromptOptions(template_name="nope"), **NAMED)
    with pytest.raises(ConfigError, match="none at all"):
        build(PromptOptions(template_name="nope"))


def test_the_operators_variables_fill_what_a_request_leaves_out(build: Build) -> None:
    options = PromptOptions(variables={"enable_thinking": False, "eos_token": "E"})
    builder = build(options, default="{{ enable_thinking }}{{ eos_token }}{{ x }}")
    assert builder.build(USER).text == "FalseE"
    assert builder.build(USER, kwargs={"enable_thinking": True, "x": 1}).text == "TrueE1"


@pytest.mark.parametrize("variables", [{"messages": []}, {"range": 1}, {"x": {"tools": []}}])
def test_the_operators_variables_leave_the_routers_alone(build: Build, variables: Any) -> None:
    with pytest.raises(ConfigError, match=r"^default_chat_template_kwargs"):
        build(PromptOptions(variables=variables), default="x")


def test_tools_are_sorted_only_on_demand(build: Build) -> None:
    function = {"name": "f", "description": "\u00e9", "x": [{"b": 1.0, "a": None}]}
    tools = [{"type": "function", "function": function}]
    swapped = [{"function": dict(reversed(function.items())), "type": "function"}]
    source = "{{ tools | tojson }}"
    as_sent = build(default=source)
    assert as_sent.build(USER, tools).text != as_sent.build(USER, swapped).text
    sorted_keys = build(PromptOptions(sort_tools=True), default=source)
    text = sorted_keys.build(USER, tools).text
    assert text == sorted_keys.build(USER, swapped).text
    assert text == (
        '[{"function": {"description": "\u00e9", "name": "f", "x": [{"a": null, "b": 1.0}]}, '
        '"type": "function"}]'
    )


def test_tools_that_cannot_be_sorted_are_a_400(build: Build) -> None:
    builder = build(PromptOptions(sort_tools=True), default="{{ tools | tojson }}")
    assert builder.build(USER, [{"maximum": 10**40}]).text == '[{"maximum": 1%s}]' % ("0" * 40)
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    with pytest.raises(BadRequest, match="nested too deeply") as raised:
        builder.build(USER, [deep])
    assert raised.value.param == "tools"


CHAT = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_the_final_message_is_continued(build: Build) -> None:
    final: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "one "}]}
    messages = [*USER, final]
    prompt = build(default=CHAT).build(messages, continue_final_message=True)
    assert prompt.text == "<user>hi<end><assistant>one "
    assert prompt.continued == 4
    assert list(prompt.ids) == list(build(default=prompt.text).build(USER).ids)
    # Some templates write history otherwise when an answer is to follow.
    source = "{{ add_generation_prompt }} {{ messages[-1].content }}"
    prompt = build(default=source).build(messages, continue_final_message=True)
    assert prompt.text == "False one "


def test_a_final_message_is_finished_unless_it_is_to_be_continued(build: Build) -> None:
    messages = [*USER, {"role": "assistant", "content": "one"}]
    prompt = build(default=CHAT).build(messages)
    assert prompt.text == "<user>hi<end><assistant>one<end><assistant>"
    assert prompt.continued == 0


def test_a_long_rendering_is_refused_and_rests_meanwhile(build: Build) -> None:
    source = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    rests: list[None] = []
    with pytest.raises(BadRequest, match=r"takes longer than 0\.1 s"):
        build(PromptOptions(seconds=0.1), default=source).build(
            USER, pause=lambda: rests.append(None)
        )
    assert len(rests) > 2


def test_a_prompt_may_only_get_so_long(build: Build) -> None:
    builder = build(PromptOptions(characters=1000), default=CHAT)
    assert builder.build([{"role": "user", "content": "x" * 900}]).text
    with pytest.raises(BadRequest, match="more than 1000 characters"):
        builder.build([{"role": "user", "content": "x" * 1000}])


STRICT = (
    "{% for message in messages %}"
    "{% if message.role == 'system' and not loop.first %}{{ raise_exception('Late system') }}"
    "{% endif %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    "{% for tool in tools or [] %}{{ '[' + tool.name + ']' }}{% endfor %}"
)
LATE = [
    {"role": "system", "content": "one"},
    {"role": "user", "content": "hi"},
    {"role": "developer", "content": "two"},
]


def test_a_late_system_message_is_passed_as_it_is_where_the_template_takes_it(build: Build) -> None:
    text = build(default=CHAT).build(LATE).text
    assert text == "<system>one<end><user>hi<end><system>two<end><assistant>"


def test_a_late_system_message_is_merged_where_the_template_refuses_it(build: Build) -> None:
    assert build(default=STRICT).build(LATE).text == "<system>one\n\ntwo<user>hi"
    assert build(default=STRICT).build(LATE[1:]).text == "<system>two<user>hi"


def test_tools_are_unwrapped_where_the_template_wants_it_so(build: Build) -> None:
    assert build(default=STRICT).build(USER, TOOLS).text == "<user>hi[f]"
    assert build(default=STRICT).build(LATE, TOOLS).text == "<system>one\n\ntwo<user>hi[f]"


def test_the_first_refusal_is_the_one_that_is_told(build: Build) -> None:
    source = "{{ raise_exception(messages | map(attribute='role') | join(' ')) }}"
    with pytest.raises(BadRequest) as raised:
        build(default=source).build(LATE, TOOLS)
    assert raised.value.message == "system user system"
    assert raised.value.code == "chat_template_error"


def test_what_was_used_up_is_not_tried_again(build: Build) -> None:
    source = (
        "{% if messages | length > 2 %}{% for a in range(9999) %}{% for b in range(9999) %}"
        "{% endfor %}{% endfor %}{% endif %}merged"
    )
    with pytest.raises(BadRequest, match="takes longer"):
        build(PromptOptions(seconds=0.05), default=source).build(LATE)
