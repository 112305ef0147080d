"""Reading a request body: what is accepted, and how an error names the field."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.errors import BadRequest
from sglrouter.schema.chat import IGNORED_IN_CHAT, ChatRequest, decode_chat_request
from sglrouter.schema.sampling import IGNORED, ignored_fields

MESSAGES = [{"role": "user", "content": "hi"}]
FIELDS = msgspec.structs.fields(ChatRequest)
OPTIONAL = [field.name for field in FIELDS if field.name != "messages"]


def decode(**fields: Any) -> ChatRequest:
    return decode_chat_request(json.dumps({"messages": MESSAGES, **fields}).encode())


def refusal(body: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        decode_chat_request(body)
    assert raised.value.status == 400
    assert "\n" not in raised.value.message
    return raised.value


def with_field(text: str) -> bytes:
    """A good request with one more field, as raw JSON."""
    return f'{{"messages":[{{"role":"user","content":"hi"}}],{text}}}'.encode()


def test_what_is_left_out_is_none() -> None:
    request = decode()
    assert request.messages == MESSAGES
    assert [name for name in OPTIONAL if getattr(request, name) is not None] == []


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_the_same_as_left_out(name: str) -> None:
    assert decode(**{name: None}) == decode()


def test_null_inside_stream_options_is_the_same_as_left_out() -> None:
    options = decode(stream_options={"include_usage": None}).stream_options
    assert options == decode(stream_options={}).stream_options


def test_unknown_fields_are_accepted_at_every_level() -> None:
    request = decode(
        user="u",
        metadata={"a": [1]},
        service_tier=None,
        stream_options={"include_usage": True, "include_obfuscation": False},
    )
    assert request.stream_options is not None
    assert request.stream_options.include_usage is True


def test_messages_and_tools_stay_the_clients_own_objects() -> None:
    messages = [{"content": [{"z": 1, "a": None}], "role": "user", "x": {"y": 2}}]
    tools = [{"function": {"z": 1, "name": "f"}, "cache": True}]
    request = decode(messages=messages, tools=tools)
    assert json.dumps(request.messages) == json.dumps(messages)
    assert json.dumps(request.tools) == json.dumps(tools)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('"model": 3', "model"),
        ('"temperature": "hot"', "temperature"),
        ('"temperature": true', "temperature"),
        ('"temperature": 1e400', "temperature"),
        ('"temperature": -1e400', "temperature"),
        ('"n": "one"', "n"),
        ('"n": " 1"', "n"),
        ('"n": "1.5"', "n"),
        ('"n": "1_0"', "n"),
        ('"n": [1]', "n"),
        ('"n": 1.5', "n"),
        ('"n": true', "n"),
        ('"top_k": 0.5', "top_k"),
        ('"max_tokens": {}', "max_tokens"),
        ('"stream": "maybe"', "stream"),
        ('"stream": 2', "stream"),
        ('"stream_options": true', "stream_options"),
        ('"stream_options": {"include_usage": 2}', "stream_options.include_usage"),
        ('"stop": 3', "stop"),
        ('"stop": {}', "stop"),
        ('"stop": ["a", 3]', "stop[1]"),
        ('"stop": [null]', "stop[0]"),
        ('"stop_token_ids": 3', "stop_token_ids"),
        ('"stop_token_ids": [1, "a"]', "stop_token_ids[1]"),
        ('"logit_bias": []', "logit_bias"),
        ('"logit_bias": {"7": "x"}', "logit_bias[...]"),
        ('"logprobs": 5', "logprobs"),
        ('"tools": {}', "tools"),
        ('"tools": [{}, 3]', "tools[1]"),
        ('"tool_choice": []', "tool_choice"),
        ('"tool_choice": 3', "tool_choice"),
        ('"response_format": "json_object"', "response_format"),
        ('"chat_template_kwargs": [1]', "chat_template_kwargs"),
        ('"reasoning_effort": true', "reasoning_effort"),
        ('"lora_path": ["a"]', "lora_path"),
        ('"messages": null', "messages"),
        ('"messages": {}', "messages"),
        ('"messages": "hi"', "messages"),
        ('"messages": [null]', "messages[0]"),
        ('"messages": [{"role": "user"}, "hi"]', "messages[1]"),
        ('"messages": [[{}]]', "messages[0]"),
    ],
)
def test_a_wrong_type_names_its_field(text: str, field: str) -> None:
    error = refusal(with_field(text))
    assert error.param == field
    assert error.message.startswith(f"{field}: ")
    assert error.code == "invalid_type"


def test_missing_messages_are_named() -> None:
    error = refusal(b'{"model": "x"}')
    assert (error.param, error.code) == ("messages", "invalid_type")


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"3", b"true"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    error = refusal(body)
    assert (error.param, error.code) == (None, "invalid_type")
    assert "object" in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"not JSON",
        b'{"messages": [}',
        with_field('"n": 1,'),
        with_field('"n": 1') + b" x",
        with_field("'n': 1"),
        with_field('"n": 01'),
        with_field('"temperature": NaN'),
        with_field('"temperature": Infinity'),
        with_field('"temperature": -Infinity'),
        with_field('"x": NaN'),
        b"\xef\xbb\xbf\xef\xbb\xbf" + with_field('"n": 1'),
        b"\xef\xbb\xbf",
        with_field('"n": 1').decode().encode("utf-16"),
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
        b'{"messages": [{"role": "user", "content": "\xc3"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "\\udc00 x"}]}',
        b'{"messages": [{"role": "user", "content": "\\ud800\\u0041"}]}',
        b'{"messages": [{"role": "user", "content": "a\nb"}]}',
        b"user=1&x=2",
    ],
    ids=lambda body: repr(body[-24:]),
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    error = refusal(body)
    assert (error.param, error.code) == (None, "invalid_json")


@pytest.mark.parametrize("where", ["seed", "n", "max_tokens", "top_k"])
def test_huge_integers_arrive_whole_or_are_refused(where: str) -> None:
    assert getattr(decode_chat_request(with_field(f'"{where}": {10**30}')), where) == 10**30
    assert refusal(with_field(f'"{where}": {"9" * 10_000}')).param == where


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('"temperature": "0.5"', "temperature", 0.5),
        ('"temperature": "1"', "temperature", 1.0),
        ('"n": "2"', "n", 2),
        ('"max_tokens": 100.0', "max_tokens", 100),
        ('"max_tokens": 1e3', "max_tokens", 1000),
        ('"top_k": "-1"', "top_k", -1),
        ('"stream": "true"', "stream", True),
        ('"stream": "False"', "stream", False),
        ('"stream": 1', "stream", True),
        ('"stop_token_ids": ["5", 6.0]', "stop_token_ids", [5, 6]),
        ('"logit_bias": {"1": "-5"}', "logit_bias", {"1": -5.0}),
        # What may be a text stays one.
        ('"stop": "1"', "stop", "1"),
        ('"stop": "null"', "stop", "null"),
        ('"model": "1"', "model", "1"),
        ('"reasoning_effort": "0.5"', "reasoning_effort", "0.5"),
    ],
)
def test_numbers_may_be_written_as_sglang_takes_them(text: str, name: str, value: object) -> None:
    found = getattr(decode_chat_request(with_field(text)), name)
    assert found == value
    assert type(found) is type(value)


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode_chat_request(b"\xef\xbb\xbf" + with_field('"n": 1')) == decode(n=1)


@pytest.mark.parametrize("first", ["1", '"x"', "null", "{}"])
def test_the_last_of_two_equal_names_counts_if_both_have_the_type(first: str) -> None:
    body = with_field(f'"n": {first}, "n": 2')
    if first in ("1", "null"):
        assert decode_chat_request(body).n == 2
    else:
        assert refusal(body).param == "n"


def test_an_error_of_encoding_says_what_it_may_be() -> None:
    lone = refusal(b'{"messages": [{"role": "user", "content": "cut \\ud83d"}]}')
    assert "surrogate" in lone.message
    assert "UTF-8" in refusal(with_field('"n": 1').decode().encode("utf-16")).message
    assert "empty" in refusal(b"").message
    assert "empty" in refusal(b" \r\n").message


def test_fields_that_no_engine_hears_of_are_named() -> None:
    assert ignored_fields(decode()) == []
    assert ignored_fields(decode(seed=0, stop_regex="a+", priority=0)) == [
        "seed",
        "stop_regex",
        "priority",
    ]
    # Refusing what is not done changes nothing.
    assert ignored_fields(decode(return_hidden_states=False, custom_params=None)) == []


@pytest.mark.parametrize("name", sorted({*IGNORED} - {"seed"}))  # which is a number
@pytest.mark.parametrize("empty", [None, False, "", [], {}])
def test_the_empty_form_of_a_field_asks_for_nothing(name: str, empty: object) -> None:
    assert ignored_fields(decode(**{name: empty})) == []


@pytest.mark.parametrize("name", [name for name in IGNORED + IGNORED_IN_CHAT if name != "seed"])
@pytest.mark.parametrize("value", [1, "x", [1], {"a": [{}]}, True])
def test_what_is_ignored_may_have_any_type(name: str, value: object) -> None:
    assert ignored_fields(decode(**{name: value}), *IGNORED_IN_CHAT) == [name]


def test_integers_are_numbers_too() -> None:
    request = decode(temperature=1, logit_bias={"7": -5}, reasoning_effort=1)
    assert request.temperature == 1.0
    assert request.logit_bias == {"7": -5.0}


def test_escaped_characters_arrive_as_characters() -> None:
    body = rb'{"messages":[{"role":"user","content":"\ud83d\ude00 \u0000 \u2028"}]}'
    assert decode_chat_request(body).messages[0]["content"] == "\U0001f600 \x00 \u2028"


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from([field.name for field in FIELDS]), _json))
def test_any_json_is_read_or_refused(fields: dict[str, Any]) -> None:
    body = json.dumps(fields).encode()  # NaN and Infinity among it
    with suppress(BadRequest):
        assert isinstance(decode_chat_request(body).messages, list)


@settings(deadline=None, derandomize=True)
@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_chat_request(body)
