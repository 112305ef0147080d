"""What is changed in a message before a template sees it, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.errors import BadRequest
from sglrouter.prompt.messages import normalise

Json = dict[str, Any]


def normalised(
    *messages: Json, content_format: str = "string", knows_developer: bool = False
) -> list[Json]:
    return normalise(list(messages), content_format=content_format, knows_developer=knows_developer)


def refusal(*messages: Json, content_format: str = "string") -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        normalised(*messages, content_format=content_format)
    assert raised.value.status == 400
    return raised.value


def call(arguments: object, **more: object) -> Json:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": arguments, **more},
            }
        ],
    }


def test_plain_messages_are_left_as_they_are() -> None:
    messages: list[Json] = [
        {"role": "system", "content": " be \n"},
        {"role": "user", "content": "", "name": "Ann"},
        {"role": "assistant", "content": "no"},
        {"role": "tool", "content": "21", "tool_call_id": "call_1", "name": "f"},
        {"role": "ipython", "content": "x", "extension": {"deep": [1, None]}},
    ]
    assert normalised(*messages) == messages


@pytest.mark.parametrize("content_format", ["string", "openai"])
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
@pytest.mark.parametrize("message", [{}, {"content": None}])
def test_missing_content_is_empty_text(message: Json, role: str, content_format: str) -> None:
    assert normalised({"role": role, **message}, content_format=content_format) == [
        {"role": role, "content": ""}
    ]


def test_fields_that_are_null_are_left_out() -> None:
    message = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "name": None,
    }
    assert normalised(message) == [{"role": "assistant", "content": "hi"}]


@pytest.mark.parametrize("calls", [None, []])
def test_no_tool_calls_are_no_field(calls: object) -> None:
    assert "tool_calls" not in normalised({"role": "assistant", "tool_calls": calls})[0]


PARTS = [
    {"type": "text", "text": "one"},
    {"type": "output_text", "text": "two\n"},
    None,
    "three",
    {"type": "refusal", "refusal": "no"},
    {"type": "text", "text": ""},
]


def test_parts_are_joined_with_one_space_for_a_template_that_takes_text() -> None:
    assert normalised({"role": "user", "content": PARTS}) == [
        {"role": "user", "content": "one two\n three no "}
    ]


def test_parts_stay_a_list_for_a_template_that_walks_through_them() -> None:
    assert normalised({"role": "user", "content": PARTS}, content_format="openai") == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "one"},
                {"type": "text", "text": "two\n"},
                {"type": "text", "text": "three"},
                {"type": "text", "text": "no"},
                {"type": "text", "text": ""},
            ],
        }
    ]


@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_text_is_never_made_a_list(content_format: str) -> None:
    message = {"role": "user", "content": "text"}
    assert normalised(message, content_format=content_format) == [message]


@pytest.mark.parametrize(("content_format", "wanted"), [("string", ""), ("openai", [])])
def test_a_list_without_parts_is_empty(content_format: str, wanted: object) -> None:
    message = {"role": "user", "content": []}
    assert normalised(message, content_format=content_format)[0]["content"] == wanted


@pytest.mark.parametrize("content_format", ["string", "openai"])
def test_a_tool_result_in_parts_is_joined_for_every_template(content_format: str) -> None:
    message = {"role": "tool", "content": PARTS[:3], "tool_call_id": "call_1"}
    assert normalised(message, content_format=content_format) == [
        {"role": "tool", "content": "one two\n", "tool_call_id": "call_1"}
    ]


@pytest.mark.parametrize(
    ("part", "param", "code"),
    [
        ({"type": "image_url", "image_url": {"url": "x"}}, "[1]", "unsupported_content"),
        ({"type": "image"}, "[1]", "unsupported_content"),
        ({"type": "input_audio", "input_audio": {}}, "[1]", "unsupported_content"),
        ({"type": "video_url"}, "[1]", "unsupported_content"),
        ({"type": "file"}, "[1]", "unsupported_content"),
        ({"type": "refusal"}, "[1]", "unsupported_content"),
        ({"text": "no type"}, "[1]", "unsupported_content"),
        ({"type": ["text"]}, "[1]", "unsupported_content"),
        ({"type": "text"}, "[1].text", None),
        ({"type": "text", "text": None}, "[1].text", None),
        ({"type": "input_text", "text": 3}, "[1].text", None),
        (3, "[1]", None),
        (["text"], "[1]", None),
    ],
)
def test_a_part_that_is_not_text_is_refused_by_its_place(
    part: object, param: str, code: str | None
) -> None:
    error = refusal({"role": "system", "content": "x"}, {"role": "user", "content": ["text", part]})
    assert error.param == f"messages[1].content{param}"
    assert error.param in error.message
    assert error.code == code


@pytest.mark.parametrize("content", [3, 1.5, True, {"type": "text", "text": "x"}])
def test_content_of_another_type_is_refused(content: object) -> None:
    assert refusal({"role": "user", "content": content}).param == "messages[0].content"


@pytest.mark.parametrize("role", [None, "", 3, ["user"]])
def test_a_role_must_be_a_name(role: object) -> None:
    assert refusal({"role": role, "content": "x"}).param == "messages[0].role"


def test_a_message_without_a_role_is_refused() -> None:
    assert refusal({"role": "user"}, {"content": "x"}).param == "messages[1].role"


def test_no_messages_are_refused() -> None:
    assert refusal().param == "messages"


@pytest.mark.parametrize(("knows", "role"), [(True, "developer"), (False, "system")])
def test_developer_is_system_unless_the_template_knows_it(knows: bool, role: str) -> None:
    message = {"role": "developer", "content": "x", "name": "d"}
    assert normalised(message, knows_developer=knows) == [
        {"role": role, "content": "x", "name": "d"}
    ]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"a": 1, "b": [null, "\\u00e9"]}', {"a": 1, "b": [None, "é"]}),
        (' {"z": 1, "a": 2} ', {"z": 1, "a": 2}),
        ("{}", {}),
        ("", {}),
        ("null", {}),
        (None, {}),
        ({"a": {"b": 1}}, {"a": {"b": 1}}),
        ({}, {}),
    ],
)
def test_arguments_of_past_calls_become_an_object(arguments: object, wanted: Json) -> None:
    out = normalised(call(arguments))[0]
    assert out["content"] == ""
    assert out["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": wanted}}
    ]
    assert list(out["tool_calls"][0]["function"]["arguments"]) == list(wanted)


@pytest.mark.parametrize(
    ("calls", "param"),
    [
        ({"id": "x"}, "tool_calls"),
        ("text", "tool_calls"),
        (3, "tool_calls"),
        ([None, "f"], "tool_calls[1]"),
        (["f"], "tool_calls[0]"),
        ([{}], "tool_calls[0].function"),
        ([{"function": "f"}], "tool_calls[0].function"),
        ([{"type": "custom", "custom": "f"}], "tool_calls[0].function"),
        ([{"function": {"name": 3}}], "tool_calls[0].function.name"),
    ],
)
def test_malformed_calls_are_refused_by_their_place(calls: object, param: str) -> None:
    assert refusal({"role": "assistant", "tool_calls": calls}).param == f"messages[0].{param}"


def test_a_call_of_the_time_before_tools_becomes_one_of_now() -> None:
    out = normalised(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "function_call": {"name": "g", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "g", "content": "2", "tool_call_id": "mine"},
        content_format="openai",
    )
    assert out[1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call00001",
                    "type": "function",
                    "function": {"name": "f", "arguments": {}},
                }
            ],
        },
        {"role": "tool", "name": "f", "content": "1", "tool_call_id": "call00001"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call00003",
                    "type": "function",
                    "function": {"name": "g", "arguments": {"a": 1}},
                }
            ],
        },
        {"role": "tool", "name": "g", "content": "2", "tool_call_id": "mine"},
    ]


def test_a_result_without_a_call_has_no_id() -> None:
    assert normalised({"role": "function", "name": "f", "content": "1"}) == [
        {"role": "tool", "name": "f", "content": "1"}
    ]


def test_tool_calls_count_where_there_is_a_function_call_too() -> None:
    message = {**call("{}"), "function_call": {"name": "g", "arguments": "{}"}}
    out = normalised(message)[0]
    assert [past["function"]["name"] for past in out["tool_calls"]] == ["f"]
    assert "function_call" not in out


@pytest.mark.parametrize(
    ("function_call", "param"),
    [
        ("f", "function_call"),
        ({"name": ["f"], "arguments": "{}"}, "function_call.name"),
    ],
)
def test_a_malformed_function_call_is_refused_by_its_place(
    function_call: object, param: str
) -> None:
    error = refusal({"role": "assistant", "function_call": function_call})
    assert error.param == f"messages[0].{param}"


def test_unknown_fields_of_calls_are_kept() -> None:
    message = call("{}", strict=True)
    message["tool_calls"][0]["index"] = 0
    out = normalised(message)[0]["tool_calls"][0]
    assert out["index"] == 0
    assert out["function"]["strict"] is True


def test_the_clients_objects_are_not_changed() -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "x"}], "name": None},
        {**call('{"a": 1}'), "reasoning": "r"},
        {"role": "tool", "content": [{"type": "text", "text": "1"}]},
    ]
    before = copy.deepcopy(messages)
    normalised(*messages)
    assert messages == before


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_message = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["system", "developer", "user", "assistant", "tool"]) | _json,
        "content": st.text() | st.lists(st.sampled_from(PARTS) | _json, max_size=3) | _json,
        "tool_calls": st.lists(
            st.fixed_dictionaries({"function": st.fixed_dictionaries({"arguments": _json})})
            | _json,
            max_size=2,
        )
        | _json,
        "reasoning": _json,
        "name": _json,
    },
)


@settings(deadline=None, derandomize=True)
@given(
    messages=st.lists(_message, max_size=3),
    content_format=st.sampled_from(["string", "openai"]),
    knows_developer=st.booleans(),
)
def test_any_json_is_normalised_or_refused(
    messages: list[Json], content_format: str, knows_developer: bool
) -> None:
    before = copy.deepcopy(messages)
    try:
        out = normalise(messages, content_format=content_format, knows_developer=knows_developer)
    except BadRequest as exc:
        param = exc.param
    else:
        param = "messages"
        assert len(out) == len(messages)
        for message in out:
            assert isinstance(message["role"], str)
            assert isinstance(message["content"], str | list)
            for past in message.get("tool_calls", []):
                assert isinstance(past["function"]["arguments"], dict)
    assert param is not None
    assert param.startswith("messages")
    assert messages == before
