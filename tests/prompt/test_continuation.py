"""Prompts that end within the assistant's message."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter.errors import BadRequest
from sglrouter.prompt.continuation import cut_at_mark, mark_end
from sglrouter.prompt.template import ChatTemplate
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


def continued(source: str, content: Any, **more: Any) -> tuple[str, int]:
    messages = [
        {"role": "user", "content": "Count"},
        {"role": "assistant", "content": content, **more},
    ]
    marked, text = mark_end(messages)
    rendered = ChatTemplate(source, {}).render(marked, None, ample(), add_generation_prompt=False)
    return cut_at_mark(rendered, text)


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
    prompt, own = continued(source, content)
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
        mark_end([{"role": role, "content": "x"}])
    assert raised.value.param == "continue_final_message"


def test_a_message_that_calls_is_finished() -> None:
    calls = [{"function": {"name": "f", "arguments": {}}}]
    with pytest.raises(BadRequest, match="tool_calls"):
        mark_end([{"role": "assistant", "content": "", "tool_calls": calls}])


def test_the_clients_messages_are_not_marked() -> None:
    messages = [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]
    mark_end(messages)
    assert messages == [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]
