"""The chat path against a real engine, over both channels.

`SGLROUTER_TEST_ENGINE=host:port` names the engine; docs/engine-on-cpu.md tells how to run
one without a GPU. Any model should do, a random one included: no test expects a word, only
what follows from the request, from another answer, or from what the engine says of its load.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.wire.scheduler import SERVICE
from tests.processes import RouterProcess, chat_body, finish_reason, joined

ENGINE = os.environ.get("SGLROUTER_TEST_ENGINE", "")
TOKENIZER = os.environ.get("SGLROUTER_TEST_TOKENIZER", "")

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not ENGINE, reason="SGLROUTER_TEST_ENGINE=host:port names no engine"),
]

# Greedy answers can be compared; reasoning, where the model has it, counts as text.
GREEDY: dict[str, Any] = {
    "temperature": 0,
    "repetition_penalty": 1,
    "separate_reasoning": False,
    "reasoning_effort": "none",
}
QUESTION = "Which licence may a library have, and why?"
# 2000 tokens take much longer than this.
SOON = 3.0
# An engine's front counts what its scheduler has refused for some seconds more, and its
# scheduler may finish what has been cancelled.
LINGERING = 30.0


class RealEngine:
    """What an engine says of itself."""

    def __init__(self, address: str) -> None:
        self.endpoint = parse_endpoint(address)
        self._channel = grpc.insecure_channel(self.endpoint.target)
        self.model = pb.GetModelInfoResponse.FromString(self._ask("GetModelInfo"))

    def _ask(self, method: str) -> bytes:
        call: Any = self._channel.unary_unary(f"/{SERVICE}/{method}", bytes, bytes)
        answer: bytes = call(b"", timeout=20, wait_for_ready=True)
        return answer

    @property
    def active(self) -> int:
        """How many requests the engine's front has open."""
        return pb.GetServerInfoResponse.FromString(self._ask("GetServerInfo")).active_requests

    @property
    def scheduled(self) -> int:
        """How many requests run or wait in the scheduler, as of a few steps ago."""
        loads = pb.GetLoadsResponse.FromString(self._ask("GetLoads")).loads
        return sum(load.num_running_reqs + load.num_waiting_reqs for load in loads)

    def wait_for(self, active: int, scheduled: int | None = None, within: float = SOON) -> None:
        """Waits until the front, and the scheduler if that is given, have that many requests."""
        deadline = time.monotonic() + within
        wanted = (active, scheduled)
        while True:
            found = (self.active, None if scheduled is None else self.scheduled)
            if found == wanted:
                return
            assert time.monotonic() < deadline, f"there are {found} and not {wanted}"
            time.sleep(0.02)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()


@pytest.fixture(scope="module")
def real_engine() -> Iterator[RealEngine]:
    engine = RealEngine(ENGINE)
    if not engine.model.is_generation:
        pytest.skip(f"{engine.model.model_path} does not generate text")
    engine.wait_for(0, 0, LINGERING)
    yield engine
    engine.wait_for(0, 0, LINGERING)
    engine.close()


StartReal = Callable[..., RouterProcess]


