"""Faults of streams that users of other servers have reported, each shown to be absent here.

Above each test are the reports that it is about.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import LONG, PROMPT
from tests.processes import RouterProcess, chat_body

COMPLETIONS = "/v1/chat/completions"


# mistral.rs#1874
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_request_is_refused_before_the_stream_begins(
    router: RouterProcess, stream: bool
) -> None:
    response = router.chat(stream=stream, n=0)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["param"] == "n"


# mistral.rs#1874
def test_after_an_error_the_stream_ends_at_once(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("one two three")
    engine.fault("fail,after=2,times=1,status=INTERNAL")
    before = time.monotonic()
    text = router.chat(stream=True).text
    assert time.monotonic() - before < PROMPT
    assert '"error"' in text
    assert text.endswith("data: [DONE]\n\n")


# OpenMetadata#29531: without a charset, some clients take the text for Latin-1
def test_a_stream_says_that_it_is_utf_8(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script("done ✅")
    response = router.chat(stream=True)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "✅".encode() in response.content


# litellm#26102
def test_tokens_are_not_gathered_on_their_way(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    word, tokens = router.http.post("/detokenize", json={"tokens": [301]}).json()["text"], 25
    engine.script([[301]] * 50)
    engine.fault(f"hang,after={tokens},times=1")
    with router.openai().chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "x"}], stream=True
    ) as stream:
        # All that has come is passed on, though no more does.
        text = ""
        while len(text) < tokens * len(word):
            text += next(stream).choices[0].delta.content or ""
        assert text == word * tokens


# litellm PR#37322, litellm#31877, MTPLX#358
def test_a_long_prefill_is_not_silent(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model, heartbeat=0.1)
    engine.script("late")
    engine.options.first_delay = LONG
    try:
        with router.http.stream("POST", COMPLETIONS, json=chat_body(stream=True)) as response:
            assert response.status_code == 200
            text = ""
            for piece in response.iter_text():
                text += piece
                if text.count(": ping\n\n") == 2:
                    break
            assert "late" not in text
    finally:
        engine.options.first_delay = 0.0
