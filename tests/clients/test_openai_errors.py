"""openai-python: which exception comes, what it says, and what is tried again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from sglrouter.sim import SimulatedEngine
from tests.clients.conversation import ANSWER, QUESTION
from tests.processes import RouterProcess, joined

MESSAGES: Any = [{"role": "user", "content": QUESTION}]


@pytest.fixture
def client(router: RouterProcess) -> Iterator[openai.OpenAI]:
    with router.openai() as client:
        yield client


def create(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(**({"model": "tiny", "messages": MESSAGES} | fields))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": 5}}]}, "tools"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"messages": []}, "messages"),
    ],
)
def test_a_bad_request_says_what_to_change(
    client: openai.OpenAI, fields: dict[str, Any], param: str, stream: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, stream=stream, **fields)
    error = caught.value
    assert error.status_code == 400
    assert error.type == "invalid_request_error"
    assert error.param is not None
    assert error.param.startswith(param)
    assert isinstance(error.body, dict)
    assert set(error.body) == {"message", "type", "param", "code"}
    assert error.body["message"] in error.message


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_does_not_fit(client: openai.OpenAI, stream: bool) -> None:
    """Agents shorten the conversation when they see this code, or these words."""
    with pytest.raises(openai.BadRequestError) as caught:
        create(client, messages=[{"role": "user", "content": "word " * 40_000}], stream=stream)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.param == "messages"
    assert "maximum context length is" in caught.value.message


def test_max_tokens_beyond_the_context_are_no_error(
    client: openai.OpenAI, engine: SimulatedEngine
) -> None:
    engine.script(ANSWER)
    for name in ("max_tokens", "max_completion_tokens"):
        completion = create(client, **{name: 10_000_000})
        assert completion.choices[0].message.content == ANSWER


@pytest.mark.parametrize("after", [1, 5])
def test_a_stream_that_breaks(client: openai.OpenAI, engine: SimulatedEngine, after: int) -> None:
    engine.script(ANSWER)
    engine.fault(f"fail,after={after},status=INTERNAL,message=out of memory,times=1")
    chunks: list[Any] = []
    with pytest.raises(openai.APIError) as caught:
        chunks.extend(create(client, stream=True))
    assert ANSWER.startswith(joined([chunk.to_dict() for chunk in chunks]))
    assert "out of memory" in caught.value.message
    assert caught.value.code == "engine_error"
    assert caught.value.type == "server_error"


def test_a_stream_that_breaks_under_the_helper(
    client: openai.OpenAI, engine: SimulatedEngine
) -> None:
    engine.script(ANSWER)
    engine.fault("fail,after=3,status=INTERNAL,times=1")
    with (
        pytest.raises(openai.APIError),
        client.chat.completions.stream(model="tiny", messages=MESSAGES) as stream,
    ):
        stream.get_final_completion()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("UNAVAILABLE", openai.InternalServerError),
        ("RESOURCE_EXHAUSTED", openai.RateLimitError),
        ("INTERNAL", openai.InternalServerError),
        ("INVALID_ARGUMENT", openai.BadRequestError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_the_engine_refuses(
    client: openai.OpenAI,
    engine: SimulatedEngine,
    status: str,
    error: type[openai.APIStatusError],
    stream: bool,
) -> None:
    engine.fault(f"fail,status={status},message=no")
    with pytest.raises(error) as caught:
        create(client, stream=stream)
    assert isinstance(caught.value.body, dict)
    assert caught.value.code


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", ["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
def test_an_engine_that_comes_back_is_tried_again(
    router: RouterProcess, engine: SimulatedEngine, status: str, stream: bool
) -> None:
    """After the second that Retry-After says, not after the SDK's own half."""
    engine.script(ANSWER)
    engine.fault(f"fail,status={status},times=1")
    began = time.monotonic()
    with openai.OpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=1) as client:
        answer = create(client, stream=stream)
        if stream:
            text = joined([chunk.to_dict() for chunk in answer])
        else:
            text = answer.choices[0].message.content
    assert text == ANSWER
    assert time.monotonic() - began >= 1.0


def test_a_bad_request_is_not_tried_again(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.fault("fail,status=INVALID_ARGUMENT")
    before = len(engine.requests)
    with (
        openai.OpenAI(base_url=f"{router.url}/v1", api_key="none", max_retries=3) as client,
        pytest.raises(openai.BadRequestError),
    ):
        create(client)
    assert len(engine.requests) == before + 1


def test_a_model_that_is_not_there(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("other")
    assert isinstance(caught.value.body, dict)
