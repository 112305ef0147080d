"""POST /generate end to end: prompts as they are, answers in SGLang's shapes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import falcon.testing
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sglrouter._proto import scheduler as pb
from sglrouter.app import Router, create_app
from sglrouter.config import Settings
from sglrouter.serving.native import MAX_SELECTED, MAX_TOP_LOGPROBS
from sglrouter.sim import SimulatedEngine
from tests.fast.profile import SOAK
from tests.integration import requests
from tests.integration.requests import VOCAB
from tests.processes import RouterProcess, sse_data

ANSWER = "naïve 👩‍👩‍👧‍👦 family, 日本語 and \u2028 ends"
TIMES = ("e2e_latency", "response_sent_to_client_ts", "id")


@pytest.fixture(scope="module", params=["native", "grpcio"])
def router(
    request: pytest.FixtureRequest, engine: SimulatedEngine, tiny_model: Path
) -> Iterator[RouterProcess]:
    if request.param == "native":
        request.getfixturevalue("native")
    router = RouterProcess(
        {
            "engine": f"grpc://{engine.address}",
            "tokenizer": tiny_model,
            "channel": request.param,
            "lora_adapters": "mine=id-of-mine",
        }
    )
    router.start()
    yield router
    router.stop()


@pytest.fixture(scope="module")
def app(engine: SimulatedEngine, tiny_model: Path) -> Iterator[Router]:
    """The application without a server, for many requests."""
    app = create_app(
        Settings(
            engine=[f"grpc://{engine.address}"],
            tokenizer=str(tiny_model),
            max_prompts=4,
            max_logprobs=100_000,
            idle_timeout=20,
        )
    )
    yield app
    app.fleet.close()


@pytest.fixture(scope="module")
def client(app: Router) -> falcon.testing.TestClient:
    return falcon.testing.TestClient(app)


def answer(router: RouterProcess, **body: Any) -> Any:
    response = router.http.post("/generate", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def stream(router: RouterProcess, **body: Any) -> list[dict[str, Any]]:
    response = router.http.post("/generate", json={**body, "stream": True})
    assert response.status_code == 200, response.text
    events = list(sse_data(response.text))
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in document["meta_info"].items() if key not in TIMES}
    return {**document, "meta_info": meta}


def last_params(engine: SimulatedEngine) -> pb.SamplingParams:
    return engine.requests[-1].sampling_params


SCORES = {
    "return_logprob": True,
    "logprob_start_len": 0,
    "top_logprobs_num": 2,
    "token_ids_logprob": [5, 6],
    "return_text_in_logprobs": True,
    "return_prompt_token_ids": True,
}


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("scores", [{}, SCORES])
def test_a_stream_ends_with_the_whole_answer(
    router: RouterProcess, engine: SimulatedEngine, tokens: int, scores: dict[str, Any]
) -> None:
    engine.script(ANSWER)
    engine.options.tokens_per_chunk = tokens
    engine.options.token_delay = 0.01
    body = {"text": "Hello", "sampling_params": {"max_new_tokens": None}, **scores}
    try:
        whole = answer(router, **body)
        events = stream(router, **body)
    finally:
        engine.options.tokens_per_chunk = 1
        engine.options.token_delay = 0.0
    assert whole["text"] == ANSWER
    assert whole["meta_info"]["finish_reason"]["type"] == "stop"
    assert whole["output_ids"][-1] == whole["meta_info"]["finish_reason"]["matched"]
    # How much of a prompt is cached depends on who has asked before.
    del whole["meta_info"]["cached_tokens"], events[-1]["meta_info"]["cached_tokens"]
    assert timeless(events[-1]) == timeless(whole)
    assert len(events) > 3
    for early, late in pairwise(events):
        assert late["text"].startswith(early["text"])
        assert late["output_ids"][: len(early["output_ids"])] == early["output_ids"]
        assert early["meta_info"]["finish_reason"] is None


def test_scores_are_of_their_tokens(router: RouterProcess, tiny_model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    params = {"temperature": 0, "max_new_tokens": 3}
    found = answer(router, text="The capital of France is", sampling_params=params, **SCORES)
    meta, prompt = found["meta_info"], tokenizer.encode("The capital of France is").ids
    assert found["prompt_token_ids"] == prompt
    scored = meta["input_token_logprobs"]
    assert [token for _, token, _ in scored] == prompt
    assert scored[0][0] is None
    assert all(value < 0 for value, _, _ in scored[1:])
    assert meta["input_top_logprobs"][0] is None
    assert [len(row) for row in meta["input_top_logprobs"][1:]] == [2] * (len(prompt) - 1)
    assert [token for _, token, _ in meta["output_token_logprobs"]] == found["output_ids"]
    assert "".join(text for _, _, text in meta["output_token_logprobs"]) == found["text"]
    # What is sampled greedily is the likeliest.
    assert [row[0][:2] for row in meta["output_top_logprobs"]] == [
        entry[:2] for entry in meta["output_token_logprobs"]
    ]
    assert [[token for _, token, _ in row] for row in meta["output_token_ids_logprobs"]] == [
        [5, 6]
    ] * 3


def test_a_prompt_can_be_scored_without_an_answer(router: RouterProcess) -> None:
    params = {"max_new_tokens": 0}
    found = answer(router, text="Hello there", sampling_params=params, **SCORES)
    meta = found["meta_info"]
    assert (found["text"], found["output_ids"]) == ("", [])
    assert meta["finish_reason"] == {"type": "length", "length": 0}
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"]
    assert len(meta["output_top_logprobs"]) == len(meta["output_token_ids_logprobs"]) == 1
    assert stream(router, text="Hello", sampling_params=params)[-1]["output_ids"] == []


def test_a_prompt_is_sent_as_it_is(
    router: RouterProcess, engine: SimulatedEngine, tiny_model: Path
) -> None:
    text = "<|im_start|>user\nHello"
    answer(router, text=text)
    sent = engine.requests[-1]
    tokenizer = Tokenizer.from_file(str(tiny_model / "tokenizer.json"))
    assert list(sent.tokenized.input_ids) == tokenizer.encode(text).ids
    assert sent.tokenized.original_text == text
    answer(router, input_ids=[7, 8, 9])
    assert list(engine.requests[-1].tokenized.input_ids) == [7, 8, 9]


def test_defaults_are_sglangs_for_this_request(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    # Conversations with this model are sampled otherwise.
    answer(router, text="Hello")
    params = last_params(engine)
    assert params.max_new_tokens == 128
    assert (params.temperature, params.top_p, params.top_k) == (1.0, 1.0, -1)
    assert not engine.requests[-1].return_logprob


def test_all_parameters_reach_the_engine(router: RouterProcess, engine: SimulatedEngine) -> None:
    answer(
        router,
        text="Hello",
        rid="x",
        lora_path="mine",
        require_reasoning=True,
        return_logprob=True,
        logprob_start_len=1,
        top_logprobs_num=3,
        token_ids_logprob=[4],
        sampling_params={
            "max_new_tokens": 7,
            "min_new_tokens": 2,
            "stop": "zz",
            "stop_token_ids": [9, None],
            "temperature": 0.5,
            "top_p": 0.25,
            "top_k": 11,
            "min_p": 0.125,
            "frequency_penalty": 0.5,
            "presence_penalty": -0.5,
            "repetition_penalty": 1.5,
            "ignore_eos": True,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            "no_stop_trim": True,
            "stream_interval": 4,
            "logit_bias": {"3": 1},
            "regex": "[a-z ]*",
        },
    )
    sent = engine.requests[-1]
    params = sent.sampling_params
    assert sent.request_id != "x"
    assert (sent.lora_id, sent.require_reasoning) == ("id-of-mine", True)
    assert (sent.logprob_start_len, sent.top_logprobs_num) == (1, 3)
    assert list(sent.token_ids_logprob) == [4]
    assert (params.max_new_tokens, params.min_new_tokens, params.n) == (7, 2, 1)
    assert (list(params.stop), list(params.stop_token_ids)) == (["zz"], [9])
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.25, 11, 0.125)
    assert (params.frequency_penalty, params.presence_penalty) == (0.5, -0.5)
    assert params.repetition_penalty == 1.5
    assert (params.ignore_eos, params.skip_special_tokens, params.no_stop_trim) == (
        True,
        False,
        True,
    )
    assert (params.stream_interval, dict(params.logit_bias)) == (4, {"3": 1.0})
    assert params.regex == "[a-z ]*"


@pytest.mark.parametrize(
    ("params", "kind", "text"),
    [
        ({"json_schema": '{"type": "integer"}'}, "json_schema", '{"type":"integer"}'),
        ({"json_schema": {"type": "integer"}}, "json_schema", '{"type":"integer"}'),
        ({"json_schema": "$$ANY$$"}, "json_schema", '{"type": "object"}'),
        ({"regex": "a+"}, "regex", "a+"),
        ({"ebnf": "root ::= [a-z]+"}, "ebnf_grammar", "root ::= [a-z]+"),
        (
            {"structural_tag": '{"format": {"type": "const_string", "value": "a"}}'},
            "structural_tag",
            '{"format":{"type":"const_string","value":"a"},"type":"structural_tag"}',
        ),
        ({"json_schema": "", "regex": "a+"}, "regex", "a+"),
    ],
)
def test_a_grammar_reaches_the_engine(
    client: falcon.testing.TestClient,
    engine: SimulatedEngine,
    params: dict[str, Any],
    kind: str,
    text: str,
) -> None:
    body = {"text": "Hello", "sampling_params": {"max_new_tokens": 2, **params}}
    assert client.simulate_post("/generate", json=body).status_code == 200
    sent = last_params(engine)
    assert (sent.WhichOneof("constraint"), getattr(sent, kind)) == (kind, text)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_both_methods_serve(client: falcon.testing.TestClient, method: str) -> None:
    result = client.simulate_request(method, "/generate", json={"text": "Hello"})
    assert result.status_code == 200
    assert set(result.json) == {"text", "output_ids", "meta_info"}


@pytest.mark.parametrize("as_stream", [False, True])
def test_several_prompts_are_answered_in_their_order(
    router: RouterProcess, engine: SimulatedEngine, as_stream: bool
) -> None:
    body = {
        "text": ["a", "b"],
        "rid": "r",
        "sampling_params": [
            {"n": 2, "max_new_tokens": 1, "temperature": 0},
            {"n": 2, "max_new_tokens": 2, "temperature": 0},
        ],
    }
    before = len(engine.requests)
    if as_stream:
        last = {event["index"]: event for event in stream(router, **body)}
        found = [last[index] for index in range(4)]
    else:
        found = answer(router, **body)
    assert [each["meta_info"]["id"] for each in found] == ["r_0", "r_1", "r_2", "r_3"]
    assert [len(each["output_ids"]) for each in found] == [1, 1, 2, 2]
    assert len({request.request_id for request in engine.requests[before:]}) == 4


def test_what_is_ignored_is_told(router: RouterProcess) -> None:
    response = router.http.post(
        "/generate",
        json={
            "text": ["a", "b"],
            "session_id": "s",
            "sampling_params": [{"stop_regex": "a"}, {"stop_regex": "b", "sampling_seed": 0}],
        },
    )
    assert response.headers["X-Sglrouter-Ignored"] == (
        "session_id,sampling_params.sampling_seed,sampling_params.stop_regex"
    )


def test_what_the_operator_prefers_holds(
    app: Router, client: falcon.testing.TestClient, engine: SimulatedEngine
) -> None:
    backend = app.fleet.engines[0]
    facts = backend.facts_now()
    preferred = '{"temperature": 0.25, "max_new_tokens": 9, "top_k": 5}'
    backend.facts.learn(msgspec.structs.replace(facts, preferred_sampling_params=preferred))
    try:
        body = {"text": "Hello", "sampling_params": {"top_k": 7}}
        assert client.simulate_post("/generate", json=body).status_code == 200
        params = last_params(engine)
        assert (params.temperature, params.max_new_tokens, params.top_k) == (0.25, 9, 7)
        # What makes no sense is none.
        backend.facts.learn(msgspec.structs.replace(facts, preferred_sampling_params="["))
        assert client.simulate_post("/generate", json=body).status_code == 200
        assert last_params(engine).temperature == 1.0
    finally:
        backend.facts.learn(facts)


LONG_ID = 10**30


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_prompt", "text"),
        ({"text": ""}, "empty_prompt", "text"),
        ({"text": ["a", ""]}, "empty_prompt", "text[1]"),
        ({"input_ids": [[1], []]}, "empty_prompt", "input_ids[1]"),
        ({"input_ids": [VOCAB]}, "token_out_of_vocabulary", "input_ids"),
        ({"input_ids": [[1], [-1]]}, "token_out_of_vocabulary", "input_ids[1]"),
        ({"input_ids": [LONG_ID]}, "token_out_of_vocabulary", "input_ids"),
        ({"input_ids": [1] * 40_000}, "context_length_exceeded", "input_ids"),
        ({"text": ["a"] * 5}, "too_many_prompts", "text"),
        ({"text": "a", "image_data": ["x"]}, "unsupported_input", "image_data"),
        ({"text": "a", "lora_path": "unknown"}, "adapter_not_found", "lora_path"),
        ({"text": ["a", "b"], "lora_path": [None, "x"]}, "adapter_not_found", "lora_path"),
    ],
)
def test_a_prompt_that_cannot_be_served_is_refused(
    client: falcon.testing.TestClient,
    engine: SimulatedEngine,
    body: dict[str, Any],
    code: str,
    param: str,
) -> None:
    before = len(engine.requests)
    for as_stream in (False, True):
        result = client.simulate_post("/generate", json={**body, "stream": as_stream})
        assert result.status_code == 400
        error = result.json["error"]
        assert (error["code"], error["param"]) == (code, param)
    assert len(engine.requests) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", -1),
        ("min_new_tokens", -1),
        ("min_new_tokens", 129),
        ("temperature", -0.5),
        ("temperature", "nan"),
        ("top_p", 0),
        ("top_k", -2),
        ("min_p", 1.5),
        ("frequency_penalty", 3),
        ("presence_penalty", -3),
        ("repetition_penalty", 0),
        ("repetition_penalty", -1),
        ("n", 0),
        ("n", 10**6),
        ("stop", ["x"] * 33),
        ("stop", "x" * 1025),
        ("stop_token_ids", [VOCAB]),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", [1] * 1025),
        ("logit_bias", {str(VOCAB): 1}),
        ("logit_bias", {"one": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {str(i): 1 for i in range(1025)}),
        ("stream_interval", 0),
        ("stream_interval", -1),
        ("stream_interval", 2**31),
        ("json_schema", "{"),
        ("json_schema", "[]"),
        ("json_schema", '"text"'),
        ("json_schema", "[" * 100_000),
        ("json_schema", "x" * 1_000_001),
        ("json_schema", {"type": 3}),
        ("json_schema", {"$ref": "#/nowhere"}),
        ("json_schema", {"enum": ["x" * 1_000_001]}),
        ("regex", "\0"),
        ("regex", "x" * 5000),
        ("ebnf", "\0"),
        ("structural_tag", "7"),
        ("structural_tag", {"format": {"type": 3}}),
        ("structural_tag", {"structures": [], "triggers": ["a"]}),
    ],
)
def test_a_parameter_out_of_range_is_called_by_the_clients_name(
    client: falcon.testing.TestClient, engine: SimulatedEngine, name: str, value: object
) -> None:
    for params, place in (
        ({name: value}, "sampling_params"),
        ([{}, {name: value}], "sampling_params[1]"),
    ):
        text = "a" if isinstance(params, dict) else ["a", "b"]
        result = client.simulate_post("/generate", json={"text": text, "sampling_params": params})
        assert result.status_code == 400
        error = result.json["error"]
        assert error["param"].startswith(f"{place}.{name}"), error
        assert error["message"].startswith(f"{place}.{name}"), error
        assert "max_tokens" not in error["message"]
    assert engine.alive


@pytest.mark.parametrize(
    "grammars",
    [
        {"regex": "a", "ebnf": 'root ::= "a"'},
        {"json_schema": "{}", "regex": "a"},
        {"json_schema": "{}", "structural_tag": '{"format": {"type": "any_text"}}'},
    ],
)
def test_there_is_one_grammar(client: falcon.testing.TestClient, grammars: dict[str, str]) -> None:
    result = client.simulate_post("/generate", json={"text": "a", "sampling_params": grammars})
    assert result.status_code == 400
    assert all(f"sampling_params.{name}" in result.json["error"]["message"] for name in grammars)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_logprobs_num": -1}, "top_logprobs_num"),
        ({"top_logprobs_num": MAX_TOP_LOGPROBS + 1}, "top_logprobs_num"),
        ({"top_logprobs_num": VOCAB + 1}, "top_logprobs_num"),
        ({"token_ids_logprob": [VOCAB]}, "token_ids_logprob"),
        ({"token_ids_logprob": [-1]}, "token_ids_logprob"),
        ({"token_ids_logprob": [1] * (MAX_SELECTED + 1)}, "token_ids_logprob"),
        ({"logprob_start_len": -2}, "logprob_start_len"),
        ({"logprob_start_len": 2}, "logprob_start_len"),
        ({"top_logprobs_num": 1000}, "sampling_params.max_new_tokens"),
        (
            {"text": ["a"] * 4, "top_logprobs_num": 500, "sampling_params": {"max_new_tokens": 60}},
            "sampling_params.max_new_tokens",
        ),
    ],
)
def test_scores_that_cannot_be_had_are_refused(
    client: falcon.testing.TestClient, engine: SimulatedEngine, fields: dict[str, Any], param: str
) -> None:
    body = {"text": "a", "return_logprob": True, **fields}
    for as_stream in (False, True):
        result = client.simulate_post("/generate", json={**body, "stream": as_stream})
        assert result.status_code == 400
        assert result.json["error"]["param"] == param
    # Nothing is looked at that is not asked for.
    if "text" not in fields:
        result = client.simulate_post("/generate", json={**body, "return_logprob": False})
        assert result.status_code == 200
    assert engine.alive


@pytest.mark.parametrize(
    "fields",
    [
        {"top_logprobs_num": MAX_TOP_LOGPROBS, "sampling_params": {"max_new_tokens": 1}},
        {"token_ids_logprob": [VOCAB - 1] * 2},
        {"token_ids_logprob": []},
        {"logprob_start_len": 1},
        {"logprob_start_len": 0, "sampling_params": {"max_new_tokens": 0}},
    ],
)
def test_scores_just_inside_work(
    client: falcon.testing.TestClient, engine: SimulatedEngine, fields: dict[str, Any]
) -> None:
    body = {"text": "a", "return_logprob": True, **fields}
    for as_stream in (False, True):
        result = client.simulate_post("/generate", json={**body, "stream": as_stream})
        assert result.status_code == 200
        assert '"error"' not in result.text
    assert engine.alive


def test_an_engine_that_refuses_gives_the_response_its_status(
    router: RouterProcess, engine: SimulatedEngine
) -> None:
    engine.fault("fail,status=RESOURCE_EXHAUSTED,times=2")
    for as_stream in (False, True):
        response = router.http.post("/generate", json={"text": "a", "stream": as_stream})
        assert response.status_code == 429
        assert response.json()["error"]["code"] == "engine_overloaded"


def test_a_grammar_that_an_engine_refuses_is_named(client: falcon.testing.TestClient) -> None:
    body: dict[str, Any] = {"text": "a", "sampling_params": {"ebnf": "root ::= "}}
    error = client.simulate_post("/generate", json=body).json["error"]
    assert (error["code"], error["param"]) == ("invalid_grammar", "sampling_params.ebnf")
    body = {"text": ["a", "b"], "sampling_params": [{"ebnf": "root ::= "}, {"regex": "a"}]}
    error = client.simulate_post("/generate", json=body).json["error"]
    assert (error["code"], error["param"]) == ("invalid_grammar", "sampling_params")


@pytest.mark.parametrize("as_stream", [False, True])
def test_one_that_fails_fails_the_request_and_stops_the_others(
    router: RouterProcess, engine: SimulatedEngine, as_stream: bool
) -> None:
    engine.script([[7]] * 4000)
    engine.options.token_delay = 0.02
    # Without a stream the first message is the last.
    engine.fault(f"fail,status=INTERNAL,after={3 if as_stream else 0},times=1")
    body = {
        "text": ["a", "b"],
        "sampling_params": {"max_new_tokens": 3000},
        "stream": as_stream,
    }
    try:
        response = router.http.post("/generate", json=body)
        if as_stream:
            *_, last, done = sse_data(response.text)
            assert done == "[DONE]"
            assert json.loads(last)["error"]["code"] == "engine_error"
        else:
            assert response.status_code == 502
        engine.wait_until(lambda: engine.active == 0)
    finally:
        engine.options.token_delay = 0.0


def test_a_stop_string_ends_text_and_ids(router: RouterProcess, engine: SimulatedEngine) -> None:
    engine.script("one two three")
    for keep, text in ((False, "one "), (True, "one two")):
        params = {"stop": ["two"], "no_stop_trim": keep}
        body = {"text": "a", "sampling_params": params}
        found = answer(router, **body)
        assert found["text"] == text
        assert found["meta_info"]["finish_reason"] == {"type": "stop", "matched": "two"}
        assert found["meta_info"]["completion_tokens"] == len(found["output_ids"])
        assert timeless(stream(router, **body)[-1])["output_ids"] == found["output_ids"]


_PARAMS = {
    "max_new_tokens": requests.loose,
    "min_new_tokens": requests.loose,
    "stop": st.one_of(requests.texts, st.lists(requests.texts, max_size=40)),
    "stop_token_ids": st.lists(requests.ids, max_size=4),
    "temperature": requests.loose,
    "top_p": requests.loose,
    "top_k": requests.loose,
    "min_p": requests.loose,
    "frequency_penalty": requests.loose,
    "repetition_penalty": requests.loose,
    "n": st.one_of(st.integers(1, 2), requests.loose),
    "logit_bias": st.dictionaries(requests.ids.map(str), requests.loose, max_size=2),
    "json_schema": requests.anything,
    "regex": st.one_of(requests.texts, st.sampled_from(["a+", "("])),
    "structural_tag": requests.anything,
    "stream_interval": requests.loose,
    "custom_params": requests.anything,
}
_PROMPTS = {
    "text": st.one_of(requests.texts, st.lists(requests.texts, max_size=3)),
    "input_ids": st.one_of(
        st.lists(requests.ids, max_size=3),
        st.lists(st.lists(requests.ids, max_size=2), max_size=2),
    ),
}
_SCORING = {
    "logprob_start_len": requests.loose,
    "top_logprobs_num": st.one_of(requests.loose, st.sampled_from([VOCAB, VOCAB + 1])),
    "token_ids_logprob": st.lists(requests.ids, max_size=3),
}


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A usual native request with something in it that is not."""
    params: dict[str, Any] = {"max_new_tokens": 2}
    body: dict[str, Any] = {"text": "x", "sampling_params": params, "stream": draw(st.booleans())}
    for name in draw(st.lists(st.sampled_from(sorted(_PARAMS)), max_size=2, unique=True)):
        params[name] = draw(_PARAMS[name])
    if draw(st.integers(0, 3)) == 0:
        del body["text"]
        name = draw(st.sampled_from(sorted(_PROMPTS)))
        body[name] = draw(_PROMPTS[name])
    if draw(st.booleans()):
        body["return_logprob"] = True
        for name in draw(st.lists(st.sampled_from(sorted(_SCORING)), max_size=2, unique=True)):
            body[name] = draw(_SCORING[name])
    return json.dumps(body).encode()


def test_an_arbitrary_request_is_answered_or_refused(
    client: falcon.testing.TestClient, engine: SimulatedEngine
) -> None:
    statuses: Counter[int] = Counter()

    @settings(max_examples=2 * SOAK)
    @given(bodies())
    def run(body: bytes) -> None:
        result = client.simulate_post("/generate", body=body)
        assert engine.alive, f"the engine died of {body!r}"
        assert result.status_code in (200, 400), (result.text, body)
        if result.status_code == 400:
            assert set(result.json["error"]) == {"message", "type", "param", "code"}
        elif result.text.startswith("data: "):
            assert result.text.endswith("data: [DONE]\n\n")
            assert '{"error"' not in result.text
        else:
            assert result.json
        statuses[result.status_code] += 1

    run()
    assert min(statuses[200], statuses[400]) > SOAK // 4, statuses
