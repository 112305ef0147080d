"""LiteLLM's SDK, which other gateways and many agents are built on."""

from __future__ import annotations

import asyncio
import json
import os
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
    last_prompt,
    schema_sent,
)
from tests.processes import RouterProcess

# Importing LiteLLM fetches a list of prices otherwise.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
pytest.importorskip("litellm", reason="LiteLLM is not installed (extra: clients)")

import litellm

pytestmark = [
    pytest.mark.usefixtures("any_chunks"),
    # pydantic, of LiteLLM's types and of how it reads them.
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_:DeprecationWarning"),
]


class Report(BaseModel):
    city: str
    celsius: int
    rain: bool


@pytest.fixture(scope="module", autouse=True)
def _all_closed() -> Iterator[None]:
    """Closes what LiteLLM leaves open: it looks for an event loop, and keeps its clients."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
    for client in litellm.in_memory_llm_clients_cache.cache_dict.values():
        if isinstance(client, openai.OpenAI):
            client.close()


def ask(router: RouterProcess, messages: list[Any], *, stream: bool, **options: Any) -> Any:
    """The response, at once or as LiteLLM builds it from the chunks."""
    answer = litellm.completion(
        model="openai/tiny",
        api_base=f"{router.url}/v1",
        api_key="none",
        messages=messages,
        stream=stream,
        max_retries=0,
        **({"stream_options": {"include_usage": True}} if stream else {}),
        **options,
    )
    return litellm.stream_chunk_builder(list(answer), messages=messages) if stream else answer


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat(router: RouterProcess, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(THINKS + ANSWER)
    engine.options.first_delay = 0.3
    response = ask(router, [{"role": "user", "content": QUESTION}], stream=stream)
    (choice,) = response.choices
    assert choice.message.content.strip() == ANSWER
    assert choice.message.reasoning_content.strip() == THOUGHT
    assert choice.finish_reason == "stop"
    usage = response.usage
    assert usage.prompt_tokens == len(engine.requests[-1].tokenized.input_ids)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_two_turns(router: RouterProcess, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{THINKS}I will look.\n{CALL}\n{OTHER_CALL}", ANSWER)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    (choice,) = ask(router, messages, stream=stream, tools=[TOOL]).choices
    assert choice.finish_reason == "tool_calls"
    calls = choice.message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [ARGUMENTS, OTHER_ARGUMENTS]
    messages.append(choice.message.model_dump())
    for call, result in zip(calls, [RESULT, OTHER_RESULT], strict=True):
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    response = ask(router, messages, stream=stream, tools=[TOOL])
    assert response.choices[0].message.content == ANSWER
    assert_results_went_back(engine, parallel=True)
    # What the model thought goes back with its calls.
    assert last_prompt(engine).count(THOUGHT) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("as_model", [False, True])
def test_an_answer_of_a_schema(
    router: RouterProcess, engine: SimulatedEngine, stream: bool, as_model: bool
) -> None:
    engine.script(REPORT_TEXT)
    response_format: Any = Report
    if not as_model:
        response_format = {
            "type": "json_schema",
            "json_schema": {"name": "report", "schema": Report.model_json_schema()},
        }
    response = ask(
        router,
        [{"role": "user", "content": QUESTION}],
        stream=stream,
        response_format=response_format,
    )
    assert json.loads(response.choices[0].message.content) == REPORT
    assert schema_sent(engine)["required"] == ["city", "celsius", "rain"]


def test_its_errors(router: RouterProcess, engine: SimulatedEngine) -> None:
    messages = [{"role": "user", "content": QUESTION}]
    with pytest.raises(litellm.BadRequestError):
        ask(router, messages, stream=False, temperature=-1)
    with pytest.raises(litellm.ContextWindowExceededError):
        ask(router, [{"role": "user", "content": "word " * 40_000}], stream=False)
    engine.fault("fail,status=UNAVAILABLE")
    with pytest.raises(litellm.ServiceUnavailableError):
        ask(router, messages, stream=False)
    engine.fault("fail,status=RESOURCE_EXHAUSTED")
    with pytest.raises(litellm.RateLimitError):
        ask(router, messages, stream=False)


def test_a_stream_that_breaks(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.fault("fail,after=1,status=INTERNAL,message=out of memory")
    with pytest.raises(litellm.exceptions.MidStreamFallbackError, match="out of memory"):
        ask(router, [{"role": "user", "content": QUESTION}], stream=True)


def test_many_at_once_without_threads(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)

    async def streamed(client: openai.AsyncOpenAI) -> str:
        answer = await litellm.acompletion(
            model="openai/tiny",
            client=client,
            messages=[{"role": "user", "content": QUESTION}],
            stream=True,
        )
        text = ""
        async for chunk in answer:
            text += chunk.choices[0].delta.content or ""
        return text

    async def run() -> list[str]:
        # LiteLLM's own clients are closed at the end of the process, and of no event loop.
        async with openai.AsyncOpenAI(base_url=f"{router.url}/v1", api_key="none") as client:
            return await asyncio.gather(*[streamed(client) for _ in range(10)])

    assert asyncio.run(run()) == [ANSWER] * 10
