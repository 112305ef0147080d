"""Requests that an engine refuses, and those that it does not survive."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.sim.conftest import CONTEXT, VOCAB_SIZE
from tests.sim.wire import EngineClient, request

if TYPE_CHECKING:
    from sglrouter.sim import SimulatedEngine
    from tests.sim.conftest import Connect, StartEngine

LONGEST = CONTEXT - 6


def test_no_tokenized_input(client: EngineClient) -> None:
    asked = request()
    asked.ClearField("tokenized")
    reply = client.generate(asked)
    assert reply.code == "INVALID_ARGUMENT"
    assert reply.details == "Tokenized input must be provided"


def test_hidden_states(client: EngineClient) -> None:
    asked = request()
    asked.return_hidden_states = True
    reply = client.generate(asked)
    assert reply.code == "INVALID_ARGUMENT"
    assert "hidden states" in reply.details


@pytest.mark.parametrize(("count", "code"), [(32, "OK"), (33, "INVALID_ARGUMENT")])
def test_more_than_32_stops(client: EngineClient, count: int, code: str) -> None:
    reply = client.generate(request(stop=[f"s{index}" for index in range(count)]))
    assert reply.code == code
    if code != "OK":
        assert reply.details == "at most 32 stop strings are allowed, got 33"


def test_a_prompt_must_be_shorter_than_the_limit(client: EngineClient) -> None:
    assert client.generate(request([10] * (LONGEST - 1), max_new_tokens=1)).code == "OK"
    reply = client.generate(request([10] * LONGEST, max_new_tokens=1))
    assert reply.code == "INVALID_ARGUMENT"
    assert reply.details == (
        f"Input length ({LONGEST} tokens) exceeds the maximum allowed length ({LONGEST} tokens). "
        "Use a shorter input or enable --allow-auto-truncate."
    )
    assert not reply.messages


def test_a_refusal_of_several_samples_is_one_status(client: EngineClient) -> None:
    for stream in (True, False):
        reply = client.generate(request([10] * LONGEST, n=2, stream=stream))
        assert reply.code == "INVALID_ARGUMENT"
        assert not reply.messages


def test_logprob_start_len_past_the_prompt(client: EngineClient) -> None:
    reply = client.generate(request(logprobs=True, logprob_start_len=5))
    assert reply.code == "INVALID_ARGUMENT"
    assert reply.details.startswith(
        "req.logprob_start_len=5 is higher than the number of input tokens "
        "len(req.origin_input_ids)=4."
    )
    assert client.generate(request(logprob_start_len=5)).code == "OK"


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ({"json_schema": "{not json"}, "json grammar: Expecting property name"),
        ({"json_schema": "[1]"}, "json grammar: "),
        ({"structural_tag": "nope"}, "structural_tag grammar: "),
        ({"regex": "((("}, "Regex parsing error at position 4: The parenthesis is not closed.\n"),
        ({"regex": "a**"}, "Regex parsing error at position 3: Multiple repeat.\n"),
        ({"ebnf_grammar": "root ::= ((("}, "at line 1, column 13: Expect element, but got \n"),
        ({"ebnf_grammar": 'root ::= "a'}, "Expect element"),
        ({"ebnf_grammar": "just text"}, "Expect rule name"),
        ({"ebnf_grammar": 'start ::= "a"'}, "root rule"),
    ],
)
def test_constraints_that_do_not_compile(
    client: EngineClient, constraint: dict[str, Any], words: str
) -> None:
    reply = client.generate(request(**constraint))
    assert reply.code == "INVALID_ARGUMENT"
    assert reply.details.startswith("Failed to compile ")
    assert words in reply.details


@pytest.mark.parametrize(
    "constraint",
    [
        {"json_schema": '{"type": "object"}'},
        {"json_schema": "$$ANY$$"},
        {"json_schema": "true"},
        {"structural_tag": '{"type": "structural_tag"}'},
        {"regex": r"(yes|no)\d+"},
        {"ebnf_grammar": 'root ::= "a"'},
        {"ebnf_grammar": '# one rule\nroot ::= ("(" item)*\nitem ::= [a-z"(] | "\\""'},
    ],
)
def test_constraints_that_compile(client: EngineClient, constraint: dict[str, Any]) -> None:
    assert client.generate(request(**constraint)).code == "OK"


def test_undecodable_bytes(client: EngineClient) -> None:
    assert client.generate(b"\xff\xff\xff").code == "UNKNOWN"  # type: ignore[arg-type]


def test_values_that_nobody_checks(client: EngineClient) -> None:
    for odd in (
        {"temperature": -1.0},
        {"top_p": 2.0, "temperature": 1.0},
        {"frequency_penalty": 50.0, "temperature": 1.0},
        {"min_new_tokens": 9, "max_new_tokens": 3},
        {"temperature": 1e-9},
    ):
        assert client.generate(request(**({"max_new_tokens": 3} | odd))).code == "OK"


DEADLY: dict[str, dict[str, Any]] = {
    "no ids": {"ids": []},
    "token id": {"ids": [10, VOCAB_SIZE]},
    "logit_bias key": {"logit_bias": {str(VOCAB_SIZE): 1.0}},
    "logit_bias text": {"logit_bias": {"abc": 1.0}},
    "top_logprobs_num": {"logprobs": True, "top": VOCAB_SIZE + 1},
    "token_ids_logprob": {"logprobs": True, "selected": [VOCAB_SIZE]},
    "min_new_tokens": {"min_new_tokens": 1, "stop_token_ids": [VOCAB_SIZE]},
    "min_p": {"min_p": 1.5, "temperature": 1.0},
    "top_k": {"top_k": -2, "temperature": 1.0},
    "repetition_penalty": {"repetition_penalty": -1.0, "temperature": 1.0},
}

NEAR_MISSES: dict[str, dict[str, Any]] = {
    "token id": {"ids": [10, VOCAB_SIZE - 1]},
    "logit_bias key": {"logit_bias": {str(VOCAB_SIZE - 1): 1.0, "0": 1.0}},
    "top_logprobs_num": {"logprobs": True, "top": VOCAB_SIZE},
    "top_logprobs_num without logprobs": {"top": VOCAB_SIZE + 1},
    "token_ids_logprob": {"logprobs": True, "selected": [VOCAB_SIZE - 1]},
    "min_new_tokens": {"min_new_tokens": 1, "stop_token_ids": [VOCAB_SIZE - 1]},
    "stop_token_ids alone": {"stop_token_ids": [VOCAB_SIZE]},
    "min_p": {"min_p": 1.0, "temperature": 1.0},
    "top_k": {"top_k": -1, "temperature": 1.0},
    "repetition_penalty": {"repetition_penalty": 0.0, "temperature": 1.0},
}


@pytest.mark.parametrize("name", DEADLY)
def test_deadly(sim: SimulatedEngine, client: EngineClient, name: str) -> None:
    # Long enough to see the end, whatever else this machine does.
    bystander = client.start("Generate", request(ignore_eos=True, max_new_tokens=LONGEST - 20))
    sim.options.token_delay = 0.05
    bystander.read(1)
    reply = client.generate(request(**({"max_new_tokens": 2} | DEADLY[name])))
    assert reply.code == "UNAVAILABLE"
    assert "Socket closed" in reply.details
    assert not sim.alive
    assert sim.death
    assert bystander.finish().code == "UNAVAILABLE"
    sim.wait_until(lambda: "connect" in client.health().details)
    assert client.health().code == "UNAVAILABLE"
    # Nobody cancelled: the engine went away.
    assert sim.cancelled == []


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_not_deadly(sim: SimulatedEngine, client: EngineClient, name: str) -> None:
    reply = client.generate(request(**({"max_new_tokens": 2} | NEAR_MISSES[name])))
    assert reply.code == "OK"
    assert reply.completes
    assert sim.alive
    assert sim.death is None


def test_a_deadly_request_kills_when_its_turn_comes(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine(max_running_requests=1, token_delay=0.02)
    client = connect(sim)
    running = client.start("Generate", request(ignore_eos=True, max_new_tokens=10))
    running.read(1)
    deadly = client.start("Generate", request([]))
    sim.wait_until(lambda: sim.waiting == 1)
    assert sim.alive
    ended = threading.Thread(target=deadly.finish)
    ended.start()
    assert running.finish().kinds.count("chunk") == 10
    ended.join(5)
    sim.wait_until(lambda: not sim.alive)
    assert sim.death == "empty input_ids"