@pytest.fixture(scope="module", params=["native", "grpcio"])
def start_real(
    request: pytest.FixtureRequest,
    real_engine: RealEngine,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[StartReal]:
    """Starts routers in front of the engine, over one kind of channel."""
    if request.param == "native":
        request.getfixturevalue("native")
    routers: list[RouterProcess] = []
    cache: Path = tmp_path_factory.mktemp("tokenizers")

    def start(**settings: object) -> RouterProcess:
        router = RouterProcess(
            {
                "engine": f"grpc://{real_engine.endpoint.target}",
                "tokenizer": TOKENIZER,
                "cache_dir": cache,
                "channel": request.param,
                **settings,
            }
        )
        routers.append(router)
        router.start()
        return router

    yield start
    for router in routers:
        router.stop()


@pytest.fixture(scope="module")
def real_router(start_real: StartReal) -> RouterProcess:
    return start_real()


def ask(router: RouterProcess, content: str = QUESTION, /, **fields: Any) -> dict[str, Any]:
    """The whole answer to a greedy request."""
    response = router.chat(content, **(GREEDY | fields))
    assert response.status_code == 200, (response.text, router.log)
    answer: dict[str, Any] = response.json()
    return answer


def refusal(router: RouterProcess, content: str = QUESTION, /, **fields: Any) -> dict[str, Any]:
    """The error of a request that is the client's fault."""
    response = router.chat(content, **(GREEDY | fields))
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    return error


def text_of(answer: dict[str, Any], index: int = 0) -> str:
    text: str = answer["choices"][index]["message"]["content"]
    return text


def test_a_stream_is_the_whole_answer(real_router: RouterProcess) -> None:
    fields: dict[str, Any] = {"max_tokens": 40}
    whole = ask(real_router, **fields)
    events = real_router.stream(
        QUESTION, **GREEDY, **fields, stream_options={"include_usage": True}
    )
    assert len(text_of(whole)) > 1
    assert joined(events) == text_of(whole)
    assert finish_reason(events) == whole["choices"][0]["finish_reason"]
    ours, theirs = events[-1]["usage"], whole["usage"]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert ours[name] == theirs[name]
    # It comes token by token, not at the end.
    contents = [event for event in events[:-1] if event["choices"][0]["delta"].get("content")]
    assert len(contents) > whole["usage"]["completion_tokens"] // 2


@pytest.mark.parametrize("stream", [False, True])
def test_max_tokens_ends_with_length_and_usage_adds_up(
    real_router: RouterProcess, stream: bool
) -> None:
    fields: dict[str, Any] = {"max_tokens": 7, "ignore_eos": True}
    if stream:
        events = real_router.stream(
            QUESTION, **GREEDY, **fields, stream_options={"include_usage": True}
        )
        reason, usage = finish_reason(events), events[-1]["usage"]
    else:
        answer = ask(real_router, **fields)
        reason, usage = answer["choices"][0]["finish_reason"], answer["usage"]
    assert reason == "length"
    assert usage["completion_tokens"] == 7
    assert usage["prompt_tokens"] > len(QUESTION.split())
    assert usage["total_tokens"] == usage["prompt_tokens"] + 7


@pytest.mark.parametrize("stream", [False, True])
def test_n_gives_choices_of_their_own(real_router: RouterProcess, stream: bool) -> None:
    single = ask(real_router, max_tokens=1)["usage"]["prompt_tokens"]
    fields: dict[str, Any] = {"n": 2, "max_tokens": 24, "ignore_eos": True, "temperature": 2}
    if stream:
        events = real_router.stream(
            QUESTION, **(GREEDY | fields), stream_options={"include_usage": True}
        )
        answers = [joined(events, 0), joined(events, 1)]
        reasons = [finish_reason(events, 0), finish_reason(events, 1)]
        usage = events[-1]["usage"]
    else:
        answer = ask(real_router, **fields)
        assert [choice["index"] for choice in answer["choices"]] == [0, 1]
        answers = [text_of(answer, 0), text_of(answer, 1)]
        reasons = [choice["finish_reason"] for choice in answer["choices"]]
        usage = answer["usage"]
    assert all(answers)
    assert answers[0] != answers[1]
    assert reasons == ["length", "length"]
    assert usage["completion_tokens"] == 2 * 24
    assert usage["prompt_tokens"] == single


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_are_those_of_the_text(real_router: RouterProcess, stream: bool) -> None:
    fields: dict[str, Any] = {
        "max_tokens": 24,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "logprobs": True,
        "top_logprobs": 3,
    }
    if stream:
        events = real_router.stream(QUESTION, **GREEDY, **fields)
        text = joined(events)
        entries = [
            entry
            for event in events
            for entry in (event["choices"][0].get("logprobs") or {"content": []})["content"]
        ]
    else:
        answer = ask(real_router, **fields)
        text, entries = text_of(answer), answer["choices"][0]["logprobs"]["content"]
        assert answer["usage"]["completion_tokens"] == 24
    assert len(entries) == 24
    raw = b"".join(bytes(entry["bytes"] or ()) for entry in entries)
    assert raw.decode("utf-8", "replace") == text
    for entry in entries:
        assert len(entry["top_logprobs"]) == 3
        most = [other["logprob"] for other in entry["top_logprobs"]]
        assert most == sorted(most, reverse=True)
        # A greedy answer takes the likeliest token.
        assert entry["logprob"] == pytest.approx(most[0], abs=1e-3)
        assert -30 < entry["logprob"] <= 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_is_trimmed(real_router: RouterProcess, stream: bool) -> None:
    whole = text_of(ask(real_router, max_tokens=40, ignore_eos=True))
    # Across tokens, in all likelihood, and not at the beginning.
    middle = len(whole) // 2
    stop = whole[middle : middle + 5]
    before = whole[: whole.index(stop)]
    if "\ufffd" in stop or not before:
        pytest.skip(f"the model's answer has no text to stop at: {whole!r}")
    fields: dict[str, Any] = {"max_tokens": 40, "ignore_eos": True, "stop": stop}
    if stream:
        events = real_router.stream(
            QUESTION, **GREEDY, **fields, stream_options={"include_usage": True}
        )
        text, reason, usage = joined(events), finish_reason(events), events[-1]["usage"]
    else:
        answer = ask(real_router, **fields)
        text, reason = text_of(answer), answer["choices"][0]["finish_reason"]
        usage = answer["usage"]
        assert answer["choices"][0]["matched_stop"] == stop
    assert text == before
    assert reason == "stop"
    # By the engine, or by the router that cuts the text: nobody went on.
    assert usage["completion_tokens"] < 40


SCHEMA = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["fruit", "stone"]},
        "ripe": {"type": "boolean"},
        "sizes": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2},
    },
    "required": ["kind", "ripe", "sizes"],
    "additionalProperties": False,
}
# All that the schema allows, without white space.
THINGS = [
    json.dumps({"kind": kind, "ripe": ripe, "sizes": sizes}, separators=(",", ":"))
    for kind, ripe, *sizes in itertools.product(["fruit", "stone"], [True, False], [1, 2], [1, 2])
]
BLANKS = (
    "the model fills its answer with white space: start the engine with "
    "--constrained-json-disable-any-whitespace"
)


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_holds(real_router: RouterProcess, stream: bool) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}
    fields: dict[str, Any] = {"response_format": wanted, "max_tokens": 300}
    if stream:
        events = real_router.stream(QUESTION, **GREEDY, **fields)
        text, reason = joined(events), finish_reason(events)
    else:
        answer = ask(real_router, **fields)
        text, reason = text_of(answer), answer["choices"][0]["finish_reason"]
    written = "".join(text.split())
    assert any(thing.startswith(written) for thing in THINGS), text
    if reason == "length":
        pytest.skip(BLANKS)
    assert reason == "stop"
    assert written in THINGS
    json.loads(text)


