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
from sglrouter.prompt.conversation import PromptBuilder
from sglrouter.prompt.model_files import ModelFiles, read_model_files
from sglrouter.prompt.template import RESERVED
from sglrouter.prompt.tokenizer import load_tokenizer

USER = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


@pytest.fixture(scope="module")
def files(tiny_model: Path) -> ModelFiles:
    return read_model_files(tiny_model)


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> tokenizers.Tokenizer:
    return load_tokenizer(tiny_model)


class Build:
    """Makes builders of the tiny model with other templates."""

    def __init__(self, files: ModelFiles, tokenizer: tokenizers.Tokenizer) -> None:
        self._files = files
        self._tokenizer = tokenizer

    def __call__(self, file: Path | None = None, /, **templates: str) -> PromptBuilder:
        files = msgspec.structs.replace(self._files, chat_templates=templates)
        return PromptBuilder(files, self._tokenizer, file)


@pytest.fixture
def build(files: ModelFiles, tokenizer: tokenizers.Tokenizer) -> Build:
    return Build(files, tokenizer)


def test_the_ids_are_those_of_the_text(files: ModelFiles, tokenizer: tokenizers.Tokenizer) -> None:
    prompt = PromptBuilder(files, tokenizer).build(USER)
    assert prompt.text.endswith("<|im_start|>assistant\n")
    assert list(prompt.ids) == tokenizer.encode(prompt.text, add_special_tokens=False).ids
    assert tokenizer.token_to_id("<|im_start|>") in prompt.ids


def test_the_first_token_is_not_added_twice(files: ModelFiles, tiny_model: Path) -> None:
    """Many tokenizers put one before every text, and the template has written it already."""
    tokenizer = load_tokenizer(tiny_model)
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
        ids = list(PromptBuilder(with_first, tokenizer).build(USER).ids)
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
    builder = build(path, default="d", tool_use="t")
    assert builder.build(USER).text == "mine ü"
    assert builder.build(USER, TOOLS).text == "mine ü"


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_the_operators_template_must_be_readable(
    build: Build, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "mine.jinja"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^chat_template: .*mine\.jinja: "):
        build(path)


def test_a_template_that_does_not_compile_stops_the_start(build: Build) -> None:
    with pytest.raises(ConfigError, match="chat template"):
        build(default="fine", tool_use="{% if %}")


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_request_may_not_set_what_the_router_sets(build: Build, name: str) -> None:
    with pytest.raises(BadRequest, match=name) as raised:
        build(default="x").build(USER, kwargs={"fine": 1, name: True})
    assert raised.value.param == "chat_template_kwargs"


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
