"""The simulated engine against captures of the real one, call by call.

Every capture is either replayed here or listed in NOT_REPLAYED with the reason; a test
sees to it that none is forgotten.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from sglrouter._proto import health
from sglrouter._proto import scheduler as pb
from tests.patience import DEADLINE
from tests.sim.captures import Capture, read_capture, shapes, status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sglrouter.sim import SimulatedEngine
    from tests.sim.conftest import Connect, StartEngine
    from tests.sim.wire import EngineClient, LiveCall

    Load = Callable[[str], Capture]

pytestmark = pytest.mark.corpus

NOT_REPLAYED = {
    "channel_large_request": "holds no request; test_generate sends one of that size",
    "keepalive_11s": "33 s of idle pings and no call",
    "kv_events": "SubscribeKvEvents is no part of our schema",
    "kv_events_load_first": "SubscribeKvEvents is no part of our schema",
    "kv_events_resume_7": "SubscribeKvEvents is no part of our schema",
    "risk_rep_penalty_neg": "ran in one batch with the next and hung until the engine died; "
    "the simulated engine dies at once (test_refusals)",
    "risk_top_k_minus_5": "ran in one batch with the one before and got a chunk after 10 s; "
    "the simulated engine dies at once (test_refusals)",
}

# Answered to the end or refused; compared message by message.
COMPLETE = [
    "bad_freq_penalty_50",
    "bad_min_gt_max",
    "bad_temperature_neg",
    "bad_top_p_2",
    "empty_request_id",
    "err_bad_custom_logit_processor",
    "err_bad_ebnf",
    "err_bad_json_schema",
    "err_bad_regex",
    "err_hidden_states",
    "err_lora_unknown",
    "err_no_tokenized",
    "err_prompt_too_long",
    "err_stop_33",
    "nonstream_echo_score_max0",
    "nonstream_eos",
    "nonstream_input_logprobs_top2",
    "nonstream_logprobs_top3",
    "nonstream_long120",
    "nonstream_n2",
    "nonstream_n4_serial",
    "nonstream_plain",
    "nonstream_stop_str_multi_token",
    "nonstream_stop_token",
    "nonstream_token_ids_logprob",
    "ok_abort_before_prefill",
    "ok_json_schema",
    "ok_regex",
    "risk_dp_rank_7",
    "risk_logit_bias_inf",
    "risk_logprob_start_beyond",
    "risk_require_reasoning",
    "risk_stop_empty_string",
    "risk_stop_str_ignore_eos",
    "risk_stop_token_oov",
    "risk_temperature_nan",
    "risk_temperature_tiny",
    "stream_base24",
    "stream_during_flush",
    "stream_during_profile",
    "stream_eos",
    "stream_eos_ignored",
    "stream_eos_min_new4",
    "stream_for_kv_events",
    "stream_for_kv_events2",
    "stream_freq_presence_penalty",
    "stream_input_logprobs_top2",
    "stream_interval4",
    "stream_len1",
    "stream_logprobs_interval4",
    "stream_logprobs_top0",
    "stream_logprobs_top3",
    "stream_max_new_0",
    "stream_min_p",
    "stream_n0",
    "stream_n2",
    "stream_plain",
    "stream_plain_again_cached",
    "stream_rep_penalty",
    "stream_sampled_seedless",
    "stream_stop_str_mid_token",
    "stream_stop_str_multi_token",
    "stream_stop_str_one_token",
    "stream_stop_str_two",
    "stream_stop_token",
    "stream_stop_token_noignore",
    "stream_token_ids_logprob",
    "zero_defaults_nonstream_len0",
]

# Finds in the cache what another capture left there.
AFTER = {"stream_for_kv_events2": "stream_for_kv_events"}

CANCELLED = ["err_max_new_too_long", "stream_client_cancel", "zero_defaults"]

DEADLY = [
    "err_empty_ids",
    "kill_oov_logit_bias",
    "kill_oov_token",
    "risk_logit_bias_key_text",
    "risk_min_new_stop_token_oov",
    "risk_min_p_5",
    "risk_token_ids_logprob_oov",
    "risk_top_logprobs_5000",
]

# Each has a test of its own below.
SINGLE = [
    "abort_unknown",
    "dup_id_first",
    "dup_id_second",
    "embed_health",
    "embed_model_info",
    "embed_ok",
    "embed_on_generation_model",
    "embed_too_long",
    "flush_cache_busy",
    "flush_cache_idle",
    "flush_cache_kv",
    "generate_on_embedding_model",
    "get_tokenizer",
    "grpc_health_v1",
    "health_after_oov_bias",
    "health_after_oov_token",
    "health_check",
    "list_lora",
    "load_lora",
    "loads_all",
    "loads_bad_section",
    "loads_core",
    "model_info",
    "nonstream_abort_rpc",
    "queue_abort_waiting",
    "queue_full",
    "queue_health_while_busy",
    "queue_loads",
    "queue_loads_later",
    "queue_running",
    "queue_waiting_aborted",
    "queue_waiting_ok",
    "server_info",
    "start_profile",
    "stop_profile",
    "stop_profile_twice",
    "stream_abort_by_prefix",
    "stream_abort_rpc",
    "stream_deadline",
    "stream_n2_abort_rpc",
    "stream_server_sigterm",
]

# What the model says without a bias: the script for the captures that force tokens.
UNBIASED = [1757, 202, 1424, 1381, 1190, 1638]


@pytest.fixture(scope="module")
def captures(corpus: Path) -> Path:
    return corpus / "captures"


@pytest.fixture
def load(captures: Path) -> Load:
    return lambda name: read_capture(captures, name)


@pytest.fixture(scope="module")
def captured_model(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder out of the archive that the real engine sent."""
    path = tmp_path_factory.mktemp("captured")
    (chunk,) = read_capture(captures, "get_tokenizer").messages
    with zipfile.ZipFile(io.BytesIO(chunk.data)) as archive:
        archive.extractall(path)
    return path


