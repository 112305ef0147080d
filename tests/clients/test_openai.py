"""openai-python: answers, streams, several choices, log probabilities, raw responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import ANSWER, QUESTION, THINKS, THOUGHT, last_prompt
from tests.clients.event_stream import EventStreamReader
from tests.processes import RouterProcess

MESSAGES: Any = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def client(router: RouterProcess) -> Iterator[openai.OpenAI]:
    with router.openai() as client:
        yield client


def test_a_chat(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    completion = client.chat.completions.create(model="tiny", messages=MESSAGES)
    assert completion.id.startswith("chatcmpl-")
    assert (completion.object, completion.model) == ("chat.completion", "tiny")
    (choice,) = completion.choices
    assert (choice.index, choice.finish_reason) == (0, "stop")
    assert (choice.message.role, choice.message.content) == ("assistant", ANSWER)
    assert choice.message.tool_calls is None
    usage = completion.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.completion_tokens_details is not None
    assert usage.prompt_tokens == len(engine.requests[-1].tokenized.input_ids)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.usefixtures("any_chunks")
def test_a_stream(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(THINKS + ANSWER)
    engine.options.first_delay = 0.3
    options: Any = {"include_usage": True}
    with client.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options=options
    ) as stream:
        *chunks, last = list(stream)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens > 0
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas).strip() == ANSWER
    reasoning = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert reasoning.strip() == THOUGHT
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.usefixtures("any_chunks")
def test_the_stream_helper(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    with client.chat.completions.stream(
        model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=1
    ) as stream:
        events = list(stream)
        final = stream.get_final_completion()
    deltas = [event for event in events if event.type == "content.delta"]
    assert "".join(event.delta for event in deltas) == ANSWER
    assert deltas[-1].snapshot == ANSWER
    (done,) = [event for event in events if event.type == "content.done"]
    assert done.content == ANSWER
    (logprobs,) = [event for event in events if event.type == "logprobs.content.done"]
    assert b"".join(bytes(entry.bytes or []) for entry in logprobs.content).decode() == ANSWER
    assert final.choices[0].message.content == ANSWER
    assert final.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_several_choices(client: openai.OpenAI, engine: SimulatedEngine, stream: bool) -> None:
    engine.script("first", "second", "third")
    if stream:
        with client.chat.completions.stream(model="tiny", messages=MESSAGES, n=3) as events:
            final: Any = events.get_final_completion()
    else:
        final = client.chat.completions.create(model="tiny", messages=MESSAGES, n=3)
    assert [choice.index for choice in final.choices] == [0, 1, 2]
    contents = {choice.message.content for choice in final.choices}
    assert contents == {"first", "second", "third"}


def test_log_probabilities(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    completion = client.chat.completions.create(
        model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=2
    )
    logprobs = completion.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert b"".join(bytes(entry.bytes or []) for entry in logprobs.content).decode() == ANSWER
    for entry in logprobs.content:
        assert entry.logprob <= 0
        first, second = entry.top_logprobs
        assert (first.token, first.logprob) == (entry.token, entry.logprob)
        assert second.logprob <= first.logprob


def test_raw_responses(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    raw = client.chat.completions.with_raw_response.create(
        model="tiny", messages=MESSAGES, seed=7, temperature=0
    )
    assert raw.status_code == 200
    assert raw.headers["content-type"].startswith("application/json")
    assert raw.headers["x-sglrouter-ignored"] == "seed"
    assert raw.parse().choices[0].message.content == ANSWER
    assert json.loads(raw.text)["choices"][0]["message"]["content"] == ANSWER


def test_streaming_responses(client: openai.OpenAI, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    with client.chat.completions.with_streaming_response.create(
        model="tiny", messages=MESSAGES, stream=True
    ) as response:
        reader = EventStreamReader()
        body = "".join(line + "\n" for line in response.iter_lines())
        datas = [event.data or "" for event in reader.feed(body.encode())]
    assert datas[-1] == "[DONE]"
    chunks = [json.loads(data) for data in datas[:-1]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == ANSWER


def test_many_at_once_without_threads(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.options.token_delay = 0.002

    async def whole(client: openai.AsyncOpenAI) -> str:
        completion = await client.chat.completions.create(model="tiny", messages=MESSAGES)
        return completion.choices[0].message.content or ""

    async def streamed(client: openai.AsyncOpenAI) -> str:
        text = ""
        stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
        return text

    async def helped(client: openai.AsyncOpenAI) -> str:
        async with client.chat.completions.stream(model="tiny", messages=MESSAGES) as stream:
            final = await stream.get_final_completion()
        return final.choices[0].message.content or ""

    async def run() -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=f"{router.url}/v1", api_key="none", max_retries=0
        ) as client:
            calls = [each(client) for _ in range(10) for each in (whole, streamed, helped)]
            return await asyncio.gather(*calls)

    assert asyncio.run(run()) == [ANSWER] * 30


def test_the_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert (model.id, model.object) == ("tiny", "model")
    assert client.models.retrieve("tiny").id == "tiny"


@pytest.mark.parametrize("stream", [False, True])
def test_a_stream_that_is_closed_ends_the_engines_work(
    client: openai.OpenAI, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script("word " * 500)
    engine.options.token_delay = 0.01
    cancelled = len(engine.cancelled)
    if stream:
        events = client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        for chunk in events:
            if chunk.choices[0].delta.content:
                break
        events.close()
    else:
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="tiny", messages=MESSAGES, timeout=0.2)
    engine.wait_until(lambda: len(engine.cancelled) == cancelled + 1 and engine.active == 0)


def test_everything_the_sdk_knows_is_accepted(
    client: openai.OpenAI, engine: SimulatedEngine
) -> None:
    """What the engine cannot do is no reason for a 400."""
    # The effort is a switch of reasoning: the prompt opens the thought.
    engine.script(f"{THOUGHT}</think>{ANSWER}")
    completion = client.chat.completions.create(
        model="tiny",
        messages=MESSAGES,
        audio=None,
        extra_body={"vendor_option": {"deep": [1]}, "top_k": 20, "session_id": "s"},
        extra_headers={"X-Title": "test", "Helicone-Auth": "none"},
        extra_query={"api-version": "2024-10-21"},
        frequency_penalty=0.1,
        logit_bias={"5": -1},
        max_completion_tokens=32_000,
        metadata={"purpose": "test"},
        modalities=["text"],
        parallel_tool_calls=True,
        prediction={"type": "content", "content": "It rains"},
        presence_penalty=0.1,
        prompt_cache_key="k",
        reasoning_effort="low",
        safety_identifier="s",
        seed=1,
        service_tier="auto",
        stop=["<never>"],
        store=False,
        temperature=0.5,
        top_p=0.9,
        user="u",
        verbosity="low",
    )
    message = completion.choices[0].message
    assert (message.content, getattr(message, "reasoning_content", None)) == (ANSWER, THOUGHT)
    assert last_prompt(engine).count(QUESTION) == 1
