"""Faults that the original router is known for, each shown to be absent here.

The numbers are those of the list that this project began with; only those that the
way of a chat completion can have.
"""

from __future__ import annotations

import json
import time

import pytest

from sglrouter.sim import SimulatedEngine
from tests.processes import RouterProcess, finish_reason, joined

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
WORDS = " ".join(f"word{i}" for i in range(150))


def test_1_deltas_arrive_in_order(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(WORDS)
    for _ in range(5):
        assert joined(router.stream()) == WORDS


def test_2_a_slow_reader_gets_the_tail(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(WORDS)
    stream = router.openai().chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "x"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    first = next(iter(stream))
    time.sleep(0.5)  # by now the engine has long finished
    chunks = [first, *stream]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == WORDS
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None


@pytest.mark.parametrize("first", [[], [4]])
def test_3_the_first_token_is_not_dropped(
    router: RouterProcess, engine: SimulatedEngine, first: list[int]
) -> None:
    engine.script([first, [5], [6]])
    events = router.stream()
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    engine.script([[*first, 5, 6]])
    whole = router.chat().json()["choices"][0]["message"]["content"]
    assert joined(events) == whole
    assert len(whole) >= len(first) + 2


def test_4_nothing_is_sent_twice(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(WORDS)
    events = router.stream()
    assert "content" not in events[-1]["choices"][0]["delta"]
    assert joined(events) == WORDS
    assert router.chat().json()["choices"][0]["message"]["content"] == WORDS


def test_5_tools_and_tool_history_reach_the_prompt(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
    }
    body = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather in"},
                                         {"type": "text", "text": "Oslo?"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": "snow"},
        ],
        "tools": [TOOL],
    }  # fmt: skip
    response = router.http.post("/v1/chat/completions", json=body)
    assert response.status_code == 200, response.text
    prompt = engine.requests[-1].tokenized.original_text
    assert "The weather in a city" in prompt
    assert "Weather in Oslo?" in prompt
    assert '"arguments": {"city": "Oslo"}' in prompt
    assert "snow" in prompt


def test_6_no_tools_and_an_empty_list_make_the_same_prompt(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    prompts = []
    ways: list[dict[str, object]] = [
        {},
        {"tools": []},
        {"tools": None},
        {"tools": [TOOL], "tool_choice": "none"},
    ]
    for fields in ways:
        assert router.chat(**fields).status_code == 200
        prompts.append(engine.requests[-1].tokenized.original_text)
    assert len(set(prompts)) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_7_a_forced_call_is_constrained_and_delivered(
    router: RouterProcess, engine: SimulatedEngine, choice: object, stream: bool
) -> None:
    engine.script('[{"name": "get_weather", "parameters": {"city": "Oslo"}}]')
    fields = {"tools": [TOOL], "tool_choice": choice}
    if stream:
        events = router.stream(**fields)
        assert finish_reason(events) == "tool_calls"
        deltas = [
            call for event in events for call in event["choices"][0]["delta"].get("tool_calls", ())
        ]
        assert [delta["id"] for delta in deltas if "id" in delta] == [deltas[0]["id"]]
        name = deltas[0]["function"]["name"]
        arguments = "".join(delta["function"]["arguments"] for delta in deltas)
    else:
        answer = router.chat(**fields).json()["choices"][0]
        assert answer["finish_reason"] == "tool_calls"
        assert answer["message"]["content"] is None
        (call,) = answer["message"]["tool_calls"]
        name, arguments = call["function"]["name"], call["function"]["arguments"]
    assert name == "get_weather"
    assert json.loads(arguments) == {"city": "Oslo"}
    # In the model's own format, which its template tells.
    tag = json.loads(engine.requests[-1].sampling_params.structural_tag)
    assert "get_weather" in json.dumps(tag)


def test_8_every_parameter_reaches_the_engine(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    response = router.chat(
        n=1,
        stop=["never"],
        stop_token_ids=[9],
        min_tokens=2,
        max_tokens=20,
        seed=5,
        user="someone",
        rid="mine",
        logit_bias={"11": -3},
        logprobs=True,
        top_logprobs=2,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}},
        },
    )
    assert response.status_code == 200, response.text
    request = engine.requests[-1]
    params = request.sampling_params
    assert (list(params.stop), list(params.stop_token_ids)) == (["never"], [9])
    assert (params.min_new_tokens, params.max_new_tokens) == (2, 20)
    assert dict(params.logit_bias) == {"11": -3.0}
    assert json.loads(params.json_schema) == {"type": "object"}
    assert (request.return_logprob, request.top_logprobs_num) == (True, 2)
    # Engines match ids by prefix: a client's own must not become one.
    assert request.request_id != "mine"
    # The wire has no field for a seed; the client is told.
    assert response.headers["x-sglrouter-ignored"] == "seed"


def test_8_a_stop_string_stops_the_engine_too(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(WORDS)
    choice = router.chat(stop=" word3").json()
    assert choice["choices"][0]["message"]["content"] == "word0 word1 word2"
    assert choice["choices"][0]["finish_reason"] == "stop"
    assert choice["usage"]["completion_tokens"] < 20


@pytest.mark.parametrize("stream", [False, True])
def test_15_index_stop_and_logprobs_come_through(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script("one two", "three four")
    fields = {"n": 2, "logprobs": True, "top_logprobs": 1}
    tokens: dict[int, list[str]] = {0: [], 1: []}
    texts = {}
    if stream:
        events = router.stream(**fields)
        for event in events:
            for choice in event["choices"]:
                if choice["logprobs"]:
                    entries = choice["logprobs"]["content"]
                    tokens[choice["index"]] += [entry["token"] for entry in entries]
        texts = {index: joined(events, index) for index in (0, 1)}
        choices = [choice for event in events for choice in event["choices"]]
        last = [choice for choice in choices if choice["finish_reason"]]
        assert [choice["matched_stop"] for choice in last] == [4066, 4066]
    else:
        for choice in router.chat(**fields).json()["choices"]:
            entries = choice["logprobs"]["content"]
            tokens[choice["index"]] = [entry["token"] for entry in entries]
            texts[choice["index"]] = choice["message"]["content"]
            assert choice["matched_stop"] == 4066
            assert all(len(entry["top_logprobs"]) == 1 for entry in entries)
    assert set(texts.values()) == {"one two", "three four"}
    assert all("".join(tokens[index]) == texts[index] for index in (0, 1))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "alien", "content": "x"}]}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_19_a_bad_request_is_400(
    router: RouterProcess, fields: dict[str, object], param: str
) -> None:
    for stream in (False, True):
        response = router.chat(stream=stream, **fields)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert error["param"] == param