@pytest.fixture
def real_twin(start_engine: StartEngine, captured_model: Path) -> StartEngine:
    def start(**options: Any) -> SimulatedEngine:
        return start_engine(**({"model": captured_model, "max_running_requests": 8} | options))

    return start


def prepare(
    sim: SimulatedEngine, client: EngineClient, capture: Capture, before: Capture | None = None
) -> None:
    """Puts the prompt into the cache if the real engine had it, and sets the scripts."""
    if before is not None:
        sim.script(*before.samples)
        assert client.generate(before.request).code == "OK"
    elif capture.warm:
        warm_up = pb.GenerateRequest()
        warm_up.CopyFrom(capture.request)
        warm_up.request_id = "warm-up"
        warm_up.sampling_params.Clear()
        warm_up.sampling_params.max_new_tokens = 0
        assert client.generate(warm_up).code == "OK"
    if capture.request.sampling_params.logit_bias:
        sim.script(UNBIASED)
    else:
        sim.script(*capture.samples)


def test_no_capture_is_forgotten(captures: Path) -> None:
    treated = [*NOT_REPLAYED, *COMPLETE, *CANCELLED, *DEADLY, *SINGLE]
    assert sorted(treated) == sorted(path.stem for path in captures.glob("*.jsonl"))


@pytest.mark.parametrize("name", COMPLETE)
def test_complete(real_twin: StartEngine, connect: Connect, load: Load, name: str) -> None:
    capture = load(name)
    sim = real_twin()
    client = connect(sim)
    prepare(sim, client, capture, load(AFTER[name]) if name in AFTER else None)
    reply = client.generate(capture.request)
    assert shapes(reply.messages) == shapes(capture.messages)
    assert status(reply) == status(capture)
    assert sim.alive


