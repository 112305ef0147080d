"""Every call but Generate and Abort."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import threading
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from sglrouter._proto import common, health
from sglrouter._proto import scheduler as pb
from tests.patience import DEADLINE
from tests.sim.conftest import CONTEXT, VOCAB_SIZE
from tests.sim.wire import SERVICE, EngineClient, request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sglrouter.sim import SimulatedEngine
    from tests.sim.conftest import Connect, StartEngine

SERVING = health.HealthCheckResponse.ServingStatus.SERVING
NOT_SERVING = health.HealthCheckResponse.ServingStatus.NOT_SERVING
SERVICE_UNKNOWN = health.HealthCheckResponse.ServingStatus.SERVICE_UNKNOWN


def test_standard_health(sim: SimulatedEngine, client: EngineClient) -> None:
    for service in ("", SERVICE):
        for method in ("Check", "Watch"):
            reply = client.health(service, method)
            assert reply.code == "OK"
            assert [message.status for message in reply.messages] == [SERVING]
    sim.set_serving(False)
    assert client.health().messages[0].status == NOT_SERVING
    sim.set_serving(True)
    assert client.health().messages[0].status == SERVING


def test_standard_health_of_an_unknown_service(client: EngineClient) -> None:
    reply = client.health("nope")
    assert (reply.code, reply.details) == ("NOT_FOUND", "Unknown service: nope")
    reply = client.health("nope", "Watch")
    assert (reply.code, reply.messages[0].status) == ("OK", SERVICE_UNKNOWN)


def test_health_check_takes_half_a_second(client: EngineClient) -> None:
    began = time.monotonic()
    message = client.call("HealthCheck", pb.HealthCheckRequest()).messages[0]
    assert time.monotonic() - began >= 0.5
    assert (message.healthy, message.message) == (True, "Health check passed")


def test_model_info_is_wrong_where_the_real_one_is(client: EngineClient, model_path: Path) -> None:
    info = client.call("GetModelInfo", pb.GetModelInfoRequest()).messages[0]
    assert info.model_path == info.tokenizer_path == str(model_path)
    assert info.is_generation
    assert info.served_model_name == ""
    assert info.max_context_length == 2 * CONTEXT
    assert info.vocab_size == 128256
    assert (info.bos_token_id, info.pad_token_id, list(info.eos_token_ids)) == (1, 0, [])
    assert info.max_req_input_len == CONTEXT - 6
    assert list(info.architectures) == ["TestForCausalLM"]
    assert json.loads(info.id2label_json) == {"0": "LABEL_0", "1": "LABEL_1"}
    assert info.num_labels == 2
    assert info.default_sampling_params_json == '{"temperature":0.7,"top_p":0.8}'


def test_options_show_in_the_information(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(
        served_model_name="m", context_length=64, server_args={"tool_call_parser": "qwen"}
    )
    client = connect(sim)
    model = client.call("GetModelInfo", pb.GetModelInfoRequest()).messages[0]
    assert (model.served_model_name, model.max_req_input_len) == ("m", 58)
    info = client.call("GetServerInfo", pb.GetServerInfoRequest()).messages[0]
    args = dict(info.server_args)
    assert args["tool_call_parser"] == "qwen"
    assert args["context_length"] == 64.0
    assert args["served_model_name"] == "m"
    assert args["reasoning_parser"] is None
    assert info.max_total_num_tokens == 128
    assert info.sglang_version == "0.5.23"
    assert info.server_type == "grpc"
    assert info.uptime_seconds >= 0.0
    assert abs(info.start_time.seconds - time.time()) < 60


def test_loads(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.options.token_delay = 0.02
    idle = client.call("GetLoads", pb.GetLoadsRequest()).messages[0]
    assert (idle.dp_rank_count, idle.version) == (1, "0.5.23")
    (load,) = idle.loads
    assert load.num_total_reqs == load.num_used_tokens == 0
    assert load.max_total_num_tokens == 2 * CONTEXT
    assert load.HasField("queues")
    assert load.disaggregation.mode == "null"
    call = client.start("Generate", request(ignore_eos=True))
    call.read(1)
    busy = client.call("GetLoads", pb.GetLoadsRequest(include=["core"], dp_rank=0)).messages[0]
    (load,) = busy.loads
    assert load.num_running_reqs == busy.aggregate.total_running_reqs == 1
    assert load.token_usage > 0.0
    assert not load.HasField("memory")
    assert not load.HasField("queues")
    call.cancel()
    assert not client.call("GetLoads", pb.GetLoadsRequest(dp_rank=1)).messages[0].loads


def test_loads_of_an_unknown_section(client: EngineClient) -> None:
    reply = client.call("GetLoads", pb.GetLoadsRequest(include=["core", "bogus"]))
    assert reply.code == "INVALID_ARGUMENT"
    assert reply.details == (
        "Invalid include sections: ['bogus']. Valid options: "
        "['all', 'core', 'disagg', 'lora', 'memory', 'queues', 'spec']"
    )


def test_tokenizer_archive(
    start_engine: StartEngine, connect: Connect, model_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    shutil.copytree(model_path, path)
    # Random bytes do not compress: the archive has several chunks.
    (path / "extra.model").write_bytes(hashlib.shake_256(b"padding").digest(150_000))
    client = connect(start_engine(model=path))
    chunks = client.call("GetTokenizer", common.GetTokenizerRequest()).messages
    assert len(chunks) >= 3
    assert {len(chunk.data) for chunk in chunks[:-1]} == {65536}
    assert [bool(chunk.sha256) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    data = b"".join(chunk.data for chunk in chunks)
    assert hashlib.sha256(data).hexdigest() == chunks[-1].sha256
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert set(archive.namelist()) == {
            "tokenizer.json",
            "config.json",
            "generation_config.json",
            "chat_template.jinja",
            "extra.model",
        }
        assert archive.read("config.json") == (path / "config.json").read_bytes()


def test_flush_cache(sim: SimulatedEngine, client: EngineClient) -> None:
    asked = request(list(range(30, 40)), max_new_tokens=1)
    client.generate(asked)
    sim.options.token_delay = 0.05
    busy = client.start("Generate", request(ignore_eos=True))
    busy.read(1)
    message = client.call("FlushCache", common.FlushCacheRequest()).messages[0]
    assert (message.success, message.message) == (False, "failed")
    busy.cancel()
    sim.wait_until(lambda: sim.running == 0)
    message = client.call("FlushCache", common.FlushCacheRequest()).messages[0]
    assert (message.success, message.message) == (True, "Cache flushed successfully")
    assert client.generate(asked).complete.cached_tokens == 0


def test_flush_cache_waits_for_an_idle_engine(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.options.token_delay = 0.05
    busy = client.start("Generate", request(ignore_eos=True))
    busy.read(1)
    reply = client.call("FlushCache", common.FlushCacheRequest(timeout_s=0.2))
    message = reply.messages[0]
    assert (message.success, message.message) == (False, "Timed out waiting for idle state.")
    waiting = client.start("FlushCache", common.FlushCacheRequest(timeout_s=9.0))
    sim.wait_until(lambda: len(sim.unary_calls) == 2)
    message = client.call("FlushCache", common.FlushCacheRequest()).messages[0]
    assert message.message == "Another flush_cache is already in progress."
    busy.cancel()
    assert waiting.finish().messages[0].success


def test_profiling_fails_inside_the_answer(client: EngineClient) -> None:
    def call(name: str) -> bool:
        kind = common.StartProfileRequest if name == "StartProfile" else common.StopProfileRequest
        reply = client.call(name, kind())
        assert reply.code == "OK"
        assert reply.messages[0].message
        return bool(reply.messages[0].success)

    names = ["StopProfile", "StartProfile", "StartProfile", "StopProfile", "StopProfile"]
    assert [call(name) for name in names] == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("LoadLoRAAdapter", pb.LoadLoRAAdapterRequest()),
        ("UnloadLoRAAdapter", pb.UnloadLoRAAdapterRequest()),
        ("ListLoadedLoRAAdapters", pb.ListLoadedLoRAAdaptersRequest()),
    ],
)
def test_lora_is_not_there(client: EngineClient, name: str, message: object) -> None:
    reply = client.call(name, message)
    assert reply.code == "UNIMPLEMENTED"
    assert reply.details == "Unexpected <class 'NotImplementedError'>: Method not implemented!"


def test_an_unknown_method(client: EngineClient) -> None:
    reply = client.call("Nonsense", b"", response=pb.AbortResponse)
    assert (reply.code, reply.details) == ("UNIMPLEMENTED", "Method not found!")


def dot(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def embed(ids: list[int]) -> pb.EmbedRequest:
    return pb.EmbedRequest(request_id="e", tokenized=pb.TokenizedInput(input_ids=ids))


def test_embeddings_are_unit_vectors_of_the_ids(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine(embedding=True)
    client = connect(sim)
    messages = [
        client.call("Embed", embed(ids)).messages[0]
        for ids in ([10, 11, 12], [10, 11, 12], [12, 11, 10], [10, 11, 13], [60, 61, 62])
    ]
    for message in messages:
        assert message.embedding_dim == len(message.embedding) == 16
        assert message.prompt_tokens == 3
        assert dot(message.embedding, message.embedding) == pytest.approx(1.0)
    first, again, turned, near, far = (list(message.embedding) for message in messages)
    assert first == again
    assert turned != first
    assert dot(first, near) > dot(first, far)
    info = client.call("GetModelInfo", pb.GetModelInfoRequest()).messages[0]
    assert not info.is_generation
    assert len(sim.embeds) == 5


def test_a_classifiers_vector_has_a_value_for_each_label(
    start_engine: StartEngine, connect: Connect, model_path: Path, tmp_path: Path
) -> None:
    labels = {"0": "no", "1": "maybe", "2": "yes"}
    folder = shutil.copytree(model_path, tmp_path / "classifier")
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["TestForSequenceClassification"], "id2label": labels}
    (folder / "config.json").write_text(json.dumps(config))
    client = connect(start_engine(embedding=True, model=folder))
    assert client.call("Embed", embed([10])).messages[0].embedding_dim == 3
    info = client.call("GetModelInfo", pb.GetModelInfoRequest()).messages[0]
    assert json.loads(info.id2label_json) == labels
    assert info.num_labels == 3


def test_embed_refusals_and_silence(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(embedding=True)
    client = connect(sim)
    reply = client.call("Embed", pb.EmbedRequest(request_id="e"))
    assert (reply.code, reply.details) == ("INVALID_ARGUMENT", "Tokenized input must be provided")
    assert client.call("Embed", embed([10] * CONTEXT), timeout=DEADLINE).code == "DEADLINE_EXCEEDED"
    assert client.generate(request(), timeout=DEADLINE).code == "DEADLINE_EXCEEDED"
    sim.wait_until(lambda: sim.active == 0)
    reply = client.call("Embed", embed([VOCAB_SIZE]))
    assert reply.code == "UNAVAILABLE"
    assert not sim.alive


def test_embed_on_a_generation_model(client: EngineClient) -> None:
    reply = client.call("Embed", embed([10]))
    assert (reply.code, reply.details) == ("INTERNAL", "'embedding'")


def test_metadata_is_recorded(sim: SimulatedEngine, client: EngineClient) -> None:
    client.generate(request(max_new_tokens=1))
    assert sim.metadata[0]["user-agent"].startswith("grpc-python/")


def test_calls_are_remembered(sim: SimulatedEngine, client: EngineClient) -> None:
    client.call("GetLoads", pb.GetLoadsRequest(include=["core"]))
    client.call("StopProfile", common.StopProfileRequest())
    first, second = sim.unary_calls
    assert (first.method, list(first.request.include)) == ("GetLoads", ["core"])
    assert first.metadata["user-agent"].startswith("grpc-python/")
    assert second.method == "StopProfile"


def test_calls_from_many_threads_at_once(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21])
    codes: list[str] = []
    threads = [
        threading.Thread(target=lambda: codes.append(client.generate(request()).code))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert codes == ["OK"] * 20
    assert len(sim.requests) == 20