@pytest.mark.parametrize("field", ["regex", "ebnf"])
def test_a_pattern_holds(real_router: RouterProcess, field: str) -> None:
    grammar = {
        "regex": "(oak|elm)-[0-9]{3} naïve",
        "ebnf": 'root ::= ("oak" | "elm") "-" [0-9] [0-9] [0-9] " naïve"',
    }[field]
    answer = ask(real_router, **{field: grammar}, max_tokens=60)
    assert re.fullmatch("(oak|elm)-[0-9]{3} naïve", text_of(answer)), text_of(answer)
    assert answer["choices"][0]["finish_reason"] == "stop"


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"enum": ["Oslo", "Łódź"]},
                "days": {"enum": [1, 2, 3]},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


# By the format that the template tells, else a JSON array; and by a structural tag.
@pytest.mark.parametrize("parser", ["auto", "qwen25"])
def test_a_forced_call_is_made(start_real: StartReal, parser: str) -> None:
    router = start_real(tool_call_parser=parser)
    fields: dict[str, Any] = {
        "tools": [TOOL],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 300,
    }
    choice = ask(router, **fields)["choices"][0]
    # A call that must come is all there is, finished or not.
    assert not (choice["message"]["content"] or "").strip()
    if choice["finish_reason"] == "length":
        pytest.skip(BLANKS)
    assert choice["finish_reason"] == "tool_calls", choice
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    arguments = json.loads(call["function"]["arguments"])
    assert arguments["city"] in ("Oslo", "Łódź")
    assert arguments["days"] in (1, 2, 3)

    events = router.stream(QUESTION, **GREEDY, **fields)
    assert finish_reason(events) == "tool_calls"
    deltas = [
        call for event in events for call in event["choices"][0]["delta"].get("tool_calls") or ()
    ]
    assert deltas[0]["function"]["name"] == "get_weather"
    assert json.loads("".join(delta["function"]["arguments"] for delta in deltas)) == arguments
    assert joined(events) == (choice["message"]["content"] or "")


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_the_engine(
    real_router: RouterProcess, real_engine: RealEngine, stream: bool, n: int
) -> None:
    real_engine.wait_for(0, 0, LINGERING)
    body = chat_body(QUESTION, stream=stream, n=n, ignore_eos=True, max_tokens=2000)
    client = http.client.HTTPConnection("127.0.0.1", real_router.port, timeout=20)
    try:
        client.request("POST", "/v1/chat/completions", json.dumps(body))
        if stream:
            response = client.getresponse()
            assert response.status == 200
            while b'"content":"' not in (line := response.readline()) or b'""' in line:
                assert line, "the stream has ended"
        real_engine.wait_for(n, n)
        if stream:
            response.close()
    finally:
        client.close()
    real_engine.wait_for(0)
    assert text_of(ask(real_router, max_tokens=4))
    # Its scheduler, too, even if it was writing a token when the cancellation came.
    real_engine.wait_for(0, 0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("field", "grammar"), [("regex", "((("), ("ebnf", "root ::= (((")])
