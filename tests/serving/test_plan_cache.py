"""What is remembered of requests is what would be decided anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.connect import connector
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.engines.wire.scheduler import EngineFacts
from sglrouter.errors import RouterError
from sglrouter.model import load_model
from sglrouter.schema.chat import IGNORED_IN_CHAT, ChatRequest, decode_chat_request
from sglrouter.schema.sampling import IGNORED
from sglrouter.serving import chat
from sglrouter.serving.chat import ChatServing
from sglrouter.serving.plan_cache import PlanCache, key_of
from sglrouter.serving.service import Service

FACTS = EngineFacts(model_path="/models/tiny", max_prompt_tokens=500)


@pytest.fixture(scope="module")
def service(tiny_model: Path) -> Iterator[Service]:
    address = "grpc://127.0.0.1:1"
    settings = Settings(engine=[address], tokenizer=str(tiny_model), lora_adapters=["mine=id-1"])
    fleet = Fleet([parse_endpoint(address)], connector("grpcio"))
    yield Service(settings, load_model(settings, tiny_model), fleet)
    fleet.close()


def request(**fields: object) -> ChatRequest:
    return decode_chat_request(
        json.dumps({"messages": [{"role": "user", "content": "x"}]} | fields).encode()
    )


def key(asked: ChatRequest) -> bytes:
    key = key_of(asked, *chat._NO_PARAMETERS)
    assert key is not None
    return key


def tool(**parameters: object) -> dict[str, object]:
    function = {"name": "f", "parameters": {"type": "object", "properties": parameters}}
    return {"type": "function", "function": function}


# For each field some values, of which any two are different requests.
VALUES: dict[str, list[Any]] = {
    "model": ["a", "b"],
    "stream": [True],
    "stream_options": [{"include_usage": True}, {"continuous_usage_stats": True}],
    "n": [1, 2],
    "temperature": [0, 0.5, 1],
    "top_p": [0.5, 0.25],
    "top_k": [1, 2],
    "min_p": [0.5],
    "frequency_penalty": [1, -1],
    "presence_penalty": [1],
    "repetition_penalty": [1.5],
    "logit_bias": [{"5": 1}, {"5": 2}, {"6": 1}],
    "min_tokens": [0, 1],
    "stop": ["a", ["a", "b"], []],
    "stop_token_ids": [[1], [2], [1, 2]],
    "ignore_eos": [True, False],
    "no_stop_trim": [True],
    "skip_special_tokens": [True, False],
    "response_format": [
        {"type": "text"},
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"maximum": 1}}},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"maximum": 1.0}}},
    ],
    "regex": ["a", "b"],
    "ebnf": ['root ::= "a"'],
    "lora_path": ["mine"],
    "logprobs": [True, False],
    "top_logprobs": [0, 1],
    "tools": [
        [tool(a={"type": "string"})],
        [tool(a={"type": "integer"})],
        [tool(a={"const": 1})],
        [tool(a={"const": True})],
        [tool(a={"const": 1.0})],
        [tool(a={"type": "string"}, b={})],
        [tool(b={}, a={"type": "string"})],
    ],
    "tool_choice": ["none", "auto", "required"],
    "parallel_tool_calls": [True, False],
    "chat_template_kwargs": [{"a": 1}, {"a": True}, {"a": "1"}, {"enable_thinking": True}],
    "reasoning_effort": ["low", "high", "none"],
    "reasoning": [{"effort": "low"}, {"enabled": True}],
    "enable_thinking": [True, False],
    "separate_reasoning": [False],
    "stream_reasoning": [False],
    "force_nonempty_content": [True],
    "thinking": [True, {"type": "disabled"}],
    "add_generation_prompt": [False],
    "continue_final_message": [True, "content"],
    "cache_salt": ["a", ""],
    "priority": [1],
}
# Refused before, or turned into others.
ELSEWHERE = {"chat_template", "functions", "function_call"}


def test_every_field_of_a_request_has_values_here() -> None:
    ignored = {*IGNORED, *IGNORED_IN_CHAT}
    fields = set(ChatRequest.__struct_fields__) - set(chat._NO_PARAMETERS) - ELSEWHERE
    # Of those that are only named in a header, some.
    assert fields - ignored - VALUES.keys() == set()
    assert VALUES.keys() - fields == set()


@pytest.mark.parametrize("name", VALUES)
def test_each_value_of_a_field_is_a_key_of_its_own(name: str) -> None:
    keys = [key(request(**{name: value})) for value in VALUES[name]]
    assert len(set(keys)) == len(keys)


def test_messages_and_lengths_are_in_no_key() -> None:
    other = request(
        messages=[{"role": "user", "content": "secret"}],
        max_tokens=7,
        max_completion_tokens=8,
        rid="mine",
    )
    assert key(other) == key(request())
    assert b"secret" not in key(other)


def decided(serving: ChatServing, asked: ChatRequest) -> object:
    """What is decided of a request, or how it is refused."""
    try:
        parameters = serving._parameters(asked, FACTS)
    except RouterError as error:
        return error.message, error.param, error.code
    told = msgspec.structs.asdict(parameters)
    # Each is made for its request, and told apart by what it holds.
    told["reading"] = {
        name: getattr(parameters.reading, name)
        for name in parameters.reading.__struct_fields__
        if name not in ("tools", "calls")
    }
    calls = parameters.reading.calls
    told["calls"] = calls and (calls.program.__qualname__, calls.markers)
    return told


requests = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(values) for name, values in VALUES.items()}
)


@settings(max_examples=150, deadline=None)
@given(st.lists(requests, min_size=1, max_size=6))
def test_what_is_remembered_is_what_would_be_decided(
    service: Service, asked: list[dict[str, object]]
) -> None:
    remembering = ChatServing(service)
    for fields in [*asked, *asked]:
        fresh = ChatServing(service)
        assert decided(remembering, request(**fields)) == decided(fresh, request(**fields))


def test_a_plan_is_remembered_while_the_facts_are_the_same(service: Service) -> None:
    serving = ChatServing(service)
    first = serving._parameters(request(temperature=0.5), FACTS)
    assert serving._parameters(request(temperature=0.5, max_tokens=9), FACTS) is first
    others = EngineFacts(model_path="/models/tiny", max_prompt_tokens=400)
    second = serving._parameters(request(temperature=0.5), others)
    assert second is not first
    assert second.limits.max_prompt_tokens == 400


def test_a_request_that_is_refused_is_refused_again(service: Service) -> None:
    serving = ChatServing(service)
    for _ in range(2):
        with pytest.raises(RouterError, match="top_p"):
            serving._parameters(request(top_p=9), FACTS)


def test_a_number_that_cannot_be_written_is_not_remembered(service: Service) -> None:
    asked = request(chat_template_kwargs={"a": 10**30})
    assert key_of(asked, *chat._NO_PARAMETERS) is None or key(asked) != key(
        request(chat_template_kwargs={"a": 10**30 + 1})
    )
    serving = ChatServing(service)
    assert serving._parameters(asked, FACTS).variables == asked.chat_template_kwargs


def test_the_keys_are_bounded_together_and_the_last_used_stay() -> None:
    cache = PlanCache[int](most_bytes=100)
    basis = object()
    for number in range(10):
        cache.put(b"%d" % number * 10, basis, number)
    assert len(cache) == 10
    assert cache.get(b"0" * 10, basis) == 0
    cache.put(b"x" * 20, basis, 10)
    assert [cache.get(b"%d" % n * 10, basis) for n in range(4)] == [0, None, None, 3]
    # The same key again takes no more room.
    for number in range(50):
        cache.put(b"x" * 20, basis, number)
    assert cache.get(b"0" * 10, basis) == 0
    assert cache.get(b"x" * 20, object()) is None


def test_a_key_beyond_the_bound_is_none() -> None:
    assert key_of(request(regex="a" * 600_000), "messages") is None
