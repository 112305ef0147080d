"""Chat completions end to end: openai client, gunicorn, Falcon, gRPC, engine."""

from __future__ import annotations

import pytest

from sglrouter.sim import SimulatedEngine
from tests.processes import RouterProcess, finish_reason, joined

FAMILY = "naïve 👩‍👩‍👧‍👦 family 🚀, 日本語 and \u2028 ends"


def test_the_openai_client_streams(router: RouterProcess) -> None:
    stream = router.openai().chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        temperature=0,
        stream=True,
    )
    chunks = list(stream)
    assert "Paris" in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:])
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "stop"]
    assert all(chunk.usage is None for chunk in chunks)
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1


def test_the_openai_client_gets_a_completion(router: RouterProcess) -> None:
    completion = router.openai().chat.completions.create(
        model="tiny",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        temperature=0,
    )
    assert "Paris" in (completion.choices[0].message.content or "")
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == (
        completion.usage.prompt_tokens + completion.usage.completion_tokens
    )


@pytest.mark.parametrize("stream", [False, True])
def test_two_choices_come_from_two_calls(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script("first answer", "the second")
    before = len(engine.requests)
    if stream:
        events = router.stream(n=2, stream_options={"include_usage": True})
        answers = {joined(events, 0), joined(events, 1)}
        assert finish_reason(events, 0) == finish_reason(events, 1) == "stop"
        usage = events[-1]["usage"]
    else:
        body = router.chat(n=2).json()
        assert [choice["index"] for choice in body["choices"]] == [0, 1]
        answers = {choice["message"]["content"] for choice in body["choices"]}
        usage = body["usage"]
    assert answers == {"first answer", "the second"}
    calls = engine.requests[before:]
    assert [call.sampling_params.n for call in calls] == [1, 1]
    assert len({call.request_id for call in calls}) == 2
    # The prompt counts once, the answers add up (each with its EOS).
    assert usage["prompt_tokens"] == len(calls[0].tokenized.input_ids)
    assert usage["completion_tokens"] > 4


@pytest.mark.parametrize("tokens", [1, 3, 8])
def test_text_is_the_same_however_it_is_chunked(
    router: RouterProcess, engine: SimulatedEngine, tokens: int
) -> None:
    engine.script(FAMILY)
    engine.options.tokens_per_chunk = tokens
    try:
        events = router.stream()
        assert joined(events) == FAMILY
        assert router.chat().json()["choices"][0]["message"]["content"] == FAMILY
    finally:
        engine.options.tokens_per_chunk = 1


def test_usage_comes_only_when_asked_for(router: RouterProcess) -> None:
    assert all("usage" not in event for event in router.stream())
    events = router.stream(stream_options={"include_usage": True})
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stop", "text", "matched"),
    [("answer", "first ", "answer"), (["zzz", " is"], "first answer", " is"), ("zzz", None, None)],
)
def test_stop_strings_end_the_text(
    router: RouterProcess,
    engine: SimulatedEngine,
    stop: str | list[str],
    text: str | None,
    matched: str | None,
    stream: bool,
) -> None:
    whole = "first answer is here"
    engine.script(whole)
    if stream:
        events = router.stream(stop=stop)
        content, choice = joined(events), events[-1]["choices"][0]
    else:
        choice = router.chat(stop=stop).json()["choices"][0]
        content = choice["message"]["content"]
    assert content == (whole if text is None else text)
    assert choice["finish_reason"] == "stop"
    if matched:
        assert choice["matched_stop"] == matched


def test_a_cut_character_shows_as_one_replacement(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("🚀")
    whole = router.chat(max_tokens=1).json()["choices"][0]
    events = router.stream(max_tokens=1)
    assert whole["message"]["content"] == joined(events) == "\ufffd"
    assert whole["finish_reason"] == finish_reason(events) == "length"


def test_the_first_chunk_comes_before_the_last_token(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three four five six")
    engine.options.token_delay = 0.1
    try:
        stream = router.openai().chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "x"}], stream=True
        )
        next(iter(stream))
        assert engine.active == 1
        list(stream)
    finally:
        engine.options.token_delay = 0.0
