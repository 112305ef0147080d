"""What agents send back: earlier turns in all the forms that are about.

Each is sent with openai-python, which passes messages on as they are. The prompt that the
engine gets is the proof that nothing of them was lost.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import (
    ANSWER,
    ARGUMENTS,
    CALL,
    QUESTION,
    RESULT,
    THOUGHT,
    TOOL,
    assert_results_went_back,
    last_prompt,
)
from tests.processes import RouterProcess


def send(router: RouterProcess, messages: list[dict[str, Any]], **fields: Any) -> Any:
    """The answer's message."""
    sent: Any = messages
    with router.openai() as client:
        completion = client.chat.completions.create(model="tiny", messages=sent, **fields)
    return completion.choices[0].message


def history(call: dict[str, Any], result: Any, **message: Any) -> list[dict[str, Any]]:
    """A question, a call and its result."""
    return [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [call], **message},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]


def call_of(arguments: Any) -> dict[str, Any]:
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": arguments},
    }


TEXT = json.dumps(ARGUMENTS)


@pytest.fixture(autouse=True)
def _answer(engine: SimulatedEngine) -> None:
    engine.script(ANSWER)


@pytest.mark.parametrize(
    "messages",
    [
        history(call_of(TEXT), RESULT),
        history(call_of(ARGUMENTS), RESULT),  # an object, as some templates' users send it
        history({"index": 0} | call_of(TEXT), RESULT),  # a streamed call as it came
        history(call_of(TEXT), [{"type": "text", "text": RESULT}]),
        history(call_of(TEXT), RESULT, content=""),
        history(call_of(TEXT), RESULT, content=[]),
        history(call_of(TEXT), RESULT, refusal=None, annotations=[], audio=None),
        history(call_of(TEXT), RESULT, provider_specific_fields={"a": 1}, name="agent"),
        [*history(call_of(TEXT), RESULT)[:2], {"role": "tool", "content": RESULT}],
        [*history(call_of(TEXT), RESULT)[:2], {**history({}, RESULT)[2], "name": "weather"}],
    ],
)
def test_calls_and_results(
    router: RouterProcess, engine: SimulatedEngine, messages: list[dict[str, Any]]
) -> None:
    assert send(router, messages, tools=[TOOL]).content == ANSWER
    assert_results_went_back(engine)


@pytest.mark.parametrize("arguments", ["", "{}", "null", None, {}])
def test_calls_without_arguments(
    router: RouterProcess, engine: SimulatedEngine, arguments: Any
) -> None:
    assert send(router, history(call_of(arguments), RESULT), tools=[TOOL]).content == ANSWER
    assert '{"name": "weather", "arguments": {}}' in last_prompt(engine)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back(router: RouterProcess, engine: SimulatedEngine, name: str) -> None:
    messages = history(call_of(TEXT), RESULT, **{name: THOUGHT})
    assert send(router, messages, tools=[TOOL]).content == ANSWER
    assert f"<think>\n{THOUGHT}\n</think>\n\n{CALL}" in last_prompt(engine)


def test_the_developer_role(router: RouterProcess, engine: SimulatedEngine) -> None:
    send(router, [{"role": "developer", "content": "Be brief."}, user()])
    assert "<|im_start|>system\nBe brief.<|im_end|>" in last_prompt(engine)


def test_a_system_message_in_the_middle(router: RouterProcess, engine: SimulatedEngine) -> None:
    messages = [user(), {"role": "system", "content": "Be brief."}, user("And tomorrow?")]
    assert send(router, messages).content == ANSWER
    prompt = last_prompt(engine)
    assert prompt.count("Be brief.") == prompt.count("And tomorrow?") == 1


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_content_in_parts(router: RouterProcess, engine: SimulatedEngine, role: str) -> None:
    parts = [
        {"type": "text", "text": "One part.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Another."},
    ]
    send(router, [user(), {"role": role, "content": parts}, user()])
    prompt = last_prompt(engine)
    assert prompt.index("One part.") < prompt.index("Another.")


def test_a_trailing_assistant_turn(router: RouterProcess, engine: SimulatedEngine) -> None:
    """By default a turn like any other; with continue_final_message it goes on."""
    messages = [user(), {"role": "assistant", "content": "It rains in"}]
    assert send(router, messages).content == ANSWER
    assert last_prompt(engine).endswith("It rains in<|im_end|>\n<|im_start|>assistant\n")
    send(
        router,
        messages,
        extra_body={"continue_final_message": True, "add_generation_prompt": False},
    )
    assert last_prompt(engine).endswith("<|im_start|>assistant\nIt rains in")


def test_an_assistant_turn_alone(router: RouterProcess, engine: SimulatedEngine) -> None:
    assert send(router, [{"role": "assistant", "content": "Hello!"}]).content == ANSWER
    assert "Hello!" in last_prompt(engine)


def test_a_large_budget(router: RouterProcess, engine: SimulatedEngine) -> None:
    """32,000 tokens are what several agents ask for, whatever the context."""
    assert send(router, [user()], max_tokens=32_000).content == ANSWER
    assert 0 < engine.requests[-1].sampling_params.max_new_tokens <= 32_000


def test_no_tools_is_no_tools(router: RouterProcess, engine: SimulatedEngine) -> None:
    assert send(router, [user()], tools=[], tool_choice="auto").content == ANSWER
    assert "<tools>" not in last_prompt(engine)


def test_an_empty_user_turn(router: RouterProcess) -> None:
    assert send(router, [user("")]).content == ANSWER


def user(text: str = QUESTION) -> dict[str, Any]:
    return {"role": "user", "content": text}
