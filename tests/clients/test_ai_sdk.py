"""Vercel's AI SDK, which opencode and others are built on: it checks every chunk by a schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
    assert_results_went_back,
    last_prompt,
    schema_sent,
)
from tests.clients.node_checks import NodeChecks, node_checks
from tests.processes import RouterProcess

pytestmark = pytest.mark.usefixtures("any_chunks")


@pytest.fixture(scope="module")
def node(router: RouterProcess) -> Iterator[NodeChecks]:
    with node_checks("ai_sdk.mjs", f"{router.url}/v1") as checks:
        yield checks


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(THINKS + ANSWER)
    engine.options.first_delay = 0.3
    got = node("text", prompt=QUESTION, system="Be brief.", stream=stream)
    assert got["text"].strip() == ANSWER
    (step,) = got["steps"]
    assert step["reasoning"].strip() == THOUGHT
    assert step["finishReason"] == "stop"
    assert step["usage"]["inputTokens"] == len(engine.requests[-1].tokenized.input_ids)
    if stream:
        assert "error" not in got["types"]
        assert got["types"].count("text-start") == got["types"].count("reasoning-start") == 1


@pytest.mark.parametrize("stream", [False, True])
def test_steps_with_tools(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{THINKS}I will look.\n{CALL}\n{OTHER_CALL}", ANSWER)
    engine.options.token_delay = 0.005
    got = node("text", prompt=QUESTION, stream=stream, withTools=True)
    assert got["text"] == ANSWER
    first, second = got["steps"]
    # The next step is taken for this reason only.
    assert (first["finishReason"], second["finishReason"]) == ("tool-calls", "stop")
    assert [call["input"] for call in first["calls"]] == [ARGUMENTS, OTHER_ARGUMENTS]
    assert len({call["toolCallId"] for call in first["calls"]}) == 2
    assert first["results"] == [RESULT, OTHER_RESULT]
    assert_results_went_back(engine, parallel=True)
    # The AI SDK sends the thought back, as reasoning_content.
    assert last_prompt(engine).count(THOUGHT) == 1
    if stream:
        assert got["types"].count("tool-input-start") == 2
        assert got["types"].count("tool-input-end") == 2
        if engine.options.tokens_per_chunk == 1:
            assert got["types"].count("tool-input-delta") > 4


@pytest.mark.parametrize("stream", [False, True])
def test_an_object(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(THINKS + REPORT_TEXT)
    got = node("object", prompt=QUESTION, stream=stream)
    if stream:
        assert got["partial"][-1] == REPORT
        got = got["object"]
    assert got == REPORT
    assert schema_sent(engine)["required"] == ["city", "celsius", "rain"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_object_after_tools(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(CALL, REPORT_TEXT)
    got = node("text", prompt=QUESTION, stream=stream, withTools=True, asReport=True)
    assert got["output"] == REPORT
    assert_results_went_back(engine)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_answer(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(ANSWER)
    got = node("text", prompt=QUESTION, stream=stream, maxOutputTokens=3)
    assert got["steps"][0]["finishReason"] == "length"
    assert ANSWER.startswith(got["text"])


def test_a_large_budget(node: NodeChecks, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    assert node("text", prompt=QUESTION, maxOutputTokens=32_000)["text"] == ANSWER


def test_its_errors(node: NodeChecks, engine: SimulatedEngine) -> None:
    error = node.error("text", prompt=QUESTION, temperature=-1)
    assert (error["name"], error["statusCode"]) == ("AI_APICallError", 400)
    assert "temperature" in error["message"]
    assert not error["isRetryable"]
    engine.fault("fail,status=UNAVAILABLE")
    error = node.error("text", prompt=QUESTION)
    assert error["statusCode"] == 503
    assert error["isRetryable"]
    (said,) = node("text", prompt=QUESTION, stream=True)["errors"]
    assert "not available" in said


def test_a_stream_that_breaks(node: NodeChecks, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.fault("fail,after=1,status=INTERNAL,message=out of memory")
    got = node("text", prompt=QUESTION, stream=True)
    assert "error" in got["types"]
    assert "out of memory" in got["errors"][0]


def test_a_stream_that_is_aborted_ends_the_engines_work(
    node: NodeChecks, engine: SimulatedEngine
) -> None:
    engine.script("word " * 500)
    engine.options.token_delay = 0.05
    cancelled = len(engine.cancelled)
    node("abort", prompt=QUESTION)
    engine.wait_until(lambda: len(engine.cancelled) == cancelled + 1 and engine.active == 0)
