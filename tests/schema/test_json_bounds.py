"""Bodies of a shape that costs more than their size."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter._fast.json_shape import json_shape
from sglrouter.errors import BadRequest
from sglrouter.schema.chat import decode_chat_request
from sglrouter.schema.json_bounds import JsonBounds

# Of each kind of place a client's own objects come to, how deep that is already.
PLACES = {
    '"messages": [{"content": %s}]': 3,
    '"messages": [], "tools": [{"x": %s}]': 3,
    '"messages": [], "tool_choice": {"x": %s}': 2,
    '"messages": [], "response_format": {"x": %s}': 2,
    '"messages": [], "chat_template_kwargs": {"x": %s}': 2,
    '"messages": [], "custom_params": %s': 1,
}


def nested(opening: str, depth: int) -> str:
    closing = "]" if opening == "[" else "}"
    return opening * depth + "1" + closing * depth


def refusal(body: bytes, bounds: JsonBounds | None = None) -> BadRequest:
    with pytest.raises(BadRequest) as raised:
        decode_chat_request(body, bounds or JsonBounds())
    return raised.value


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("place", PLACES)
def test_the_depth_is_counted_from_the_body(place: str, opening: str) -> None:
    within = 100 - PLACES[place]
    body = "{" + place % nested(opening, within) + "}"
    assert decode_chat_request(body.encode()).messages is not None
    error = refusal(("{" + place % nested(opening, within + 1) + "}").encode())
    assert error.code == "invalid_json"
    assert "nested too deeply: at most 100" in error.message


@pytest.mark.parametrize("depth", [101, 900, 1000, 2000, 100_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("closed", [True, False])
def test_any_deeper_is_refused_without_a_crash(
    depth: int, opening: str, place: str, closed: bool
) -> None:
    text = nested(opening, depth) if closed else opening * depth
    error = refusal(("{" + place % text + "}").encode(), JsonBounds(values=10**9))
    assert (error.status, error.code) == (400, "invalid_json")
    if closed:
        assert "nested too deeply" in error.message


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 10_000_000,
        b'{"messages":' + b"[" * 10_000_000,
        b'{"messages":[],"x":' + b'{"":' * 2_000_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_megabytes_of_brackets_cost_little(body: bytes) -> None:
    started = time.process_time()
    tracemalloc.start()
    try:
        refusal(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50_000_000
    assert time.process_time() - started < 2


def test_the_depth_of_fields_that_are_not_read_does_not_matter_while_they_can_be_skipped() -> None:
    body = '{"messages": [], "unknown": ' + nested("[", 500) + "}"
    assert decode_chat_request(body.encode()).messages == []


FEW = JsonBounds(values=1000)


@pytest.mark.parametrize(
    "item", ["{}", "[]", "0", '""', '{"a":1}', '"\\\\"', '"\\""', "null", '{"":""}', '"a,b"']
)
def test_values_are_counted_before_they_are_made(item: str) -> None:
    def body(count: int) -> bytes:
        return ('{"messages":[],"tools":[{"x":[' + ",".join([item] * count) + "]}]}").encode()

    brackets = item.count("{") + item.count("[")
    # Numbers in lists, and words such as null, count a sixteenth.
    each = 1 / 16 if item in ("0", "null") else 1 + brackets
    fits = int((1000 - 6) / each)
    assert decode_chat_request(body(fits), FEW).tools is not None
    error = refusal(body(fits + 128), FEW)
    assert (error.status, error.code) == (400, "request_too_large")
    assert "more than 1000 values" in error.message


@pytest.mark.parametrize("text", [",", "[{", ", ", '",', "\\,", '\\"[', '"', "\\"])
def test_text_may_hold_any_number_of_commas_and_brackets(text: str) -> None:
    content = text * 10_000
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    assert decode_chat_request(body, FEW).messages[0]["content"] == content


def test_a_bomb_costs_less_memory_than_what_it_would_become() -> None:
    for item in (b"{},", b"[],", b'"",', b'"a",', b"1000,", b'{"":0},'):
        body = b'{"messages":[' + item * (8_000_000 // len(item)) + b"0]}"
        tracemalloc.start()
        try:
            refusal(body)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # As much again as the body, a few times, and not sixty bytes for each bracket.
        assert peak < 8 * len(body), item


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a\\",[]{}:\u00e9', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet='a\\",[{', max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


def values_and_numbers(value: object) -> tuple[int, int]:
    """What json_shape() counts, of the value instead of its text."""
    if not isinstance(value, dict | list):
        return 0, 0
    children = list(value.values()) if isinstance(value, dict) else value
    values, numbers = 1, 0
    for i, child in enumerate(children):
        last = i == len(children) - 1
        if not last:
            light = isinstance(value, list) and not isinstance(child, dict | list | str)
            values, numbers = values + (not light), numbers + light
        inner = values_and_numbers(child)
        values, numbers = values + inner[0], numbers + inner[1]
    return values, numbers


def depth(value: object) -> int:
    children = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, children), default=0) if isinstance(children, Iterable) and \
        not isinstance(value, str) else 0  # fmt: skip


@settings(max_examples=300)
@given(
    value=_json, separators=st.sampled_from([(",", ":"), (", ", ": ")]), ascii_only=st.booleans()
)
def test_strings_are_told_from_what_is_between_them(
    value: object, separators: tuple[str, str], ascii_only: bool
) -> None:
    body = json.dumps({"x": value}, separators=separators, ensure_ascii=ascii_only).encode()
    values, numbers = values_and_numbers({"x": value})
    assert json_shape(body) == (values + -(-numbers // 16), depth({"x": value}))


@given(st.lists(st.sampled_from(["\\\\", '\\"', "a" * 15, "a", ","]), max_size=40))
def test_an_escaped_quote_ends_no_string_wherever_it_is(parts: list[str]) -> None:
    assert json_shape(f'["{"".join(parts)}",1]'.encode()) == (2, 1)


def test_what_is_no_json_is_counted_all_the_same() -> None:
    assert json_shape(b"") == (0, 0)
    assert json_shape(b'"\\') == (0, 0)
    assert json_shape(b'"') == (0, 0)
    assert json_shape(b"]]]}") == (0, 0)
    assert json_shape(b"[" * 5000) == (5000, 5000)


def test_a_million_ids_are_a_prompt() -> None:
    body = b'{"messages":[],"input_ids":[' + b"1000," * 1_000_000 + b"1]}"
    assert decode_chat_request(body).messages == []


@pytest.mark.parametrize("escape", [b"\\n", b'\\"', b"\\\\", b"\\u00e4"])
def test_millions_of_escapes_are_too_many_values(escape: bytes) -> None:
    def body(count: int) -> bytes:
        return b'{"messages":[{"role":"user","content":"' + escape * count + b'"}]}'

    backslashes = escape.count(b"\\")
    # Half of them is nothing special.
    decode_chat_request(body(JsonBounds().values * 16 // backslashes), JsonBounds())
    assert refusal(body(JsonBounds().values * 33 // backslashes)).code == "request_too_large"
