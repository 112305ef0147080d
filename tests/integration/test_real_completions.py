"""Text completions against a real engine; see test_real_engine.py."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.test_completions import LISTS, choices_of, streamed, whole
from tests.integration.test_real_engine import (
    pytestmark,
    real_engine,
    real_router,
    start_real,
)
from tests.processes import RouterProcess

__all__ = ["pytestmark", "real_engine", "real_router", "start_real"]

# As RouterProcess's default; a model of another name may be all there is.
GREEDY: dict[str, Any] = {"model": None, "temperature": 0, "ignore_eos": True}
TEXT = "The licence says that anybody may copy it, 日本語 included."


def ids_of(router: RouterProcess, text: str) -> list[int]:
    found: list[int] = router.http.post("/tokenize", json={"prompt": text}).json()["tokens"]
    return found


@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_is_the_whole_answer(real_router: RouterProcess, echo: bool) -> None:
    fields = {**GREEDY, "max_tokens": 24, "logprobs": 2, "echo": echo}
    body = whole(real_router, TEXT, **fields)
    events = streamed(real_router, TEXT, **fields, stream_options={"include_usage": True})
    (choice,) = body["choices"]
    (joined,) = choices_of(events, logprobs=True)
    for name in ("text", "finish_reason", "matched_stop"):
        assert joined[name] == choice[name]
    for name in ("tokens", "text_offset"):
        assert joined["logprobs"][name] == choice["logprobs"][name]
    usage = events[-1]["usage"]
    assert usage["completion_tokens"] == body["usage"]["completion_tokens"] == 24
    assert usage["prompt_tokens"] == body["usage"]["prompt_tokens"]
    tokens = 24 + (usage["prompt_tokens"] if echo else 0)
    assert {len(choice["logprobs"][name]) for name in LISTS} == {tokens}


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_is_scored_and_nothing_made(real_router: RouterProcess, stream: bool) -> None:
    fields = {**GREEDY, "max_tokens": 0, "logprobs": 3, "echo": True, "ignore_eos": False}
    if stream:
        options = {"include_usage": True}
        events = streamed(real_router, TEXT, **fields, stream_options=options)
        (choice,), usage = choices_of(events, logprobs=True), events[-1]["usage"]
    else:
        body = whole(real_router, TEXT, **fields)
        (choice,), usage = body["choices"], body["usage"]
    assert (choice["text"], choice["finish_reason"]) == (TEXT, "length")
    assert usage["completion_tokens"] == 0
    logprobs = choice["logprobs"]
    assert {len(logprobs[name]) for name in LISTS} == {usage["prompt_tokens"]}
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    for token, score, top in zip(
        logprobs["tokens"][1:],
        logprobs["token_logprobs"][1:],
        logprobs["top_logprobs"][1:],
        strict=True,
    ):
        assert -40 < score <= 0
        assert 3 <= len(top) <= 4
        assert top[token] == score
        assert max(top.values()) >= score


def test_an_answer_scores_as_it_was_made(real_router: RouterProcess) -> None:
    prompt = ids_of(real_router, TEXT)
    fields = {"logprobs": 1, "skip_special_tokens": False, **GREEDY}
    (made,) = whole(real_router, prompt, max_tokens=12, **fields)["choices"]
    text = made["text"]
    (scored,) = whole(real_router, TEXT, max_tokens=12, echo=True, **fields)["choices"]
    assert scored["text"] == TEXT + text
    assert scored["logprobs"]["tokens"][-12:] == made["logprobs"]["tokens"]
    assert scored["logprobs"]["text_offset"][-12:] == made["logprobs"]["text_offset"]
    # The same sums in another order: a prefix from the cache or not.
    assert scored["logprobs"]["token_logprobs"][-12:] == pytest.approx(
        made["logprobs"]["token_logprobs"], abs=0.1
    )


@pytest.mark.parametrize("stream", [False, True])
def test_many_prompts_are_answered_each_as_alone(real_router: RouterProcess, stream: bool) -> None:
    prompts = [TEXT, "One", TEXT[:20]]
    fields = {**GREEDY, "max_tokens": 8}
    alone = [whole(real_router, each, **fields) for each in prompts]
    if stream:
        events = streamed(real_router, prompts, **fields, stream_options={"include_usage": True})
        choices, usage = choices_of(events), events[-1]["usage"]
    else:
        body = whole(real_router, prompts, **fields)
        choices, usage = body["choices"], body["usage"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    # Greedy answers of a batch may part from those alone, but hardly at the first token.
    for choice, one in zip(choices, alone, strict=True):
        assert choice["text"][:1] == one["choices"][0]["text"][:1]
    assert usage["completion_tokens"] == 24
    assert usage["prompt_tokens"] == sum(one["usage"]["prompt_tokens"] for one in alone)


def test_the_best_of_several_have_the_best_means(real_router: RouterProcess) -> None:
    fields = {**GREEDY, "temperature": 2, "max_tokens": 8, "logprobs": 0}
    body = whole(real_router, TEXT, best_of=4, n=2, **fields)
    means = [sum(choice["logprobs"]["token_logprobs"]) / 8 for choice in body["choices"]]
    assert len(means) == 2
    assert means == sorted(means, reverse=True)
    assert body["usage"]["completion_tokens"] == 4 * 8
