"""Reasoning and tool calls end to end, streamed and whole, however many tokens a chunk holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionToolParam

from sglrouter.sim import SimulatedEngine
from tests.processes import RouterProcess, chat_body, finish_reason

TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A function.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("weather", "time")
]
ARGUMENTS = {"city": "São Paulo 🌧", "days": [1, 2]}
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {json.dumps(ARGUMENTS)}}}\n</tool_call>'
OTHER = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
THOUGHT = "<think>\nThe user wants the weather 🤔.\n</think>\n\n"


@pytest.fixture(scope="module")
def router(engine: SimulatedEngine, tiny_model: Path) -> Iterator[RouterProcess]:
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "tool_call_parser": "qwen25",
            "reasoning_parser": "qwen3",
        }
    )
    router.start()
    yield router
    router.stop()


@pytest.fixture(params=[1, 3, 50], autouse=True)
def _tokens_a_chunk(engine: SimulatedEngine, request: pytest.FixtureRequest) -> Iterator[None]:
    engine.options.tokens_per_chunk = request.param
    yield
    engine.options.tokens_per_chunk = 1


def answer(router: RouterProcess, **fields: Any) -> dict[str, Any]:
    """The one choice of a completion, the same streamed and whole."""
    (whole,) = router.chat(**fields).json()["choices"]
    events = router.stream(**fields)
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: list[dict[str, Any]] = []
    for event in events:
        delta = event["choices"][0]["delta"] if event["choices"] else {}
        message["content"] += delta.get("content") or ""
        if delta.get("reasoning_content"):
            message.setdefault("reasoning_content", "")
            message["reasoning_content"] += delta["reasoning_content"]
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(calls)
                calls.append(call)
            else:
                assert set(call) == {"index", "function"}
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    if calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = calls
    assert finish_reason(events) == whole["finish_reason"]
    for call in [*calls, *whole["message"].get("tool_calls", [])]:
        assert call.pop("id").startswith("call_")
    assert whole["message"] == message
    return {"finish_reason": whole["finish_reason"], **message}


def test_reasoning_text_and_calls_are_told_apart(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(f"{THOUGHT}Let me see.\n{CALL}\n{OTHER}")
    got = answer(router, tools=TOOLS)
    assert got["reasoning_content"] == "\nThe user wants the weather 🤔.\n"
    assert got["content"] == "\n\nLet me see.\n"
    names = [call["function"]["name"] for call in got["tool_calls"]]
    assert names == ["weather", "time"]
    arguments = [json.loads(call["function"]["arguments"]) for call in got["tool_calls"]]
    assert arguments == [ARGUMENTS, {}]
    assert got["finish_reason"] == "tool_calls"


def test_without_tools_a_call_is_text(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(CALL)
    for fields in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        got = answer(router, **fields)
        assert got["content"] == CALL
        assert got["finish_reason"] == "stop"
        assert "tool_calls" not in got


def test_the_prompt_says_where_reasoning_begins(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("Hm.</think>Yes.")
    got = answer(router, enable_thinking=True)
    assert (got["reasoning_content"], got["content"]) == ("Hm.", "Yes.")
    got = answer(router)
    assert got["content"] == "Hm.</think>Yes."


def test_reasoning_may_stay_where_it_is(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(THOUGHT + "Yes.")
    got = answer(router, separate_reasoning=False)
    assert got["content"] == THOUGHT + "Yes."
    assert "reasoning_content" not in got


def test_reasoning_may_come_in_one_piece(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(THOUGHT + "Yes.")
    events = router.stream(stream_reasoning=False)
    deltas = [event["choices"][0]["delta"] for event in events]
    pieces = [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta]
    assert pieces == ["\nThe user wants the weather 🤔.\n"]


def test_an_answer_of_reasoning_alone_may_become_content(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("<think>All I thought")
    got = answer(router, force_nonempty_content=True)
    assert got["content"] == "All I thought"
    assert answer(router)["content"] == ""


def test_only_one_call_where_several_are_not_wanted(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(f"{CALL}\n{OTHER}\n{OTHER}")
    got = answer(router, tools=TOOLS, parallel_tool_calls=False)
    (call,) = got["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert got["finish_reason"] == "tool_calls"
    engine.wait_until(lambda: engine.active == 0)


def test_a_call_that_is_cut_off_is_told_as_far_as_it_goes(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(CALL)
    got = answer(router, tools=TOOLS, max_tokens=18)
    (call,) = got["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert json.dumps(ARGUMENTS, ensure_ascii=False).startswith(call["function"]["arguments"])
    assert got["finish_reason"] == "length"


def test_reasoning_tokens_are_counted(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(THOUGHT + "Yes.")
    usage = router.chat().json()["usage"]
    assert 0 <= usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    if engine.options.tokens_per_chunk == 1:
        (last,) = router.stream(stream_options={"include_usage": True})[-1:]
        counted = last["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert 5 < counted < last["usage"]["completion_tokens"]


def test_every_token_keeps_its_logprob(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(f"{THOUGHT}Let me see.\n{CALL}\n{OTHER}")
    fields = {"tools": TOOLS, "logprobs": True, "top_logprobs": 1}
    (whole,) = router.chat(**fields).json()["choices"]
    streamed = [
        entry
        for event in router.stream(**fields)
        for entry in (event["choices"][0]["logprobs"] or {"content": []})["content"]
    ]
    assert streamed == whole["logprobs"]["content"]
    text = b"".join(bytes(entry["bytes"]) for entry in streamed).decode()
    assert text.startswith(f"{THOUGHT}Let me see.\n{CALL}\n{OTHER}")


def test_usage_with_every_chunk(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script("one two three four")
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = router.stream(stream_options=options)
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == counts[-2] > 0


def test_the_openai_client_gathers_a_streamed_call(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(f"{THOUGHT}Let me see.\n{CALL}\n{OTHER}")
    client = router.openai()
    messages: Any = [{"role": "user", "content": "Weather?"}]
    with client.chat.completions.stream(model="tiny", messages=messages, tools=TOOLS) as stream:
        completion = stream.get_final_completion()
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls or []
    assert [call.function.name for call in calls] == ["weather", "time"]
    assert json.loads(calls[0].function.arguments) == ARGUMENTS
    # The next turn: the calls go back with their results.
    engine.script("It rains.")
    messages += [choice.message.model_dump(exclude_none=True)]
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls]
    reply = client.chat.completions.create(model="tiny", messages=messages, tools=TOOLS)
    assert reply.choices[0].message.content == "It rains."


def test_a_forced_call_is_read_from_its_array(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(json.dumps([{"name": "weather", "parameters": ARGUMENTS}]))
    got = answer(router, tools=TOOLS, tool_choice="required")
    (call,) = got["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert got["finish_reason"] == "tool_calls"


def test_a_text_can_be_read_without_a_model(router: RouterProcess) -> None:
    body = {"text": f"Let me see. {CALL}", "tools": TOOLS, "tool_call_parser": "hermes"}
    sglang = router.http.post("/parse_function_call", json=body).json()
    assert sglang["normal_text"] == "Let me see. "
    (call,) = sglang["calls"]
    assert (call["tool_index"], call["name"]) == (0, "weather")
    assert json.loads(call["parameters"]) == ARGUMENTS
    gateway = router.http.post("/parse/function_call", json={**body, "parser": "qwen"}).json()
    assert gateway["remaining_text"] == "Let me see. "
    assert json.loads(gateway["tool_calls"][0]["function"]["arguments"]) == ARGUMENTS
    body = {"text": "a</think>b", "reasoning_parser": "deepseek-r1"}
    assert router.http.post("/separate_reasoning", json=body).json() == {
        "reasoning_text": "a",
        "text": "b",
    }
    # A format that is both is asked for by the same name.
    body = {
        "text": "<|channel|>analysis<|message|>a<|end|>"
        "<|start|>assistant<|channel|>final<|message|>b",
        "reasoning_parser": "gpt-oss",
    }
    assert router.http.post("/separate_reasoning", json=body).json() == {
        "reasoning_text": "a",
        "text": "b",
    }
    body = {"text": THOUGHT + "b"}
    gateway = router.http.post("/parse/reasoning", json=body).json()
    assert gateway["normal_text"] == "\n\nb"
    assert gateway["reasoning_text"] == "\nThe user wants the weather 🤔.\n"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/parse/function_call", {"text": "x", "parser": "nonsense"}, "tool_call_parser"),
        ("/separate_reasoning", {"text": "x", "parser": "nonsense"}, "reasoning_parser"),
        ("/parse/reasoning", {}, "text"),
        ("/parse/function_call", {"text": "x", "tools": [{}]}, "tools[0].function.name"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(
    router: RouterProcess, path: str, body: dict[str, Any], param: str
) -> None:
    response = router.http.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


def test_a_client_that_leaves_in_a_call_ends_it(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(CALL[:-20] + "x" * 3000)
    engine.options.token_delay = 0.01
    try:
        with router.http.stream(
            "POST", "/v1/chat/completions", json=chat_body(stream=True, tools=TOOLS)
        ) as response:
            for line in response.iter_lines():
                if "arguments" in line:
                    break
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0
