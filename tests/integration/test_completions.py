"""Text completions end to end: openai client, gunicorn, Falcon, gRPC, engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.schema.responses import TextCompletion
from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.patience import PATIENCE, PROMPT
from tests.processes import RouterProcess, sse_data

PATH = "/v1/completions"
LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
FAMILY = "naïve 👩‍👩‍👧‍👦 family 🚀, 日本語 and \u2028 ends"


@pytest.fixture(scope="module", params=["native", "grpcio"])
def router(
    request: pytest.FixtureRequest, engine: SimulatedEngine, tiny_model: Path
) -> Iterator[RouterProcess]:
    """A router in front of `engine`, over one kind of channel."""
    if request.param == "native":
        request.getfixturevalue("native")
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "model_name": "tiny",
            "channel": request.param,
            "max_prompts": 8,
            "max_logprobs": 5000,
            "context_length": 6000,
            "lora_adapters": "sql=0a1b",
        }
    )
    router.start()
    yield router
    router.stop()


def whole(router: RouterProcess, prompt: Any = "a", /, **fields: Any) -> dict[str, Any]:
    """The response to a completion that is not streamed."""
    response = router.http.post(PATH, json={"model": "tiny", "prompt": prompt, **fields})
    assert response.status_code == 200, (response.text, router.log)
    body: dict[str, Any] = response.json()
    msgspec.convert(body, TextCompletion)
    return body


def streamed(router: RouterProcess, prompt: Any = "a", /, **fields: Any) -> list[dict[str, Any]]:
    """The events of a streamed completion, `[DONE]` checked."""
    body = {"model": "tiny", "prompt": prompt, "stream": True, **fields}
    response = router.http.post(PATH, json=body)
    assert response.status_code == 200, (response.text, router.log)
    events = list(sse_data(response.text))
    assert events[-1] == "[DONE]", events
    for event in events[:-1]:
        msgspec.json.decode(event, type=TextCompletion)
    return [json.loads(event) for event in events[:-1]]


def choices_of(events: list[dict[str, Any]], *, logprobs: bool = False) -> list[dict[str, Any]]:
    """The choices that a client puts together from a stream."""
    found: dict[int, dict[str, Any]] = {}
    for event in events:
        for chunk in event["choices"]:
            index = chunk["index"]
            empty: dict[str, list[Any]] | None = {name: [] for name in LISTS} if logprobs else None
            choice = found.setdefault(index, {"index": index, "text": "", "logprobs": empty})
            choice["text"] += chunk["text"]
            for name in LISTS if chunk["logprobs"] else ():
                choice["logprobs"][name] += chunk["logprobs"][name]
            if chunk["finish_reason"] is not None:
                choice["finish_reason"] = chunk["finish_reason"]
                choice["matched_stop"] = chunk["matched_stop"]
    return [found[index] for index in sorted(found)]


# smg PR#664
def test_the_openai_client_completes(router: RouterProcess) -> None:
    completion = router.openai().completions.create(
        model="tiny", prompt=QUESTION, temperature=0, max_tokens=30
    )
    (choice,) = completion.choices
    assert "Paris" in choice.text
    assert (choice.finish_reason, choice.logprobs) == ("stop", None)
    assert completion.object == "text_completion"
    assert completion.id.startswith("cmpl-")
    assert completion.usage is not None
    assert completion.usage.total_tokens == (
        completion.usage.prompt_tokens + completion.usage.completion_tokens
    )


def test_the_openai_client_streams(router: RouterProcess) -> None:
    chunks = list(
        router.openai().completions.create(
            model="tiny",
            prompt=QUESTION,
            temperature=0,
            max_tokens=30,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    *texts, end, last = chunks
    assert "Paris" in "".join(chunk.choices[0].text for chunk in texts)
    assert all(chunk.usage is None for chunk in (*texts, end))
    assert end.choices[0].finish_reason == "stop"
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens > 1
    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1
    with pytest.raises(openai.BadRequestError) as caught:
        router.openai().completions.create(model="tiny", prompt="a", suffix="b")
    assert caught.value.param == "suffix"


def test_prompts_come_in_four_forms(router: RouterProcess, engine: SimulatedEngine) -> None:
    ids = [87, 502]
    for prompt, sent in (
        ("a b", [("a b", None)]),
        (["a", "a b"], [("a", None), ("a b", None)]),
        (ids, [("", ids)]),
        ([ids, [5]], [("", ids), ("", [5])]),
    ):
        before = len(engine.requests)
        assert len(whole(router, prompt)["choices"]) == len(sent)
        calls = engine.requests[before:]
        found = [(call.tokenized.original_text, list(call.tokenized.input_ids)) for call in calls]
        # Calls are made at once, and may arrive in any order.
        for text, expected in sent:
            assert [each for each in found if each[0] == text and expected in (None, each[1])]
        assert len(found) == len(sent)


@pytest.mark.parametrize("stream", [False, True])
def test_choices_are_in_the_order_of_prompts_and_then_of_samples(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    prompts = ["first one", "second", "the third of them"]
    before = len(engine.requests)
    fields = {"echo": True, "n": 2, "max_tokens": 3}
    if stream:
        events = streamed(router, prompts, stream_options={"include_usage": True}, **fields)
        choices, usage = choices_of(events), events[-1]["usage"]
    else:
        body = whole(router, prompts, **fields)
        choices, usage = body["choices"], body["usage"]
    assert [choice["index"] for choice in choices] == list(range(6))
    for choice in choices:
        assert choice["text"].startswith(prompts[choice["index"] // 2])
    calls = engine.requests[before:]
    assert len({call.request_id for call in calls}) == len(calls) == 6
    sizes = {call.tokenized.original_text: len(call.tokenized.input_ids) for call in calls}
    assert usage["prompt_tokens"] == sum(sizes.values())
    assert 6 <= usage["completion_tokens"] <= 18


@pytest.mark.parametrize("tokens", [1, 3, 8])
def test_text_is_the_same_however_it_is_chunked(
    router: RouterProcess, engine: SimulatedEngine, tokens: int
) -> None:
    engine.script(FAMILY)
    engine.options.tokens_per_chunk = tokens
    try:
        cases: list[dict[str, Any]] = [
            {},
            {"echo": True},
            {"logprobs": 2},
            {"logprobs": 0, "echo": True},
        ]
        for case in cases:
            fields = {"max_tokens": 100, **case}
            (choice,) = whole(router, "é日", **fields)["choices"]
            assert choice["text"] == ("é日" if "echo" in fields else "") + FAMILY
            scored = "logprobs" in fields
            assert choices_of(streamed(router, "é日", **fields), logprobs=scored) == [choice]
    finally:
        engine.options.tokens_per_chunk = 1


# vllm#48853
@pytest.mark.parametrize("stream", [False, True])
def test_of_a_prompt_that_ends_within_a_character_the_answer_has_only_that(
    router: RouterProcess, engine: SimulatedEngine, tiny_model: Path, stream: bool
) -> None:
    tokenizer = load_tokenizer(tiny_model)
    piece = DetokenizerFactory(tokenizer).piece
    alphabet = {piece(token): token for token in range(400)}
    ids = [alphabet[bytes([byte])] for byte in "ab日".encode()]
    assert [piece(token) for token in ids[-3:]] == [b"\xe6", b"\x97", b"\xa5"]
    engine.script([ids[-1], ids[0], ids[1]])
    for echo, text in ((False, "日ab"), (True, "ab日ab")):
        if stream:
            (choice,) = choices_of(streamed(router, ids[:-1], echo=echo))
        else:
            (choice,) = whole(router, ids[:-1], echo=echo)["choices"]
        assert choice["text"] == text


def test_prompts_can_be_scored(router: RouterProcess) -> None:
    text = "The licence is 日本 free"
    body = whole(router, text, max_tokens=0, echo=True, logprobs=2)
    (choice,) = body["choices"]
    assert choice["text"] == text
    assert choice["finish_reason"] == "length"
    logprobs = choice["logprobs"]
    assert "".join(logprobs["tokens"]) == text
    assert logprobs["token_logprobs"][0] is None
    assert all(value < 0 for value in logprobs["token_logprobs"][1:])
    for token, offset, top in zip(
        logprobs["tokens"], logprobs["text_offset"], logprobs["top_logprobs"], strict=True
    ):
        assert text.startswith(token, offset)
        assert top is None or token in top
    assert body["usage"]["completion_tokens"] == 0
    assert body["usage"]["prompt_tokens"] == len(logprobs["tokens"])
    events = streamed(router, text, max_tokens=0, echo=True, logprobs=2)
    assert choices_of(events, logprobs=True) == [choice]


def test_a_prompt_may_be_read_and_nothing_made(router: RouterProcess) -> None:
    (choice,) = whole(router, "a", max_tokens=0)["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("", "length")


def test_an_answer_has_sixteen_tokens_unless_more_are_asked_for(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    for fields, expected in (
        ({}, 16),
        ({"max_tokens": None}, 16),
        ({"max_tokens": 3}, 3),
        ({"max_completion_tokens": 4}, 4),
    ):
        whole(router, "a", **fields)
        assert engine.requests[-1].sampling_params.max_new_tokens == expected


def test_a_long_prompt_has_less_room_than_a_short_one(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, context_length=40
    )
    whole(router, ["a", "a " * 30], max_tokens=30)
    calls = {
        len(call.tokenized.input_ids): call.sampling_params.max_new_tokens
        for call in engine.requests[-2:]
    }
    (short, usual), (long, rest) = sorted(calls.items())
    assert usual == 30
    assert rest == 40 - 2 - long < 30
    assert short < long


@pytest.mark.parametrize("wanted", [None, 0, 3])
def test_the_best_of_several_samples_come_first(
    router: RouterProcess, engine: SimulatedEngine, wanted: int | None
) -> None:
    fields = {} if wanted is None else {"logprobs": wanted}
    before = len(engine.requests)
    body = whole(router, ["a", "b"], best_of=5, n=3, max_tokens=6, temperature=1.5, **fields)
    assert [choice["index"] for choice in body["choices"]] == list(range(6))
    calls = engine.requests[before:]
    assert [call.return_logprob for call in calls] == [True] * 10
    assert body["usage"]["prompt_tokens"] == 2
    # The engine has counted those that are not returned, too.
    assert 10 <= body["usage"]["completion_tokens"] <= 60
    if wanted is None:
        assert all(choice["logprobs"] is None for choice in body["choices"])
        return
    for returned in (body["choices"][:3], body["choices"][3:]):
        scores = [choice["logprobs"]["token_logprobs"] for choice in returned]
        # Without any tokens it comes last.
        means = [sum(each) / len(each) if each else float("-inf") for each in scores]
        assert means == sorted(means, reverse=True)


def test_a_stream_may_say_that_all_are_the_best(router: RouterProcess) -> None:
    assert len(choices_of(streamed(router, "a", best_of=2, n=2, max_tokens=2))) == 2


def test_parameters_reach_the_engine(router: RouterProcess, engine: SimulatedEngine) -> None:
    whole(
        router,
        "a",
        temperature=0.5,
        min_tokens=2,
        stop=["x", "y"],
        logit_bias={"5": 1},
        regex="a+",
        lora_path="sql",
        logprobs=3,
        seed=1,
    )
    call = engine.requests[-1]
    params = call.sampling_params
    assert (params.temperature, params.min_new_tokens) == (0.5, 2)
    assert (list(params.stop), params.regex, dict(params.logit_bias)) == (
        ["x", "y"],
        "a+",
        {"5": 1},
    )
    assert (call.lora_id, call.return_logprob, call.top_logprobs_num) == ("0a1b", True, 3)
    assert call.logprob_start_len == -1
    whole(router, "a", echo=True, logprobs=0)
    assert engine.requests[-1].logprob_start_len == 0
    whole(router, "a", json_schema={"type": "object"}, max_tokens=40)
    assert json.loads(engine.requests[-1].sampling_params.json_schema) == {"type": "object"}


@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings_end_the_text(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script("first answer is here")
    fields = {"stop": ["zzz", " is"], "echo": True, "max_tokens": 50}
    if stream:
        (choice,) = choices_of(streamed(router, "is it? ", **fields))
    else:
        (choice,) = whole(router, "is it? ", **fields)["choices"]
    # The prompt is not searched for it.
    assert choice["text"] == "is it? first answer"
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", " is")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": ["a", 5]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [[5], []]}, "prompt[1]"),
        ({"prompt": [5, True]}, "prompt[1]"),
        ({"prompt": [5, 4096]}, "prompt"),
        ({"prompt": [[5], [-1]]}, "prompt[1][0]"),
        ({"prompt": ["a"] * 9}, "prompt"),
        ({"prompt": "a " * 7000}, "prompt"),
        ({"suffix": "b"}, "suffix"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": 10**30}, "logprobs"),
        ({"logprobs": 1, "max_tokens": 2501}, "logprobs"),
        ({"logprobs": 20, "prompt": "a " * 300, "echo": True}, "logprobs"),
        ({"best_of": 2, "max_tokens": 4000}, "logprobs"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"best_of": 17}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0, "min_tokens": 1}, "min_tokens"),
        ({"n": 17}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"logit_bias": {"4096": 1}}, "logit_bias"),
        ({"json_schema": "{"}, "json_schema"),
        ({"json_schema": '{"type": "objet"}'}, "json_schema"),
        ({"json_schema": "{}", "regex": "a"}, "json_schema"),
        ({"regex": "a", "ebnf": "b"}, "regex"),
        ({"lora_path": "other"}, "lora_path"),
        ({"model": "other"}, "model"),
    ],
)
def test_what_cannot_be_served_is_refused_with_its_field(
    router: RouterProcess, engine: SimulatedEngine, fields: dict[str, Any], param: str
) -> None:
    before = len(engine.requests)
    # A stream keeps no log probabilities but those of its prompts.
    streams = (False, True) if param != "logprobs" or fields.get("echo") else (False,)
    for stream in streams:
        body = {"model": "tiny", "prompt": "a", "stream": stream, **fields}
        response = router.http.post(PATH, json=body)
        assert response.status_code == (404 if param == "model" else 400), response.text
        assert response.json()["error"]["param"] == param
    assert len(engine.requests) == before
    assert engine.alive


def test_the_best_cannot_be_streamed(router: RouterProcess) -> None:
    response = router.http.post(
        PATH, json={"model": "tiny", "prompt": "a", "stream": True, "best_of": 2}
    )
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "best_of"


def test_an_echo_is_bounded(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path
) -> None:
    router = start_router(engine=f"grpc://{engine.address}", tokenizer=tiny_model, max_prompt=1024)
    body = {"prompt": "a" * 400, "n": 2, "echo": True}
    assert router.http.post(PATH, json=body).status_code == 200
    response = router.http.post(PATH, json={**body, "n": 3})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "echo"


@pytest.mark.parametrize("stream", [False, True])
def test_a_failing_call_ends_the_request_and_the_others(
    router: RouterProcess, engine: SimulatedEngine, stream: bool
) -> None:
    engine.script("one two three four five six seven eight nine ten")
    engine.options.token_delay = 0.05
    engine.fault(f"fail,after={2 if stream else 0},times=1,status=INTERNAL")
    try:
        body = {"model": "tiny", "prompt": ["a", "b", "c"], "max_tokens": 50, "stream": stream}
        began = time.monotonic()
        response = router.http.post(PATH, json=body)
        assert time.monotonic() - began < PROMPT
        if stream:
            assert response.status_code == 200
            *_, error, done = sse_data(response.text)
            assert done == "[DONE]"
            assert json.loads(error)["error"]["code"] == "engine_error"
        else:
            assert response.status_code == 502
            assert response.json()["error"]["code"] == "engine_error"
        eventually(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0


def test_a_client_that_leaves_ends_all_calls(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("word " * 200)
    engine.options.token_delay = 0.02
    try:
        body = {"model": "tiny", "prompt": ["a", "b"], "n": 2, "max_tokens": 200, "stream": True}
        with router.http.stream("POST", PATH, json=body) as response:
            parts = response.iter_bytes()
            next(parts)
            eventually(lambda: engine.active == 4)
        eventually(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0


def test_a_grammar_that_the_engine_refuses_is_the_fields_fault(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    response = router.http.post(PATH, json={"model": "tiny", "prompt": "a", "regex": "("})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "regex"
    assert engine.alive


def test_what_no_engine_does_is_named(router: RouterProcess) -> None:
    body = {"model": "tiny", "prompt": "a", "seed": 1, "user": "me", "stop_regex": "a"}
    response = router.http.post(PATH, json=body)
    assert response.headers["x-sglrouter-ignored"] == "seed,stop_regex"


def test_a_request_may_be_stopped_by_its_rid(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.script("word " * 500)
    engine.options.token_delay = 0.02
    try:
        body = {"model": "tiny", "prompt": ["a", "b"], "max_tokens": 400, "rid": "mine"}
        with router.http.stream("POST", PATH, json={**body, "stream": True}) as response:
            parts = response.iter_text()
            said = next(parts)
            eventually(lambda: engine.active == 2)
            assert router.http.post("/abort_request", json={"rid": "mine"}).status_code == 200
            said += "".join(parts)
        assert said.count('"finish_reason":"abort"') == 2
        assert said.endswith("data: [DONE]\n\n")
    finally:
        engine.options.token_delay = 0.0


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
