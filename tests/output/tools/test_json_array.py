"""The forced array of calls, cut at every point."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglrouter.output.tools.json_array import JsonArrayCalls
from tests.fast.profile import soak


class Call(NamedTuple):
    name: str
    arguments: str


class Answer(NamedTuple):
    content: str
    calls: list[Call]


def read(parts: Sequence[str]) -> Answer:
    """Joins what comes out, as a client does."""
    parser = JsonArrayCalls()
    content = ""
    calls: list[Call] = []
    ids: set[str] = set()
    for parsed in (*map(parser.feed, parts), parser.finish()):
        content += parsed.content
        for delta in parsed.calls:
            if delta.id is not None:
                assert delta.name is not None
                assert delta.index == len(calls)
                ids.add(delta.id)
                calls.append(Call(delta.name, delta.arguments))
            else:
                assert delta.name is None
                assert delta.index == len(calls) - 1
                calls[-1] = Call(calls[-1].name, calls[-1].arguments + delta.arguments)
    assert parser.called == len(calls) == len(ids)
    return Answer(content, calls)


def cuts(text: str) -> Iterator[list[str]]:
    """One by one, and cut in two at every point."""
    yield list(text)
    for cut in range(len(text) + 1):
        yield [text[:cut], text[cut:]]


ARGUMENTS = [
    "{}",
    '{"city": "Paris", "days": [1, 2, {"x": null}]}',
    '{"code": "if (a[0] == \\"}\\") { b = \\"\\\\\\\\\\"; }"}',
    '{"text": "日本 \\u00e9 😀 \u2028"}',
    '{ "spaced" : [ ] ,\n\t"out" : { } }',
    '"a string, with } and ]"',
    "[[], {}]",
    "-1.5e3",
    "null",
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize(
    "form",
    [
        '[{"name": "f", "parameters": %s}]',
        '[{"name":"f","parameters":%s}]',
        '\n [ {\t"name" : "f" ,\n "parameters" : %s } ] \n',
        '[{"parameters": %s, "name": "f"}]',
        '[{"parameters":\n%s\n,"name":"f"}]',
        '[{"id": ["}", {"name": "g"}], "name": "f", "parameters": %s, "more": {"parameters": 1}}]',
        '[{"n\\u0061me": "\\u0066", "parameters": %s}]',
        '[{"a\\"b": 1, "c\\\\": 2, "name": "f", "parameters": %s}]',
    ],
)
def test_every_split_point_gives_the_call_as_it_was_written(form: str, arguments: str) -> None:
    text = form % arguments
    for parts in cuts(text):
        assert read(parts) == ("", [Call("f", arguments)])


def test_several_calls_are_told_apart() -> None:
    text = (
        '[{"name": "f", "parameters": {"a": 1}},\n {"parameters": {"b": "]"}, "name": "g"}'
        ', {"name": "f", "parameters": {}}]'
    )
    calls = [Call("f", '{"a": 1}'), Call("g", '{"b": "]"}'), Call("f", "{}")]
    for parts in cuts(text):
        assert read(parts) == ("", calls)


def test_a_call_without_parameters_has_none() -> None:
    for parts in cuts('[{"name": "f"}, {"name": "g", "parameters": {"a": 1}}]'):
        assert read(parts) == ("", [Call("f", "{}"), Call("g", '{"a": 1}')])


def test_only_the_first_name_and_parameters_count() -> None:
    text = '[{"name": "f", "parameters": {"a": 1}, "name": "g", "parameters": {"b": 2}}]'
    for parts in cuts(text):
        assert read(parts) == ("", [Call("f", '{"a": 1}')])


NO_CALLS = [
    "",
    "Hello, world.",
    " \n I cannot [do] that.",
    "   ",
    "[1, 2, 3]",
    '["name"]',
    "[]",
    "[ ]\n",
    '{"name": "f", "parameters": {}}',
    '[{"parameters": {"a": 1}}]',
    '[{"name": 5, "parameters": {}}]',
    '[{"name": null}]',
    '[{"name": ["f"]}]',
    "[{name: 'f'}]",
    '[{"name" "f"}]',
    '[{"a": 1}, {"name": "f"}]',
    '[{"parameters": 5]',
    "[[]]",
    "]",
    ",",
    "[",
    '[{"na',
    '[{"name": "f',
    '[{"parameters": {"a": 1',
    '[{"name": "\\ud800", "parameters": {}}]',
]


@pytest.mark.parametrize("text", NO_CALLS)
def test_text_without_calls_is_content(text: str) -> None:
    for parts in cuts(text):
        assert read(parts) == (text, [])


@pytest.mark.parametrize(
    ("after", "content"),
    [
        ("]", ""),
        ("]\n\n", ""),
        ("] Done.", " Done."),
        ("]]", "]"),
        (', {"a": 1}]!', ', {"a": 1}]!'),
        (", 5]", ", 5]"),
        (' "', ' "'),
        (', {"name": 1}]', ', {"name": 1}]'),
    ],
)
def test_text_after_the_calls_is_content(after: str, content: str) -> None:
    for parts in cuts('[{"name": "f", "parameters": {"a": 1}}' + after):
        assert read(parts) == (content, [Call("f", '{"a": 1}')])


@pytest.mark.parametrize(
    ("broken", "arguments", "content"),
    [
        ('[{"name": "f", "parameters": {"a": 1}]', '{"a": 1}', "]"),
        ('[{"name": "f", parameters: {}}]', "", ", parameters: {}}]"),
        ('[{"name": "f", "parameters" {}}]', "", ', "parameters" {}}]'),
        ('[{"name": "f"]', "", "]"),
        ('[{"name": "f", "parameters": {"a": 1} x}]', '{"a": 1} x', ""),
    ],
)
def test_an_array_that_breaks_inside_a_call_loses_nothing(
    broken: str, arguments: str, content: str
) -> None:
    for parts in cuts(broken):
        assert read(parts) == (content, [Call("f", arguments)])


def test_a_cut_array_delivers_a_prefix_of_each_call() -> None:
    text = (
        '[{"name": "f", "parameters": {"a": "\\"}", "b": [1, {}]}}'
        ', {"parameters": {"c": 1}, "name": "g"}]'
    )
    whole = read([text]).calls
    seen = 0
    for end in range(len(text)):
        content, calls = read([text[:end]])
        assert content == ("" if calls else text[:end])
        for cut, full in zip(calls, whole, strict=False):
            assert cut.name == full.name
            assert full.arguments.startswith(cut.arguments)
        delivered = sum(len(call.arguments) for call in calls)
        assert delivered >= seen
        seen = delivered


def test_arguments_go_out_as_they_come() -> None:
    parser = JsonArrayCalls()
    (call,) = parser.feed('[{"name": "f", ').calls
    assert (call.index, call.name, call.arguments) == (0, "f", "")
    assert parser.feed('"parameters": ').calls == []
    (piece,) = parser.feed(' {"a": "x').calls
    assert piece == (0, None, None, '{"a": "x')
    (piece,) = parser.feed('yz  "').calls
    assert piece == (0, None, None, 'yz  "')
    (piece,) = parser.feed("} ").calls
    assert piece == (0, None, None, "}")
    assert parser.feed("}]") == ("", [])
    assert parser.finish() == ("", [])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@pytest.mark.soak
@soak
@given(st.data(), st.lists(st.tuples(st.text(max_size=5), json_values), min_size=1, max_size=3))
def test_any_calls_however_written_and_cut_come_back(
    data: st.DataObject, calls: list[tuple[str, Any]]
) -> None:
    documents = []
    for name, arguments in calls:
        members = [("name", name), ("parameters", arguments)]
        documents.append(dict(data.draw(st.permutations(members))))
    text = json.dumps(
        documents,
        indent=data.draw(st.sampled_from([None, 1])),
        ensure_ascii=data.draw(st.booleans()),
    )
    points = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parts = [text[a:b] for a, b in zip([0, *points], [*points, len(text)], strict=True)]
    content, got = read(parts)
    assert content == ""
    assert [(call.name, json.loads(call.arguments)) for call in got] == calls
    assert read([text]) == read(list(text)) == (content, got)


fragments = st.sampled_from(
    [
        *'[]{}"\\,: a',
        '"name"',
        '"parameters"',
        '"f"',
        '[{"name": "f", "parameters": ',
        '{"a": 1}',
        '}, {"name":',
    ]
)


@pytest.mark.soak
@soak
@given(st.lists(fragments, max_size=14))
def test_any_text_reads_the_same_however_it_is_cut(parts: list[str]) -> None:
    text = "".join(parts)
    whole = read([text])
    assert read(parts) == read(list(text)) == whole
    if not whole.calls:
        assert whole.content == text
    else:
        assert text.endswith(whole.content)


@pytest.mark.parametrize(
    ("begin", "unit", "end"),
    [
        ("", " ", "[]"),
        ("[", " ", '{"name": "f"}]'),
        ('[{"parameters": "', "x", '", "name": "f"}]'),
        ('[{"name": "', "x", '"}]'),
        ('[{"', "x", '": 1}]'),
        ('[{"name": "f", "parameters": {}', " ", "}]"),
        ('[{"name": "f", "parameters": "', "\\n", '"}]'),
        ('[{"name": "f"}]', " ", "x"),
    ],
    ids=["space", "space in the array", "early", "name", "key", "gap", "arguments", "after"],
)
def test_long_answers_take_linear_time(begin: str, unit: str, end: str) -> None:
    count = 50_000
    parts = [begin, *[unit] * count, end]
    assert read(parts) == read(["".join(parts)])
