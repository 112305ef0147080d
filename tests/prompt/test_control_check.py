"""Templates that rewrite the letters of control tokens are found out at start; others pass."""

from __future__ import annotations

import pytest

from sglrouter.errors import ConfigError
from sglrouter.prompt.adapted_template import AdaptedTemplate
from sglrouter.prompt.control_check import check_template
from sglrouter.prompt.control_text import ControlText
from sglrouter.prompt.encodings.choice import encoding
from sglrouter.prompt.template import ChatTemplate
from tests.prompt.encodings.conversations import NAMES, with_markers
from tests.prompt.test_control_text import builder, tiny

CONTROL = ControlText(tiny(), "")
REFUSAL = "control_tokens: this chat template rewrites .* set control_tokens to allow"


def check(source: str) -> None:
    check_template(AdaptedTemplate(ChatTemplate(source, {})), CONTROL)


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m.content | e }}{% endfor %}<|im_end|>",
        "{% for m in messages %}{{ m.content | tojson(ensure_ascii=True) }}{% endfor %}<|im_end|>",
        "{% for m in messages %}{{ m.content | urlencode }}{% endfor %}<|im_end|>",
    ],
)
def test_a_template_that_rewrites_the_letters_stops_the_start(template: str) -> None:
    with pytest.raises(ConfigError, match="control_tokens"):
        builder(template)
    builder(template, text_only=False)


def each(body: str) -> str:
    return "{% for m in messages %}" + body + "{% endfor %}"


TURNS = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}{% endfor %}"
CALLS = (
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}ARGUMENTS{% endfor %}{% endfor %}"
)


@pytest.mark.parametrize(
    "source",
    [
        TURNS,
        TURNS.replace("m.content", "m.content | trim"),
        TURNS.replace("m.content", "m.content | tojson"),
        CALLS.replace("ARGUMENTS", "{{ c.function.arguments | tojson }}"),
        "{{ tools | tojson }}" + TURNS,
        # Parts of text, one by one.
        each("{% for part in m['content'] %}{{ part.text }}{% endfor %}"),
        # Who shows nothing rewrites nothing, and who takes no conversation shows none.
        "<|im_start|>",
        "{{ raise_exception('never') }}",
        "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + TURNS,
    ],
)
def test_a_template_that_keeps_the_letters_passes(source: str) -> None:
    check(source)


@pytest.mark.parametrize(
    "source",
    [
        # In one place alone: instructions, tools, arguments, results.
        each("{{ m.content | e if m.role == 'system' else m.content }}"),
        "{{ (tools or []) | tojson | e }}" + TURNS,
        "{{ (tools or []) | tojson(ensure_ascii=true) }}" + TURNS,
        CALLS.replace("ARGUMENTS", "{{ c.function.arguments | tojson(true) }}"),
        each("{{ m.content | e if m.role == 'tool' else m.content }}"),
        each("{% for part in m['content'] %}{{ part.text | e }}{% endfor %}"),
        # In conversations of one length alone.
        "{{ raise_exception('n') if messages | length != 3 }}{{ (tools or []) | tojson | e }}",
        "{{ raise_exception('n') if messages | length != 4 }}{{ messages[0].content | e }}",
        # It does one thing with the letters, and another without them.
        each("{{ 'x' if '<' in m.content else m.content }}"),
        each("{{ m.content if '<' in m.content else raise_exception('no') }}"),
        each("{{ m.content.replace('<', '(') }}"),
    ],
)
def test_a_template_that_rewrites_them_in_one_place_is_found_out(source: str) -> None:
    with pytest.raises(ConfigError, match=REFUSAL):
        check(source)


@pytest.mark.parametrize("name", NAMES)
def test_built_in_encodings_keep_the_letters(name: str) -> None:
    found = encoding(name)
    assert found is not None
    check_template(found, ControlText(with_markers(), ""))