def test_21_usage_is_sent_as_asked(router: RouterProcess) -> None:
    assert not any("usage" in event for event in router.stream())
    assert not any(
        "usage" in event for event in router.stream(stream_options={"include_usage": False})
    )
    events = router.stream(stream_options={"include_usage": True})
    assert [bool(event.get("usage")) for event in events] == [False] * (len(events) - 1) + [True]
    assert all("usage" in event for event in events)
    whole = router.chat(stream_options={"include_usage": True})
    assert whole.status_code == 200
    assert whole.json()["usage"]["completion_tokens"] > 0


def test_23_the_models_own_sampling_defaults_apply(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    router.chat()
    params = engine.requests[-1].sampling_params
    assert params.temperature == pytest.approx(0.7)
    assert params.top_p == pytest.approx(0.9)
    assert params.top_k == 40
    router.chat(temperature=0, top_p=1, top_k=-1)
    params = engine.requests[-1].sampling_params
    assert (params.temperature, params.top_p, params.top_k) == (0.0, 1.0, -1)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", [0, -1, -(2**40)])
def test_25_senseless_lengths_are_refused(router: RouterProcess, name: str, value: int) -> None:
    response = router.chat(**{name: value})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == name


def test_25_a_huge_length_is_clamped_to_the_context(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    for value in (32000, 2**32 + 5, 2**62):
        assert router.chat(max_completion_tokens=value, max_tokens=3).status_code == 200
        request = engine.requests[-1]
        prompt = len(request.tokenized.input_ids)
        assert request.sampling_params.max_new_tokens == 8192 - 2 - prompt


def test_25_a_prompt_beyond_the_context_is_refused_here(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    before = len(engine.requests)
    response = router.chat("word " * 9000)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "messages"
    assert len(engine.requests) == before
