"""openai-python: tools in two turns, and answers as pydantic models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import (
    ANSWER,
    ARGUMENTS,
    CALL,
    OTHER_ARGUMENTS,
    OTHER_CALL,
    OTHER_RESULT,
    QUESTION,
    REPORT,
    REPORT_TEXT,
    RESULT,
    THINKS,
    TOOL,
    assert_results_went_back,
    last_prompt,
    schema_sent,
    written_call,
)
from tests.processes import RouterProcess

TOOLS: Any = [TOOL]


class Report(BaseModel):
    city: str
    celsius: int
    rain: bool


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    days: int


@pytest.fixture
def client(router: RouterProcess) -> Iterator[openai.OpenAI]:
    with router.openai() as client:
        yield client


def ask(client: openai.OpenAI, messages: Any, *, stream: bool, **options: Any) -> Any:
    """The completion, from one response or from the joined events of a stream."""
    if not stream:
        return client.chat.completions.create(model="tiny", messages=messages, **options)
    with client.chat.completions.stream(model="tiny", messages=messages, **options) as events:
        return events.get_final_completion()


@pytest.mark.usefixtures("any_chunks")
@pytest.mark.parametrize("stream", [False, True])
def test_two_turns(client: openai.OpenAI, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"I will look.\n{CALL}", ANSWER)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    completion = ask(client, messages, stream=stream, tools=TOOLS)
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name) == ("function", "weather")
    assert json.loads(call.function.arguments) == ARGUMENTS
    # The message goes back as the client made it, with all fields it found in the answer.
    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    completion = ask(client, messages, stream=stream, tools=TOOLS)
    assert completion.choices[0].message.content == ANSWER
    assert completion.choices[0].finish_reason == "stop"
    assert_results_went_back(engine)
    assert last_prompt(engine).count("I will look.") == 1


@pytest.mark.usefixtures("any_chunks")
@pytest.mark.parametrize("stream", [False, True])
def test_two_calls_at_once(client: openai.OpenAI, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{THINKS}{CALL}\n{OTHER_CALL}", ANSWER)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    message = ask(client, messages, stream=stream, tools=TOOLS).choices[0].message
    found = [json.loads(call.function.arguments) for call in message.tool_calls]
    assert found == [ARGUMENTS, OTHER_ARGUMENTS]
    assert len({call.id for call in message.tool_calls}) == 2
    messages.append(message)
    for call, result in zip(message.tool_calls, [RESULT, OTHER_RESULT], strict=True):
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert ask(client, messages, stream=stream, tools=TOOLS).choices[0].message.content == ANSWER
    assert_results_went_back(engine, parallel=True)


@pytest.mark.usefixtures("any_chunks")
def test_the_helper_tells_of_arguments_as_they_come(
    client: openai.OpenAI, engine: SimulatedEngine
) -> None:
    engine.script(f"{CALL}\n{OTHER_CALL}")
    engine.options.token_delay = 0.005
    with client.chat.completions.stream(
        model="tiny", messages=[{"role": "user", "content": QUESTION}], tools=TOOLS
    ) as stream:
        events = list(stream)
    deltas = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [event.index for event in done] == [0, 1]
    assert {event.name for event in deltas} == {"weather"}
    for event in done:
        pieces = [delta.arguments_delta for delta in deltas if delta.index == event.index]
        assert "".join(pieces) == event.arguments
        if engine.options.tokens_per_chunk == 1:
            assert len(pieces) > 2
    assert [json.loads(event.arguments) for event in done] == [ARGUMENTS, OTHER_ARGUMENTS]


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_made_from_a_model(
    client: openai.OpenAI, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script(written_call(ARGUMENTS, name="Weather"))
    options: Any = {
        "model": "tiny",
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [openai.pydantic_function_tool(Weather)],
    }
    if stream:
        with client.chat.completions.stream(**options) as events:
            completion = events.get_final_completion()
    else:
        completion = client.chat.completions.parse(**options)
    (call,) = completion.choices[0].message.tool_calls or []
    assert call.function.parsed_arguments == Weather.model_validate(ARGUMENTS)
    # Such tools are strict: the engine holds calls to their schema.
    tag = json.loads(engine.requests[-1].sampling_params.structural_tag)
    assert "Weather" in json.dumps(tag)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": ""}}])
def test_a_call_that_must_come(
    client: openai.OpenAI, engine: SimulatedEngine, stream: bool, choice: Any
) -> None:
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": "weather"}}
    engine.script(CALL)
    messages = [{"role": "user", "content": QUESTION}]
    completion = ask(client, messages, stream=stream, tools=TOOLS, tool_choice=choice)
    (call,) = completion.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == ARGUMENTS
    assert completion.choices[0].finish_reason == "tool_calls"
    assert engine.requests[-1].sampling_params.structural_tag


@pytest.mark.usefixtures("any_chunks")
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_as_a_model(client: openai.OpenAI, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(THINKS + REPORT_TEXT)
    options: Any = {
        "model": "tiny",
        "messages": [{"role": "user", "content": QUESTION}],
        "response_format": Report,
    }
    if stream:
        with client.chat.completions.stream(**options) as events:
            snapshots = [event.parsed for event in events if event.type == "content.delta"]
            completion = events.get_final_completion()
        assert snapshots
    else:
        completion = client.chat.completions.parse(**options)
    message = completion.choices[0].message
    assert message.parsed == Report.model_validate(REPORT)
    assert schema_sent(engine)["required"] == ["city", "celsius", "rain"]


def test_a_cut_answer_is_no_model(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(REPORT_TEXT)
    with pytest.raises(openai.LengthFinishReasonError) as caught:
        client.chat.completions.parse(
            model="tiny",
            messages=[{"role": "user", "content": QUESTION}],
            response_format=Report,
            max_tokens=5,
        )
    assert caught.value.completion.choices[0].finish_reason == "length"


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_call_is_told_to_be_cut(
    client: openai.OpenAI, engine: SimulatedEngine, stream: bool
) -> None:
    """Some clients repair cut arguments and run the call: they must be able to see it."""
    engine.script(CALL)
    messages = [{"role": "user", "content": QUESTION}]
    options: Any = {"tools": TOOLS, "max_tokens": 20}
    if stream:
        # The helper refuses to hand over what is cut.
        with pytest.raises(openai.LengthFinishReasonError) as caught:
            ask(client, messages, stream=True, **options)
        completion: Any = caught.value.completion
    else:
        completion = ask(client, messages, stream=False, **options)
    (choice,) = completion.choices
    assert choice.finish_reason == "length"
    (call,) = choice.message.tool_calls
    whole = json.dumps(ARGUMENTS, ensure_ascii=False)
    assert whole.startswith(call.function.arguments)
    assert call.function.arguments != whole
