"""Prompts that end within the assistant's message."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sglrouter.errors import BadRequest
from sglrouter.families.registry import KNOWN, REASONING_FORMATS
from sglrouter.prompt.continuation import Continuation, Continue, continuation
from sglrouter.prompt.conversation import PromptBuilder
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.messages import Message
from sglrouter.prompt.model_files import read_model_files
from sglrouter.prompt.template import ChatTemplate
from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.request.reading import inside
from tests.prompt.ample import ample

PLAIN = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TRIMS = (
    "{% for message in messages %}<{{ message.role }}>\n{{ message.content | trim }}<end>"
    "{% endfor %}"
)
PARTS = (
    "{% for message in messages %}<{{ message.role }}>"
    "{% for part in message.content %}[{{ part.text }}]{% endfor %}<end>{% endfor %}"
)
CUTS_REASONING = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content.split('</think>')[-1] }}"
    "<end>{% endfor %}"
)


SHOWS_THOUGHTS = (
    "{% for message in messages %}<{{ message.role }}>"
    "{% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n"
    "{% endif %}{{ message.content }}<end>{% endfor %}"
)
NEEDS_CONTENT = (
    "{% for message in messages %}{% if not message.content %}{{ raise_exception('empty') }}"
    "{% endif %}{{ message.content }}{% endfor %}"
)


def go_on(source: str, messages: Sequence[Message], field: Continue = True) -> Continuation:
    template = ChatTemplate(source, {})

    def render(messages: Sequence[Message]) -> str:
        return template.render(messages, None, ample(), add_generation_prompt=False)

    return continuation(messages, field, render)


def continued(
    source: str, content: Any, field: Continue = True, **more: Any
) -> tuple[str, int, bool]:
    messages = [
        {"role": "user", "content": "Count"},
        {"role": "assistant", "content": content, **more},
    ]
    return go_on(source, messages, field)


@pytest.mark.parametrize(
    ("source", "content", "wanted"),
    [
        (PLAIN, "1, 2", "<user>Count<end><assistant>1, 2"),
        (PLAIN, "1, 2, ", "<user>Count<end><assistant>1, 2, "),
        (PLAIN, "", "<user>Count<end><assistant>"),
        (PLAIN, "Count", "<user>Count<end><assistant>Count"),
        (PLAIN, "<end>", "<user>Count<end><assistant><end>"),
        (TRIMS, "1, 2", "<user>\nCount<end><assistant>\n1, 2"),
        (TRIMS, " 1, 2, \n", "<user>\nCount<end><assistant>\n1, 2,"),
        # Hugging Face would cut the newline of the template, too.
        (TRIMS, "", "<user>\nCount<end><assistant>\n"),
        (TRIMS, " \n", "<user>\nCount<end><assistant>\n"),
        (CUTS_REASONING, "3", "<user>Count<end><assistant>3"),
    ],
)
def test_the_prompt_ends_where_the_message_does(source: str, content: str, wanted: str) -> None:
    assert continued(source, content)[0] == wanted


def test_the_last_part_is_the_one_that_goes_on() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two "}]
    # The user's text is a list of letters to this template.
    assert continued(PARTS, parts)[0].endswith("<end><assistant>[one][two ")
    assert continued(PARTS, [])[0].endswith("<end><assistant>[")


@pytest.mark.parametrize(
    ("source", "content", "length"),
    [
        (PLAIN, "1, 2 ", 5),
        (PLAIN, "", 0),
        (TRIMS, " 1, 2 ", 4),
        (CUTS_REASONING, "3", 1),
    ],
)
def test_how_much_is_the_message_is_told(source: str, content: str, length: int) -> None:
    prompt, own, _ = continued(source, content)
    assert own == length
    assert prompt[len(prompt) - own :] == content.strip(" " if source is TRIMS else "")


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("{% for message in messages if message.role == 'user' %}x{% endfor %}", "lost"),
        ("{% for message in messages %}{{ message.content | upper }}{% endfor %}", "shouted"),
        (CUTS_REASONING, "why</think>because"),
    ],
)
def test_a_template_that_does_not_show_the_message_is_a_400(source: str, content: str) -> None:
    with pytest.raises(BadRequest, match="cannot be continued") as raised:
        continued(source, content)
    assert raised.value.param == "continue_final_message"


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_only_the_assistant_is_continued(role: str) -> None:
    with pytest.raises(BadRequest, match=role) as raised:
        go_on(PLAIN, [{"role": role, "content": "x"}])
    assert raised.value.param == "continue_final_message"


def test_a_message_that_calls_is_finished() -> None:
    calls = [{"function": {"name": "f", "arguments": {}}}]
    with pytest.raises(BadRequest, match="tool_calls"):
        go_on(PLAIN, [{"role": "assistant", "content": "", "tool_calls": calls}])


def test_the_clients_messages_are_not_marked() -> None:
    messages = [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "x"}],
            "reasoning_content": "y",
            "thinking": "y",
        }
    ]
    before = copy.deepcopy(messages)
    go_on(PARTS, messages)
    go_on(SHOWS_THOUGHTS, messages, "reasoning_content")
    assert messages == before


THOUGHTS = {"reasoning_content": "I think ", "thinking": "I think "}
BEFORE_THOUGHTS = "<user>Count<end><assistant><think>\n"


@pytest.mark.parametrize(
    ("content", "field", "wanted"),
    [
        # huggingface/transformers#45896
        ("", "reasoning_content", (f"{BEFORE_THOUGHTS}I think ", 8, True)),
        ("1, 2", "reasoning_content", (f"{BEFORE_THOUGHTS}I think ", 8, True)),
        # Only thoughts so far.
        ("", True, (f"{BEFORE_THOUGHTS}I think ", 8, True)),
        ([], True, (f"{BEFORE_THOUGHTS}I think ", 8, True)),
        ("1, 2", True, (f"{BEFORE_THOUGHTS}I think \n</think>\n\n1, 2", 4, False)),
        ("1, 2", "content", (f"{BEFORE_THOUGHTS}I think \n</think>\n\n1, 2", 4, False)),
        ("", "content", (f"{BEFORE_THOUGHTS}I think \n</think>\n\n", 0, False)),
    ],
)
def test_thoughts_go_on_where_the_client_says_or_where_there_is_no_more(
    content: Any, field: Continue, wanted: tuple[str, int, bool]
) -> None:
    assert continued(SHOWS_THOUGHTS, content, field, **THOUGHTS) == wanted


def test_thoughts_may_begin() -> None:
    assert continued(SHOWS_THOUGHTS, "", "reasoning_content") == (BEFORE_THOUGHTS, 0, True)
    assert continued(SHOWS_THOUGHTS, "") == ("<user>Count<end><assistant>", 0, False)


@pytest.mark.parametrize("source", [PLAIN, NEEDS_CONTENT])
def test_a_template_that_does_not_show_thoughts_says_so(source: str) -> None:
    with pytest.raises(BadRequest, match="does not show the reasoning") as raised:
        continued(source, "", "reasoning_content", **THOUGHTS)
    assert raised.value.param == "continue_final_message"


def test_without_a_way_to_show_thoughts_the_content_goes_on() -> None:
    wanted = ("<user>Count<end><assistant>", 0, False)
    assert continued(PLAIN, "", True, **THOUGHTS) == wanted


def builders(corpus: Path, tiny_model: Path) -> Iterator[tuple[str, str, PromptBuilder]]:
    """The real templates: names, sources, and what renders them."""
    folder = corpus / "chat_templates"
    files = read_model_files(tiny_model)
    encoder = reference_encoder(load_tokenizer(tiny_model))
    for row in json.loads((folder / "manifest.json").read_bytes()):
        source = (folder / "templates" / f"{row['name']}.jinja").read_text(encoding="utf-8")
        changed = msgspec.structs.replace(
            files, chat_templates={"default": source}, special_tokens=row["special_tokens"]
        )
        yield row["name"], source, PromptBuilder(changed, encoder)


@pytest.mark.long
@pytest.mark.corpus
def test_real_templates_are_continued(corpus: Path, tiny_model: Path) -> None:
    """Content is never thoughts, thoughts always are, where the template shows them."""
    refused, shown = [], 0
    for name, source, builder in builders(corpus, tiny_model):
        parser = KNOWN.detect_reasoning_parser(source, set())
        reasoning = REASONING_FORMATS.get(parser or "")
        fields: list[tuple[str, Continue]] = [("OK", True), ("OK", "content")]
        for content, field in (*fields, ("", "reasoning_content")):
            final = {"role": "assistant", "content": content, "reasoning_content": "I think"}
            messages = [{"role": "user", "content": "hi"}, final]
            try:
                prompt = builder.build(messages, continue_final_message=field)
            except BadRequest as exc:
                refused.append((name, field, exc.param))
                continue
            assert prompt.text.endswith("I think" if prompt.in_thoughts else "OK"), name
            assert prompt.in_thoughts is (field == "reasoning_content"), name
            shown += prompt.in_thoughts
            if reasoning is not None:
                assert inside(reasoning, prompt) is prompt.in_thoughts, name
    assert shown > 15
    assert {param for _, _, param in refused} == {"continue_final_message"}
    assert {field for _, field, _ in refused} == {"reasoning_content"}
