"""The messages of the calls beside Generate, against the engine's own schema."""

from __future__ import annotations

import math
from typing import Any

import pytest
from smg_grpc_proto.generated import common_pb2
from smg_grpc_proto.generated import sglang_scheduler_pb2 as theirs

from sglrouter._proto import legacy
from sglrouter.engines.wire import control_messages as messages
from sglrouter.errors import RouterError


def test_an_embed_request_is_read_by_the_engine() -> None:
    request = theirs.EmbedRequest.FromString(messages.embed_request("id", [1, 70_000], "té"))
    assert request.request_id == "id"
    assert list(request.tokenized.input_ids) == [1, 70_000]
    assert request.tokenized.original_text == "té"


VECTOR = [0.5, -0.25, 0.0]


@pytest.mark.parametrize(
    "message",
    [
        theirs.EmbedResponse(embedding=VECTOR, prompt_tokens=4, embedding_dim=3),
        legacy.EmbedResponse(
            request_id="id", complete=legacy.EmbedComplete(embedding=VECTOR, prompt_tokens=4)
        ),
    ],
    ids=["flat", "oneof"],
)
def test_an_embedding_is_read_in_both_dialects(message: Any) -> None:
    vector, prompt_tokens = messages.read_embedding(message.SerializeToString())
    assert (vector.typecode, vector.tolist(), prompt_tokens) == ("f", VECTOR, 4)


@pytest.mark.parametrize(
    ("code", "status"),
    [("INVALID_ARGUMENT", 400), ("400", 400), ("503", 503), ("EMBEDDING_FAILED", 502), ("", 502)],
)
def test_a_failure_inside_the_answer_is_an_error(code: str, status: int) -> None:
    error = legacy.EmbedError(message="too long", code=code)
    with pytest.raises(RouterError, match="too long") as caught:
        messages.read_embedding(legacy.EmbedResponse(error=error).SerializeToString())
    assert caught.value.status == status


@pytest.mark.parametrize(
    "values",
    [[], [0.5, math.nan], [math.inf, -math.inf], [0.5, math.inf]],
    ids=["none", "NaN", "infinities", "infinity"],
)
def test_an_answer_without_a_vector_of_numbers_is_an_error(values: list[float]) -> None:
    with pytest.raises(RouterError) as caught:
        messages.read_embedding(theirs.EmbedResponse(embedding=values).SerializeToString())
    assert caught.value.status == 502


def test_a_long_vector_of_the_largest_numbers_is_one() -> None:
    largest = float.fromhex("0x1.fffffep+127")
    message = theirs.EmbedResponse(embedding=[largest] * 9000).SerializeToString()
    assert messages.read_embedding(message).vector.tolist() == [largest] * 9000


def test_server_information_is_plain() -> None:
    message = theirs.GetServerInfoResponse(
        active_requests=3, uptime_seconds=1.5, sglang_version="0.5.23", max_total_num_tokens=8192
    )
    message.server_args.update(
        {
            "context_length": 4096.0,
            "ratio": 0.5,
            "host": "h",
            "flag": True,
            "none": None,
            "nested": {"list": [1.0, "x", None, {"deep": 2.0}]},
            "large": 1e300,
            "minus": -3.0,
            "odd": math.inf,
            "nan": math.nan,
        }
    )
    message.scheduler_info.update({"status": "ready", "n": 7.0})
    message.start_time.FromSeconds(1_700_000_000)
    info = messages.read_server_info(message.SerializeToString())
    assert info == {
        "server_args": {
            "context_length": 4096,
            "ratio": 0.5,
            "host": "h",
            "flag": True,
            "none": None,
            "nested": {"list": [1, "x", None, {"deep": 2}]},
            "large": 1e300,
            "minus": -3,
            "odd": None,
            "nan": None,
        },
        "scheduler_info": {"status": "ready", "n": 7},
        "active_requests": 3,
        "is_paused": False,
        "last_receive_timestamp": 0.0,
        "uptime_seconds": 1.5,
        "sglang_version": "0.5.23",
        "server_type": "",
        "start_time": 1_700_000_000,
        "max_total_num_tokens": 8192,
    }
    assert type(info["server_args"]["context_length"]) is int
    assert type(info["server_args"]["flag"]) is bool


def test_loads_are_plain() -> None:
    message = theirs.GetLoadsResponse(
        timestamp="t",
        version="v",
        dp_rank_count=1,
        loads=[theirs.SchedulerLoad(num_running_reqs=2, queues=theirs.QueueMetrics(waiting=1))],
    )
    found = messages.read_loads(message.SerializeToString())
    (load,) = found["loads"]
    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["token_usage"]) == (2, 0, 0.0)
    assert load["queues"] == {"waiting": 1, "grammar": 0, "paused": 0, "retracted": 0}
    assert "memory" not in load


def test_loads_are_asked_for_by_section_and_rank() -> None:
    request = theirs.GetLoadsRequest.FromString(messages.loads_request(["core"], 0))
    assert (list(request.include), request.HasField("dp_rank")) == (["core"], True)
    assert not theirs.GetLoadsRequest.FromString(messages.loads_request()).HasField("dp_rank")


def test_profile_options_that_are_not_given_are_not_sent() -> None:
    options = {
        "output_dir": "/traces",
        "start_step": None,
        "num_steps": 0,
        "activities": ["CPU"],
        "with_stack": False,
        "record_shapes": None,
    }
    request = common_pb2.StartProfileRequest.FromString(messages.start_profile_request(options))
    assert (request.output_dir, list(request.activities)) == ("/traces", ["CPU"])
    given = {name for name in options if name != "activities" and request.HasField(name)}
    assert given == {"output_dir", "num_steps", "with_stack"}


def test_nobody_aborts_everything() -> None:
    with pytest.raises(ValueError, match="every request"):
        messages.abort_request("")
    request = theirs.AbortRequest.FromString(messages.abort_request("abc"))
    assert request.request_id == "abc"
