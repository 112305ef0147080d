"""The messages that engines get: every field set, readable by the engine's own schema."""

from __future__ import annotations

import subprocess
import sys

import pytest
from smg_grpc_proto.generated import sglang_scheduler_pb2 as theirs

from sglrouter.engines.wire.scheduler import (
    CONSTRAINTS,
    EngineFacts,
    Sampling,
    _options,
    generate_request,
    new_request_id,
    read_model_info,
)


def sent(sampling: Sampling, **fields: object) -> theirs.GenerateRequest:
    arguments = {"request_id": "id", "text": "text", "ids": [1, 2], "stream": True, **fields}
    message = generate_request(sampling=sampling, **arguments)  # type: ignore[arg-type]
    return theirs.GenerateRequest.FromString(message)


def test_defaults_are_sent_as_values() -> None:
    request = sent(Sampling())
    params = request.sampling_params
    # Each of these would mean something else if it were left at zero.
    assert params.temperature == 1.0
    assert params.top_p == 1.0
    assert params.top_k == -1
    assert params.repetition_penalty == 1.0
    assert params.n == 1
    assert params.skip_special_tokens
    assert params.spaces_between_special_tokens
    assert request.logprob_start_len == -1
    assert not params.HasField("max_new_tokens")
    assert params.WhichOneof("constraint") is None


def test_every_value_arrives() -> None:
    sampling = Sampling(
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        min_p=0.125,
        frequency_penalty=-0.5,
        presence_penalty=0.75,
        repetition_penalty=1.5,
        max_new_tokens=0,
        min_new_tokens=3,
        stop=("a", "b"),
        stop_token_ids=(4, 5),
        ignore_eos=True,
        no_stop_trim=True,
        skip_special_tokens=False,
        logit_bias=((9, -2.0),),
        constraint=("regex", "a+"),
    )
    request = sent(sampling, logprobs=True, top_logprobs=2, lora_id="adapter", stream=False)
    params = request.sampling_params
    assert (params.temperature, params.top_p, params.top_k) == (0.5, 0.25, 7)
    assert (params.min_p, params.frequency_penalty) == (0.125, -0.5)
    assert (params.presence_penalty, params.repetition_penalty) == (0.75, 1.5)
    assert params.HasField("max_new_tokens")
    assert (params.max_new_tokens, params.min_new_tokens) == (0, 3)
    assert (list(params.stop), list(params.stop_token_ids)) == (["a", "b"], [4, 5])
    assert params.ignore_eos
    assert params.no_stop_trim
    assert not params.skip_special_tokens
    assert dict(params.logit_bias) == {"9": -2.0}
    assert params.regex == "a+"
    assert request.return_logprob
    assert request.top_logprobs_num == 2
    assert request.lora_id == "adapter"
    assert not request.stream
    assert request.tokenized.original_text == "text"
    assert list(request.tokenized.input_ids) == [1, 2]


def test_scores_of_the_prompt_and_of_selected_ids_are_asked_for() -> None:
    request = sent(Sampling(), logprobs=True, logprob_start_len=0, token_ids_logprob=[5, 70_000])
    assert request.return_logprob
    assert request.logprob_start_len == 0
    assert list(request.token_ids_logprob) == [5, 70_000]
    assert sent(Sampling(), logprobs=True, logprob_start_len=300).logprob_start_len == 300
    assert not sent(Sampling(), logprobs=True).token_ids_logprob


def test_prompts_of_many_lengths_do_not_crowd_out_what_is_remembered() -> None:
    before = _options.cache_info().currsize
    for start in range(1000):
        sent(Sampling(max_new_tokens=start), logprob_start_len=start, token_ids_logprob=[start])
    assert _options.cache_info().currsize <= before + 1


@pytest.mark.parametrize("interval", [1, 300])
def test_a_stream_interval_is_sent_only_if_given(interval: int) -> None:
    assert not sent(Sampling()).sampling_params.HasField("stream_interval")
    params = sent(Sampling(max_new_tokens=0), stream_interval=interval).sampling_params
    assert (params.stream_interval, params.max_new_tokens) == (interval, 0)


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_each_constraint_has_its_field(kind: str) -> None:
    params = sent(Sampling(constraint=(kind, "text"))).sampling_params
    assert params.WhichOneof("constraint") == kind
    assert getattr(params, kind) == "text"


def test_request_ids_are_distinct_and_of_one_length() -> None:
    ids = {new_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(request_id) for request_id in ids} == {32}


def test_forked_workers_draw_different_ids() -> None:
    # Engines cross the outputs of two live requests with one id. In a process of its
    # own, since a test's process has threads that a fork does not take along.
    script = """
import os
from sglrouter.engines.wire.scheduler import new_request_id
for _ in range(3):
    if not os.fork():
        os.write(1, (new_request_id() + "\\n").encode())
        os._exit(0)
    os.wait()
os.write(1, new_request_id().encode())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert len(set(done.stdout.split())) == 4


@pytest.mark.parametrize("text", ["", "{", "[]", '{"top_k": "x"}', '{"top_p": true}'])
def test_odd_sampling_defaults_are_no_defaults(text: str) -> None:
    message = theirs.GetModelInfoResponse(default_sampling_params_json=text).SerializeToString()
    assert dict(read_model_info(message).sampling_defaults) == {}


def test_the_facts_are_those_of_the_message() -> None:
    message = theirs.GetModelInfoResponse(
        model_path="/models/name",
        tokenizer_path="/models/tokenizer",
        is_generation=True,
        preferred_sampling_params='{"top_p":0.5}',
        weight_version="v2",
        served_model_name="served",
        supports_vision=True,
        model_type="qwen2",
        max_req_input_len=100,
        architectures=["A", "B"],
        id2label_json="{}",
        num_labels=2,
        default_sampling_params_json='{"top_p":0.5}',
    )
    assert read_model_info(message.SerializeToString()) == EngineFacts(
        max_prompt_tokens=99,
        sampling_defaults={"top_p": 0.5},
        served_model_name="served",
        model_path="/models/name",
        tokenizer_path="/models/tokenizer",
        is_generation=True,
        model_type="qwen2",
        architectures=("A", "B"),
        weight_version="v2",
        preferred_sampling_params='{"top_p":0.5}',
        supports_vision=True,
        id2label_json="{}",
        num_labels=2,
    )
    assert not read_model_info(b"").is_generation
