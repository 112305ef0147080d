"""Arguments of earlier calls, whatever a model has made of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.prompt.past_calls import UNREADABLE, past_calls, past_function, text_of_arguments

Json = dict[str, Any]


def arguments(value: object) -> Json:
    read: Json = past_function({"name": "f", "arguments": value}, "here")["arguments"]
    return read


DEEP_OBJECT: Json = {}
for _ in range(3000):
    DEEP_OBJECT = {"a": DEEP_OBJECT}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (json.dumps('{"city": "Oslo"}'), {"city": "Oslo"}),
        (json.dumps(json.dumps({"a": [1]})), {"a": [1]}),
        (json.dumps("null"), {}),
        (" ", {}),
        ('{"a": "one\\ntwo"}', {"a": "one\ntwo"}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        ('{"a": "\\ud83d\\ude00", "b": "\\udc00"}', {"a": "\U0001f600", "b": "\ufffd"}),
        ('{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", json.loads('{"a": ' + "[" * 60 + "]" * 60 + "}")),
    ],
)
def test_what_can_be_read_is(value: object, wanted: Json) -> None:
    assert arguments(value) == wanted


@pytest.mark.parametrize(
    "text",
    [
        '{"city": ',
        '{"a": "x',
        '["a"]',
        "5",
        "true",
        '"hello"',
        "not JSON",
        "{'a': 1}",
        '{"a": 1} and more',
        '{"path": "C:\\Users"}',
        json.dumps('{"a": '),
        json.dumps("[1]"),
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a":' * 3000 + "1" + "}" * 3000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=lambda value: repr(value)[:12],
)
def test_what_is_no_object_stands_in_an_object(text: str) -> None:
    read = arguments(text)
    assert read == {UNREADABLE: text}
    assert text_of_arguments(read) == text


@pytest.mark.parametrize("value", [[1], 3, True, 1.5, ["é"]])
def test_values_that_were_never_text_are_shown_as_json(value: object) -> None:
    assert arguments(value) == {UNREADABLE: json.dumps(value, ensure_ascii=False)}


def test_an_object_that_is_too_deep_is_shown_as_text() -> None:
    assert list(arguments(DEEP_OBJECT)) == [UNREADABLE]


def test_arguments_are_written_as_models_write_them() -> None:
    assert text_of_arguments({"city": "Tromsø", "n": [1, 2]}) == '{"city": "Tromsø", "n": [1, 2]}'
    assert text_of_arguments({UNREADABLE: 1}) == '{"INVALID_JSON": 1}'


@pytest.mark.parametrize("missing", [{}, {"id": None}, {"id": ""}])
def test_a_call_without_an_id_gets_one_that_every_template_takes(missing: Json) -> None:
    calls = past_calls([{"function": {"name": "f"}, **missing}] * 2, "here", 7)
    assert [call["id"] for call in calls] == ["call00700", "call00701"]


def test_entries_of_null_are_no_calls() -> None:
    assert past_calls([None], "here", 0) == []
    assert len(past_calls([None, {"function": {"name": "f"}}], "here", 0)) == 1


@pytest.mark.parametrize(
    ("call", "name", "wanted"),
    [
        ({"function": {"name": "f"}}, "f", {}),
        ({"function": {"arguments": "{}"}}, "", {}),
        ({"function": {"name": None}}, "", {}),
        ({"name": "f", "arguments": '{"a": 1}'}, "f", {"a": 1}),
        ({"type": "custom", "custom": {"name": "f", "input": "x"}}, "f", {"input": "x"}),
    ],
)
def test_other_shapes_of_calls_are_read(call: Json, name: str, wanted: Json) -> None:
    (read,) = past_calls([call], "here", 0)
    assert read["function"]["name"] == name
    assert read["function"]["arguments"] == wanted


@settings(deadline=None, derandomize=True)
@given(st.text() | st.text(alphabet='{}[]",:\\u d83a1').map(lambda text: '{"a": ' + text))
def test_any_text_is_read(text: str) -> None:
    read = arguments(text)
    assert isinstance(read, dict)
    json.dumps(read, ensure_ascii=False).encode()
