"""Pydantic AI: agents that loop over tools, and outputs that must validate."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import (
    ANSWER,
    CALL,
    OTHER_CALL,
    OTHER_RESULT,
    QUESTION,
    REPORT,
    REPORT_TEXT,
    RESULT,
    THINKS,
    THOUGHT,
    assert_results_went_back,
    last_prompt,
    schema_sent,
    written_call,
)
from tests.processes import RouterProcess

pytest.importorskip("pydantic_ai", reason="Pydantic AI is not installed (extra: clients)")

from pydantic_ai import Agent, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

pytestmark = pytest.mark.usefixtures("any_chunks")


class Report(BaseModel):
    """A report of the weather."""

    city: str
    celsius: int
    rain: bool


def weather(city: str, days: int = 0) -> str:
    """The weather in a city."""
    return RESULT if days == 2 else OTHER_RESULT


def ask(router: RouterProcess, *, stream: bool, **options: Any) -> Any:
    """What an agent comes to, and all messages on the way."""

    async def run() -> Any:
        # pydantic-ai shares its own connection pool among event loops, and does not close it.
        async with openai.AsyncOpenAI(
            base_url=f"{router.url}/v1", api_key="none", max_retries=0
        ) as client:
            model = OpenAIChatModel("tiny", provider=OpenAIProvider(openai_client=client))
            agent: Any = Agent(model, **options)
            if not stream:
                result = await agent.run(QUESTION)
                return result.output, result.all_messages()
            async with agent.run_stream(QUESTION) as result:
                return await result.get_output(), result.all_messages()

    return asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat(router: RouterProcess, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(THINKS + ANSWER)
    engine.options.first_delay = 0.3
    output, messages = ask(router, stream=stream, instructions="Be brief.")
    assert output.strip() == ANSWER
    thoughts = [part.content for part in messages[-1].parts if part.part_kind == "thinking"]
    assert "".join(thoughts).strip() == THOUGHT
    assert messages[-1].finish_reason == "stop"
    assert messages[-1].usage.input_tokens == len(engine.requests[-1].tokenized.input_ids)


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_over_tools(router: RouterProcess, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{THINKS}{CALL}\n{OTHER_CALL}", ANSWER)
    output, _ = ask(router, stream=stream, tools=[weather])
    assert output == ANSWER
    assert_results_went_back(engine, parallel=True)
    assert last_prompt(engine).count(THOUGHT) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("way", ["native", "tool", "prompted"])
def test_an_output_of_a_type(
    router: RouterProcess, engine: SimulatedEngine, way: str, stream: bool
) -> None:
    kinds = {"native": NativeOutput, "tool": ToolOutput, "prompted": PromptedOutput}
    as_call = written_call(REPORT, name="final_result")
    engine.script(CALL, as_call if way == "tool" else REPORT_TEXT)
    output, _ = ask(router, stream=stream, output_type=kinds[way](Report), tools=[weather])
    assert output == Report.model_validate(REPORT)
    assert last_prompt(engine).count(RESULT) == 1


def test_an_output_without_tools_is_held_to_its_schema(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script(REPORT_TEXT)
    output, _ = ask(router, stream=False, output_type=NativeOutput(Report))
    assert output == Report.model_validate(REPORT)
    assert schema_sent(engine)["required"] == ["city", "celsius", "rain"]


def test_an_output_that_does_not_validate_is_asked_for_again(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    reports = (REPORT | {"celsius": "warm"}, REPORT)
    engine.script(*[written_call(report, name="final_result") for report in reports])
    output, _ = ask(router, stream=False, output_type=ToolOutput(Report))
    assert output == Report.model_validate(REPORT)
    assert "warm" in last_prompt(engine)
