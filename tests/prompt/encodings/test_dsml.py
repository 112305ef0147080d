"""DSML as prompts have it, and as the parser of answers reads it back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.families.formats.program import Tools
from sglrouter.families.registry import TOOL_FORMATS
from sglrouter.prompt.encodings.dsml import Dsml, format_wanted
from sglrouter.prompt.template import TemplateRefusal
from tests.families.laws import TEXTS, WORDS, json_values, parsed, reading_of
from tests.families.reading import read
from tests.fast.profile import EXAMPLES
from tests.prompt.encodings.conversations import call

SPELLINGS = {
    "deepseekv32": Dsml("function_calls"),
    "deepseekv4": Dsml("tool_calls"),
    "deepseekv41": Dsml("calls", "｜DSML｜ "),
}
spellings = pytest.mark.parametrize(("parser", "dsml"), SPELLINGS.items(), ids=SPELLINGS)


@spellings
def test_an_answer_without_calls_is_its_content(parser: str, dsml: Dsml) -> None:
    assert dsml.said("Hello.\n\n", []) == "Hello.\n\n"
    assert TOOL_FORMATS[parser].markers
    assert any(mark.startswith(f"<{dsml.prefix}") for mark in TOOL_FORMATS[parser].markers)


@spellings
def test_line_ends_before_calls_are_written_once(parser: str, dsml: Dsml) -> None:
    """Who has read an answer with calls has them at the end of its content."""
    once = dsml.said("Let me see.", [call("f", {})])
    assert dsml.said("Let me see.\n\n", [call("f", {})]) == once
    assert dsml.said("Let me see.\n", [call("f", {})]) != once
    result = read(reading_of(TOOL_FORMATS[parser]), [once])
    assert dsml.said(result.content, [call("f", {})]) == once


@pytest.mark.parametrize(
    ("function", "inside"),
    [
        ({"name": "f"}, ""),
        ({"name": "f", "arguments": None}, ""),
        ({"name": "f", "arguments": {}}, ""),
        ({"name": "f", "arguments": "cut of"}, 'name="arguments" string="true">cut of'),
        ({"name": "f", "arguments": [1]}, 'name="arguments" string="false">[1]'),
        ({"name": "f", "arguments": {"a": "<b>"}}, 'name="a" string="true"><b>'),
        ({"name": "f", "arguments": {"a": None}}, 'name="a" string="false">null'),
        ({"name": "f", "arguments": {"a": {"é": 1.0}}}, 'name="a" string="false">{"é": 1.0}'),
    ],
)
def test_arguments_of_any_kind_are_shown(function: dict[str, Any], inside: str) -> None:
    body = f"<｜DSML｜parameter {inside}</｜DSML｜parameter>" if inside else ""
    wanted = (
        "\n\n<｜DSML｜tool_calls>\n"
        f'<｜DSML｜invoke name="f">\n{body}\n</｜DSML｜invoke>\n'
        "</｜DSML｜tool_calls>"
    )
    for written in ({"function": function}, function):
        assert Dsml("tool_calls").said("", [written]) == wanted


def test_what_cannot_be_shown_is_refused() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TemplateRefusal):
        Dsml("tool_calls").said("", [call("f", {"x": deep})])


SCHEMA = {"type": "object", "title": "é"}
WORDS_OF_ONE = "## Response Format"


@pytest.mark.parametrize(
    ("response_format", "words"),
    [
        (None, ""),
        ("json", ""),
        ([{"type": "json_object"}], ""),
        ({}, ""),
        ({"type": "text"}, ""),
        ({"type": "json_object"}, "any"),
        ({"type": "json_object", "json_schema": {"schema": SCHEMA}}, "any"),
        ({"type": "json_schema"}, ""),
        ({"type": "json_schema", "json_schema": None}, ""),
        ({"type": "json_schema", "json_schema": {"schema": None}}, ""),
    ],
)
def test_a_format_without_a_schema(response_format: object, words: str) -> None:
    assert format_wanted(response_format, "any") == words


@pytest.mark.parametrize("schema", [SCHEMA, {}, True, False])
def test_a_schema_is_shown_as_it_is(schema: Any) -> None:
    written = {"{": "{", "T": "true", "F": "false"}[str(schema)[0]]
    shown = format_wanted({"type": "json_schema", "json_schema": {"schema": schema}}, "any")
    assert WORDS_OF_ONE in shown
    assert shown.partition("to reply:\n")[2].startswith(written)
    assert ("é" in shown) is (schema is SCHEMA)


@spellings
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_what_a_prompt_shows_is_how_answers_are_read(
    parser: str, dsml: Dsml, data: st.DataObject
) -> None:
    """A model writes what it has been shown; so both have to agree."""
    arguments = st.dictionaries(
        WORDS, json_values(TEXTS).filter(lambda value: not _quotes(value)), max_size=3
    )
    calls = data.draw(st.lists(st.tuples(WORDS, arguments), min_size=1, max_size=3))
    text = dsml.said("So.", [call(name, given) for name, given in calls])
    result = read(reading_of(TOOL_FORMATS[parser], Tools()), [text])
    assert parsed(result) == calls
    assert result.content.rstrip("\n") == "So."


def _quotes(value: object) -> bool:
    """Whether a text has a bracket of the markup in it, as values that quote it do."""
    return isinstance(value, str) and "<" in value
