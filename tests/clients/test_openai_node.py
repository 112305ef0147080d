"""openai for Node: answers, streams, its tool runner, and answers of a zod schema."""

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
    QUESTION,
    REPORT,
    REPORT_TEXT,
    THINKS,
    THOUGHT,
    assert_results_went_back,
    schema_sent,
)
from tests.clients.node_checks import NodeChecks, node_checks
from tests.processes import RouterProcess, finish_reason, joined

pytestmark = pytest.mark.usefixtures("any_chunks")


@pytest.fixture(scope="module")
def node(router: RouterProcess) -> Iterator[NodeChecks]:
    with node_checks("openai_sdk.mjs", f"{router.url}/v1") as checks:
        yield checks


def test_a_chat(node: NodeChecks, engine: SimulatedEngine) -> None:
    engine.script(THINKS + ANSWER)
    completion = node("chat", question=QUESTION)
    (choice,) = completion["choices"]
    assert choice["message"]["content"].strip() == ANSWER
    assert choice["message"]["reasoning_content"].strip() == THOUGHT
    assert choice["finish_reason"] == "stop"


def test_a_stream(node: NodeChecks, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    engine.options.first_delay = 0.3
    chunks = node("stream", question=QUESTION)
    assert joined(chunks) == ANSWER
    assert finish_reason(chunks) == "stop"


def test_the_stream_helper(node: NodeChecks, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    got = node("helper", question=QUESTION, stream_options={"include_usage": True})
    assert got["text"] == got["completion"]["choices"][0]["message"]["content"] == ANSWER
    assert got["completion"]["choices"][0]["finish_reason"] == "stop"
    assert got["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("stream", [False, True])
def test_the_tool_runner(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(f"{THINKS}I will look.\n{CALL}\n{OTHER_CALL}", ANSWER)
    got = node("runTools", question=QUESTION, stream=stream)
    assert got["content"] == ANSWER
    assert got["called"] == [ARGUMENTS, OTHER_ARGUMENTS]
    roles = [message["role"] for message in got["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]
    assert_results_went_back(engine, parallel=True)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_of_a_schema(node: NodeChecks, engine: SimulatedEngine, stream: bool) -> None:
    engine.script(THINKS + REPORT_TEXT)
    assert node("parse", question=QUESTION, stream=stream) == REPORT
    assert schema_sent(engine)["required"] == ["city", "celsius", "rain"]


def test_its_errors(node: NodeChecks, engine: SimulatedEngine) -> None:
    for check in ("chat", "stream"):
        error = node.error(check, question=QUESTION, temperature=-1)
        assert error["kind"] == "BadRequestError"
        assert (error["status"], error["param"]) == (400, "temperature")
        error = node.error(check, question="word " * 40_000)
        assert error["code"] == "context_length_exceeded"
        engine.fault("fail,status=RESOURCE_EXHAUSTED,times=1")
        assert node.error(check, question=QUESTION)["kind"] == "RateLimitError"


def test_a_stream_that_breaks(node: NodeChecks, engine: SimulatedEngine) -> None:
    engine.script(ANSWER)
    for check in ("stream", "helper"):
        engine.fault("fail,after=1,status=INTERNAL,message=out of memory,times=1")
        error = node.error(check, question=QUESTION)
        assert "out of memory" in error["message"]


def test_a_stream_that_is_left_ends_the_engines_work(
    node: NodeChecks, engine: SimulatedEngine
) -> None:
    engine.script("word " * 500)
    engine.options.token_delay = 0.05
    cancelled = len(engine.cancelled)
    node("abort", question=QUESTION)
    engine.wait_until(lambda: len(engine.cancelled) == cancelled + 1 and engine.active == 0)


def test_the_models(node: NodeChecks) -> None:
    assert node("models") == ["tiny"]