def test_a_bad_grammar_is_the_clients_fault(
    real_router: RouterProcess, field: str, grammar: str, stream: bool
) -> None:
    error = refusal(real_router, **{field: grammar}, stream=stream)
    assert (error["param"], error["code"]) == (field, "invalid_grammar")
    assert text_of(ask(real_router, max_tokens=4))


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_is_the_clients_fault(
    real_router: RouterProcess, real_engine: RealEngine, stream: bool
) -> None:
    words = max(real_engine.model.max_context_length, real_engine.model.max_req_input_len)
    error = refusal(real_router, "why " * words, stream=stream)
    assert (error["param"], error["code"]) == ("messages", "context_length_exceeded")
    assert text_of(ask(real_router, max_tokens=4))


def test_the_longest_prompt_is_answered(
    real_router: RouterProcess, real_engine: RealEngine
) -> None:
    """What the router lets through is what the engine takes, to the token."""
    longest = real_engine.model.max_req_input_len
    if not 0 < longest <= 16384:
        pytest.skip(f"a prompt of {longest} tokens takes long to compute")

    def tokens(words: int) -> int:
        usage = ask(real_router, "x" + " 7" * words, max_tokens=1)["usage"]
        count: int = usage["prompt_tokens"]
        return count

    fixed = tokens(100) - 100
    if tokens(200) != fixed + 200:
        pytest.skip("the tokenizer does not make a token of each word")
    for spare in range(16):
        response = real_router.chat("x" + " 7" * (longest - fixed - spare), max_tokens=1)
        if response.status_code == 200:
            break
        assert response.json()["error"]["code"] == "context_length_exceeded"
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["prompt_tokens"] == longest - spare
    assert spare <= 1, f"the router refuses {spare} tokens that the engine would take"