@pytest.mark.parametrize("name", CANCELLED)
def test_cancelled(real_twin: StartEngine, connect: Connect, load: Load, name: str) -> None:
    capture = load(name)
    sim = real_twin()
    client = connect(sim)
    prepare(sim, client, capture)
    sim.options.token_delay = 0.01
    call = client.start("Generate", capture.request)
    call.read(len(capture.messages))
    assert shapes(call.messages) == shapes(capture.messages)
    call.cancel()
    assert call.finish().code == capture.code
    sim.wait_until(lambda: sim.active == sim.running == 0)


@pytest.mark.parametrize("name", DEADLY)
def test_deadly(real_twin: StartEngine, connect: Connect, load: Load, name: str) -> None:
    capture = load(name)
    sim = real_twin()
    reply = connect(sim).generate(capture.request)
    assert (reply.code, reply.messages) == (capture.code, [])
    assert not sim.alive


def test_health_of_a_dead_engine(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    for killer, name in (
        ("kill_oov_token", "health_after_oov_token"),
        ("kill_oov_logit_bias", "health_after_oov_bias"),
    ):
        sim = real_twin()
        client = connect(sim)
        client.generate(load(killer).request)
        capture = load(name)

        def refused(client: EngineClient = client, capture: Capture = capture) -> bool:
            reply = client.call("HealthCheck", capture.request)
            assert reply.code == capture.code
            return "Connection refused" in reply.details

        assert "Connection refused" in capture.details
        sim.wait_until(refused)


def stream_until(
    sim: SimulatedEngine, client: EngineClient, capture: Capture, count: int, timeout: float
) -> LiveCall:
    """Starts a capture's endless call and reads some messages of it."""
    prepare(sim, client, capture)
    sim.options.token_delay = 0.01
    call = client.start("Generate", capture.request, timeout=timeout)
    call.read(count)
    return call


def test_abort_by_its_own_id(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("stream_abort_rpc")
    sim = real_twin()
    client = connect(sim)
    call = stream_until(sim, client, capture, 5, 0.6)
    client.call("Abort", pb.AbortRequest(request_id=capture.request.request_id))
    reply = call.finish()
    assert shapes(reply.messages[:5]) == shapes(capture.messages[:5])
    assert set(reply.kinds) == {"chunk"}
    assert reply.code == capture.code == "DEADLINE_EXCEEDED"

    capture = load("nonstream_abort_rpc")
    call = client.start("Generate", capture.request, timeout=DEADLINE)
    sim.wait_until(lambda: sim.running == 1)
    client.call("Abort", pb.AbortRequest(request_id=capture.request.request_id))
    reply = call.finish()
    assert (reply.messages, reply.code) == (capture.messages, capture.code)


def test_abort_by_prefix(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    for name, prefix in (
        ("stream_abort_by_prefix", "pfxtest"),
        ("stream_n2_abort_rpc", load("stream_n2_abort_rpc").request.request_id),
    ):
        capture = load(name)
        sim = real_twin()
        client = connect(sim)
        call = stream_until(sim, client, capture, 4, 10.0)
        client.call("Abort", pb.AbortRequest(request_id=prefix))
        reply = call.finish()
        assert status(reply) == status(capture)
        ours, theirs = shapes(reply.messages), shapes(capture.messages)
        assert ours.keys() == theirs.keys()
        for index, messages in ours.items():
            assert messages[0] == theirs[index][0]
            assert [each["kind"] for each in messages[-2:]] == ["chunk", "complete"]
            assert messages[-1]["ids"] == messages[-2]["ids"]
            for key in ("finish_reason", "matched", "cached_tokens", "prompt_tokens"):
                assert messages[-1][key] == theirs[index][-1][key]


def test_abort_of_an_unknown_id(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("abort_unknown")
    reply = connect(real_twin()).call("Abort", capture.request)
    assert (reply.messages, status(reply)) == (capture.messages, status(capture))


def test_deadline(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("stream_deadline")
    sim = real_twin()
    reply = stream_until(sim, connect(sim), capture, 5, 0.5).finish()
    assert reply.code == capture.code
    assert shapes(reply.messages[:5]) == shapes(capture.messages[:5])
    sim.wait_until(lambda: sim.active == sim.running == 0)


def test_sigterm(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("stream_server_sigterm")
    sim = real_twin()
    call = stream_until(sim, connect(sim), capture, 10, 10.0)
    # Half a second instead of the five that the real one grants.
    sim.stop(grace=0.5)
    reply = call.finish()
    assert len(reply.messages) > 10
    assert status(reply) == status(capture) == ("UNAVAILABLE", "Cancelling all calls")
    assert shapes(reply.messages[:10]) == shapes(capture.messages[:10])


def test_two_calls_with_one_id(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    first, second = load("dup_id_first"), load("dup_id_second")
    sim = real_twin()
    client = connect(sim)
    call = stream_until(sim, client, first, 10, 1.5)
    reply = client.generate(second.request)
    assert status(reply) == status(second)
    assert shapes([reply.messages[-1]])[0][0].keys() == shapes([second.messages[-1]])[0][0].keys()
    for messages in (reply.messages, second.messages):
        counts = [each.chunk.completion_tokens for each in messages if each.HasField("chunk")]
        own = iter(counts)
        assert all(count in own for count in range(1, 9))
        assert max(counts) > 10
        assert messages[-1].complete.completion_tokens == 8
    lost = call.finish()
    assert lost.code == first.code
    assert not lost.completes


def test_queue(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    sim = real_twin(max_running_requests=1, max_queued_requests=2, token_delay=0.003)
    client = connect(sim)
    running, waiting = load("queue_running"), load("queue_waiting_ok")
    aborted, refused = load("queue_waiting_aborted"), load("queue_full")
    sim.script(*running.samples, *waiting.samples)
    calls = {"running": client.start("Generate", running.request)}
    calls["running"].read(1)
    for count, capture in enumerate((waiting, aborted), start=1):
        calls[capture.name] = client.start("Generate", capture.request, timeout=5.0)
        sim.wait_until(lambda count=count: sim.waiting == count)  # type: ignore[misc]
    calls["refused"] = client.start("Generate", refused.request, timeout=DEADLINE)
    sim.wait_until(lambda: len(sim.requests) == 4)
    for name in ("queue_loads", "queue_loads_later"):
        capture = load(name)
        ours = client.call("GetLoads", capture.request).messages[0]
        theirs = capture.messages[0]
        for load_of in (ours, theirs):
            load_of.loads[0].ClearField("num_used_tokens")
            load_of.loads[0].ClearField("token_usage")
            load_of.aggregate.ClearField("avg_token_usage")
            load_of.loads[0].ClearField("memory")
            load_of.ClearField("timestamp")
        assert ours == theirs
    capture = load("queue_health_while_busy")
    assert client.call("HealthCheck", capture.request).messages == capture.messages
    capture = load("queue_abort_waiting")
    assert client.call("Abort", capture.request).messages == capture.messages
    assert sim.waiting == 1
    for key, capture in (("running", running), (waiting.name, waiting)):
        reply = calls[key].finish()
        assert shapes(reply.messages) == shapes(capture.messages)
        assert status(reply) == status(capture)
    assert (calls["refused"].finish().code, refused.messages) == (refused.code, [])
    calls[aborted.name].cancel()
    assert (calls[aborted.name].messages, aborted.messages) == ([], [])


def test_standard_health(real_twin: StartEngine, connect: Connect, captures: Path) -> None:
    client = connect(real_twin())
    for line in (captures / "grpc_health_v1.jsonl").read_text().splitlines():
        seen = json.loads(line)
        reply = client.health(seen["service"])
        if "code" in seen:
            assert (reply.code, reply.details) == (seen["code"], seen["details"])
        else:
            wanted = health.HealthCheckResponse.ServingStatus.Value(seen["decoded"]["status"])
            assert reply.messages[0].status == wanted


@pytest.mark.parametrize(
    ("names", "embedding"),
    [
        (["health_check"], False),
        (["embed_health"], True),
        (["list_lora"], False),
        (["load_lora"], False),
        (["loads_bad_section"], False),
        (["start_profile", "stop_profile", "stop_profile_twice"], False),
        (["flush_cache_idle", "flush_cache_kv"], False),
        (["embed_on_generation_model"], False),
    ],
)
def test_same_answer(
    real_twin: StartEngine,
    connect: Connect,
    load: Load,
    names: list[str],
    embedding: bool,
) -> None:
    client = connect(real_twin(embedding=embedding))
    for name in names:
        capture = load(name)
        reply = client.call(capture.rpc, capture.request)
        assert (reply.messages, status(reply)) == (capture.messages, status(capture))


def test_flush_of_a_busy_engine(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    sim = real_twin()
    client = connect(sim)
    call = stream_until(sim, client, load("stream_during_flush"), 2, 5.0)
    capture = load("flush_cache_busy")
    reply = client.call("FlushCache", capture.request)
    assert (reply.messages, status(reply)) == (capture.messages, status(capture))
    call.cancel()


@pytest.mark.parametrize("name", ["embed_too_long", "generate_on_embedding_model"])
def test_silence(real_twin: StartEngine, connect: Connect, load: Load, name: str) -> None:
    capture = load(name)
    client = connect(real_twin(embedding=True))
    reply = client.call(capture.rpc, capture.request, timeout=DEADLINE)
    assert (reply.messages, reply.code) == (capture.messages, capture.code)


def test_embedding(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("embed_ok")
    reply = connect(real_twin(embedding=True)).call("Embed", capture.request)
    ours, theirs = reply.messages[0], capture.messages[0]
    assert len(ours.embedding) == len(theirs.embedding)
    for message in (ours, theirs):
        assert sum(value * value for value in message.embedding) == pytest.approx(1.0, abs=1e-3)
        message.ClearField("embedding")
    assert ours == theirs


@pytest.mark.parametrize(("name", "embedding"), [("model_info", False), ("embed_model_info", True)])
def test_model_info(
    real_twin: StartEngine,
    connect: Connect,
    load: Load,
    name: str,
    embedding: bool,
) -> None:
    capture = load(name)
    reply = connect(real_twin(embedding=embedding)).call("GetModelInfo", capture.request)
    ours, theirs = reply.messages[0], capture.messages[0]
    for message in (ours, theirs):
        assert message.model_path == message.tokenizer_path
        message.ClearField("model_path")
        message.ClearField("tokenizer_path")
    assert ours == theirs


def test_server_info(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("server_info")
    ours = connect(real_twin()).call("GetServerInfo", capture.request).messages[0]
    theirs = capture.messages[0]
    for name in ("sglang_version", "server_type", "max_total_num_tokens", "active_requests"):
        assert getattr(ours, name) == getattr(theirs, name)
    for part in ("server_args", "scheduler_info"):
        reported, real = dict(getattr(ours, part)), dict(getattr(theirs, part))
        for key in ("model_path", "tokenizer_path", "port"):
            assert reported.pop(key, None) is None or key in real
        assert reported
        assert reported == {key: real[key] for key in reported}


@pytest.mark.parametrize("name", ["loads_all", "loads_core"])
def test_loads(real_twin: StartEngine, connect: Connect, load: Load, name: str) -> None:
    capture = load(name)
    ours = connect(real_twin()).call("GetLoads", capture.request).messages[0]
    theirs = capture.messages[0]
    for message in (ours, theirs):
        assert message.loads[0].HasField("memory") == (name == "loads_all")
        message.loads[0].ClearField("memory")
        message.ClearField("timestamp")
    assert ours == theirs


def test_tokenizer_archive(real_twin: StartEngine, connect: Connect, load: Load) -> None:
    capture = load("get_tokenizer")
    reply = connect(real_twin()).call("GetTokenizer", capture.request)
    contents = []
    for messages in (reply.messages, capture.messages):
        assert [bool(chunk.sha256) for chunk in messages] == [True]
        with zipfile.ZipFile(io.BytesIO(messages[0].data)) as archive:
            contents.append({name: archive.read(name) for name in archive.namelist()})
    assert contents[0] == contents[1]
