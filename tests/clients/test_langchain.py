"""LangChain's ChatOpenAI: it merges the pieces of calls by their index and id."""

from __future__ import annotations

import asyncio
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
    THOUGHT,
    TOOL,
    assert_results_went_back,
    schema_sent,
)
from tests.processes import RouterProcess

pytest.importorskip("langchain_openai", reason="LangChain is not installed (extra: clients)")

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI

pytestmark = [
    pytest.mark.usefixtures("any_chunks"),
    # pydantic, of what the SDK's stream helper gives LangChain.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]


class Report(BaseModel):
    """A report of the weather."""

    city: str
    celsius: int
    rain: bool


@pytest.fixture(scope="module")
def model(router: RouterProcess) -> Iterator[Any]:
    # With a connection pool of its own: LangChain shares one among all of its models.
    with openai.DefaultHttpxClient() as http:
        yield ChatOpenAI(
            model="tiny",
            base_url=f"{router.url}/v1",
            api_key="none",
            max_retries=0,
            stream_usage=True,
            http_client=http,
        )


def ask(model: Any, messages: list[Any], *, stream: bool) -> Any:
    """The message, at once or as the sum of its chunks, which is how LangChain joins them."""
    if not stream:
        return model.invoke(messages)
    first, *others = list(model.stream(messages))
    return sum(others, first)


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat(model: Any, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(ANSWER)
    engine.options.first_delay = 0.3
    message = ask(model, [SystemMessage("Be brief."), HumanMessage(QUESTION)], stream=stream)
    assert message.content == ANSWER
    assert message.response_metadata["finish_reason"] == "stop"
    assert message.response_metadata["model_name"] == "tiny"
    usage = message.usage_metadata
    assert usage["input_tokens"] == len(engine.requests[-1].tokenized.input_ids)
    assert usage["output_tokens"] > 0
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["output_token_details"]["reasoning"] == 0


@pytest.mark.parametrize("stream", [False, True])
def test_two_turns(model: Any, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{THINKS}I will look.\n{CALL}", ANSWER)
    bound = model.bind_tools([TOOL])
    messages: list[Any] = [HumanMessage(QUESTION)]
    message = ask(bound, messages, stream=stream)
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert message.invalid_tool_calls == []
    (call,) = message.tool_calls
    assert (call["name"], call["args"]) == ("weather", ARGUMENTS)
    messages += [message, ToolMessage(RESULT, tool_call_id=call["id"])]
    assert ask(bound, messages, stream=stream).content == ANSWER
    assert_results_went_back(engine)


@pytest.mark.parametrize("stream", [False, True])
def test_two_calls_at_once(model: Any, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{CALL}\n{OTHER_CALL}", ANSWER)
    bound = model.bind_tools([TOOL])
    messages: list[Any] = [HumanMessage(QUESTION)]
    message = ask(bound, messages, stream=stream)
    assert [call["args"] for call in message.tool_calls] == [ARGUMENTS, OTHER_ARGUMENTS]
    assert len({call["id"] for call in message.tool_calls}) == 2
    messages.append(message)
    for call, result in zip(message.tool_calls, [RESULT, OTHER_RESULT], strict=True):
        messages.append(ToolMessage(result, tool_call_id=call["id"]))
    assert ask(bound, messages, stream=stream).content == ANSWER
    assert_results_went_back(engine, parallel=True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_call_is_seen_to_be_cut(model: Any, engine: SimulatedEngine, stream: bool) -> None:
    """LangChain completes cut JSON; why the answer ended is all that tells."""
    engine.script(CALL)
    bound = model.bind_tools([TOOL]).bind(max_tokens=20)
    message = ask(bound, [HumanMessage(QUESTION)], stream=stream)
    assert message.response_metadata["finish_reason"] == "length"
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    assert [call["name"] for call in calls] == ["weather"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_an_answer_as_a_model(
    model: Any, engine: SimulatedEngine, method: str, stream: bool
) -> None:
    if method == "function_calling":
        engine.script(
            f'<tool_call>\n{{"name": "Report", "arguments": {REPORT_TEXT}}}\n</tool_call>'
        )
    else:
        engine.script(REPORT_TEXT)
    structured = model.with_structured_output(Report, method=method)
    if stream:
        *_, report = structured.stream(QUESTION)
    else:
        report = structured.invoke(QUESTION)
    assert report == Report.model_validate(REPORT)
    params = engine.requests[-1].sampling_params
    if method == "json_schema":
        assert schema_sent(engine)["required"] == ["city", "celsius", "rain"]
    elif method == "function_calling":
        assert "Report" in params.structural_tag
    else:
        assert schema_sent(engine) == {"type": "object"}


def test_a_forced_call(model: Any, engine: SimulatedEngine) -> None:
    engine.script(CALL)
    for choice in ("any", "weather", True):
        message = model.bind_tools([TOOL], tool_choice=choice).invoke(QUESTION)
        assert [call["args"] for call in message.tool_calls] == [ARGUMENTS]
        assert engine.requests[-1].sampling_params.structural_tag


def test_several_choices(model: Any, engine: SimulatedEngine) -> None:
    engine.script("first", "second")
    (generations,) = model.generate([[HumanMessage(QUESTION)]], n=2).generations
    assert {generation.text for generation in generations} == {"first", "second"}


def test_log_probabilities_in_a_stream(model: Any, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    message = ask(model.bind(logprobs=True), [HumanMessage(QUESTION)], stream=True)
    entries = message.response_metadata["logprobs"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode() == ANSWER


def test_many_at_once_without_threads(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)

    async def streamed(model: Any) -> str:
        text = ""
        async for chunk in model.astream(QUESTION):
            text += chunk.content
        return text

    async def run() -> list[str]:
        async with openai.DefaultAsyncHttpxClient() as http:
            model = ChatOpenAI(
                model="tiny", base_url=f"{router.url}/v1", api_key="none", http_async_client=http
            )
            return await asyncio.gather(*[streamed(model) for _ in range(10)])

    assert asyncio.run(run()) == [ANSWER] * 10


def test_an_earlier_turn_of_ones_own(model: Any, engine: SimulatedEngine) -> None:
    """A message made by hand, with fields that other providers put there."""
    engine.script(ANSWER)
    turn = AIMessage(
        content=[{"type": "text", "text": "I will look."}],
        additional_kwargs={"reasoning_content": THOUGHT},
        tool_calls=[{"name": "weather", "args": ARGUMENTS, "id": "call_1"}],
    )
    result = ToolMessage([{"type": "text", "text": RESULT}], tool_call_id="call_1")
    assert model.invoke([HumanMessage(QUESTION), turn, result]).content == ANSWER
    assert_results_went_back(engine)
