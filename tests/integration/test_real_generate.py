"""Native requests and aborts against a real engine; see test_real_engine.py."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest

from tests.integration.test_abort import ABORTED, abort, streaming
from tests.integration.test_generate import SCORES, answer, stream
from tests.integration.test_real_engine import (
    RealEngine,
    pytestmark,
    real_engine,
    real_router,
    start_real,
)
from tests.patience import PATIENCE
from tests.processes import RouterProcess

__all__ = ["pytestmark", "real_engine", "real_router", "start_real"]

TEXT = "The licence says that anybody may copy it, 日本語 included."
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


def test_a_stream_ends_with_the_whole_answer(real_router: RouterProcess) -> None:
    body = {"text": TEXT, "sampling_params": {**GREEDY, "max_new_tokens": 24}, **SCORES}
    whole, events = answer(real_router, **body), stream(real_router, **body)
    last = events[-1]
    assert len(events) > 12
    assert (last["text"], last["output_ids"]) == (whole["text"], whole["output_ids"])
    assert set(last["meta_info"]) | {"response_sent_to_client_ts"} == set(whole["meta_info"])
    for document in (whole, last):
        meta = document["meta_info"]
        assert meta["finish_reason"] == {"type": "length", "length": 24}
        assert meta["completion_tokens"] == meta["output_token_logprobs_length"] == 24
        assert [token for _, token, _ in meta["output_token_logprobs"]] == document["output_ids"]
        assert [token for _, token, _ in meta["input_token_logprobs"]] == (
            document["prompt_token_ids"]
        )
        assert meta["input_token_logprobs"][0][0] is None
        assert meta["input_top_logprobs"][0] is None
        for name, width in (("output_top_logprobs", 2), ("output_token_ids_logprobs", 2)):
            assert [len(row) for row in meta[name]] == [width] * 24
        # What is sampled greedily is the likeliest.
        assert [row[0][1] for row in meta["output_top_logprobs"]] == document["output_ids"]


def test_a_prompt_is_scored_and_nothing_made(real_router: RouterProcess) -> None:
    found = answer(real_router, text=TEXT, sampling_params={"max_new_tokens": 0}, **SCORES)
    meta = found["meta_info"]
    assert (found["text"], found["output_ids"]) == ("", [])
    assert meta["finish_reason"] == {"type": "length", "length": 0}
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"]
    assert len(meta["output_top_logprobs"]) == 1


def test_prompts_as_text_and_as_ids_are_the_same(real_router: RouterProcess) -> None:
    params = {**GREEDY, "max_new_tokens": 8}
    one = answer(real_router, text=TEXT, sampling_params=params, return_prompt_token_ids=True)
    ids = one["prompt_token_ids"]
    several = answer(real_router, input_ids=[ids, ids[:3]], sampling_params=params, rid="r")
    assert several[0]["output_ids"] == one["output_ids"]
    assert [each["meta_info"]["id"] for each in several] == ["r_0", "r_1"]
    assert [each["meta_info"]["prompt_tokens"] for each in several] == [len(ids), 3]


def test_a_stream_interval_is_kept(real_router: RouterProcess) -> None:
    params = {**GREEDY, "max_new_tokens": 16, "stream_interval": 8}
    events = stream(real_router, text=TEXT, sampling_params=params)
    assert len(events) < 8
    assert len(events[-1]["output_ids"]) == 16


@pytest.mark.parametrize("as_stream", [False, True])
def test_an_abort_frees_the_engine(
    real_router: RouterProcess, real_engine: RealEngine, as_stream: bool
) -> None:
    body = {"text": TEXT, "rid": "mine", "sampling_params": {**GREEDY, "max_new_tokens": 2000}}
    if as_stream:
        with streaming(real_router, "/generate", body) as events:
            next(events)
            abort(real_router, rid="mine")
            *_, last, done = events
        assert done == "[DONE]"
        found = json.loads(last)
        assert found["output_ids"]
    else:
        answers: list[dict[str, Any]] = []

        def ask() -> None:
            response = httpx.post(f"{real_router.url}/generate", json=body, timeout=PATIENCE)
            answers.append(response.json())

        thread = threading.Thread(target=ask)
        thread.start()
        real_engine.wait_for(1)
        abort(real_router, rid="mine")
        thread.join(PATIENCE)
        (found,) = answers
    assert found["meta_info"]["finish_reason"] == ABORTED
    assert found["meta_info"]["completion_tokens"] == len(found["output_ids"]) < 2000
    real_engine.wait_for(0, 0, PATIENCE)
    params = {**GREEDY, "max_new_tokens": 4}
    assert len(answer(real_router, text=TEXT, sampling_params=params)["output_ids"]) == 4
