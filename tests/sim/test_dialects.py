"""What older engines do differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sglrouter._proto import common, legacy
from sglrouter._proto import scheduler as pb
from tests.sim.conftest import CONTEXT, EOS
from tests.sim.wire import request

if TYPE_CHECKING:
    from tests.sim.conftest import Connect, StartEngine

OLD = ("0.13", "0.5.9")


def test_the_last_delta_comes_in_complete_only(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(dialect="0.5.9")
    sim.script([20, 21, 22])
    reply = connect(sim).generate(request())
    assert reply.kinds == ["chunk", "chunk", "chunk", "complete"]
    assert reply.deltas == [[20], [21], [22]]
    assert list(reply.complete.output_ids) == [EOS]
    assert reply.complete.completion_tokens == 4
    reply = connect(sim).generate(request(max_new_tokens=0))
    assert reply.kinds == ["complete"]


def test_0_13_sends_the_last_delta_twice(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(dialect="0.13")
    sim.script([20])
    assert connect(sim).generate(request()).kinds == ["chunk", "chunk", "complete"]


@pytest.mark.parametrize("stream", [True, False])
def test_0_5_9_reports_errors_inside_the_response(
    start_engine: StartEngine, connect: Connect, stream: bool
) -> None:
    client = connect(start_engine(dialect="0.5.9"))
    too_long = request([10] * CONTEXT, stream=stream)
    unreadable = request(stream=stream)
    unreadable.ClearField("tokenized")
    for asked, status, words in (
        (too_long, "400", "exceeds the maximum allowed length"),
        (unreadable, "500", "Tokenized input must be provided"),
    ):
        reply = client.generate(asked, response=legacy.GenerateFailure)
        assert reply.code == "OK"
        (failure,) = reply.messages
        assert failure.request_id == asked.request_id
        assert failure.error.http_status_code == status
        assert words in failure.error.message


@pytest.mark.parametrize("stream", [True, False])
def test_0_13_refuses_with_an_empty_abort(
    start_engine: StartEngine, connect: Connect, stream: bool
) -> None:
    client = connect(start_engine(dialect="0.13"))
    reply = client.generate(request([10] * CONTEXT, stream=stream))
    assert reply.code == "OK"
    assert reply.kinds == ["complete"]
    assert reply.complete.finish_reason == "abort"
    assert not reply.complete.output_ids
    assert reply.complete.completion_tokens == 0
    # What the front part refuses had a status already.
    assert client.generate(request(stop=["x"] * 33)).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("dialect", OLD)
def test_zeros_are_taken_literally(
    start_engine: StartEngine, connect: Connect, dialect: str
) -> None:
    sim = start_engine(dialect=dialect)
    sim.script([20, 21, 22])
    client = connect(sim)
    prompt = [10, 11, 12]

    def answer(**zeros: Any) -> list[int]:
        asked = request(prompt, stream=False, temperature=0.7, max_new_tokens=3, **zeros)
        return list(client.generate(asked).complete.output_ids)

    assert answer() == [20, 21, 22]
    assert answer(repetition_penalty=0.0) == [12, 12, 12]
    # Id 0 is one of the two ends of text of this model.
    assert answer(top_k=0) == [0]


def test_the_current_engine_takes_zeros_for_defaults(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine()
    sim.script([20, 21, 22])
    asked = request(temperature=0.7, top_p=0.0, top_k=0, repetition_penalty=0.0, max_new_tokens=3)
    assert connect(sim).generate(asked).deltas == [[20], [21], [22]]


@pytest.mark.parametrize("dialect", OLD)
def test_hidden_states_are_ignored_and_selected_scores_are_not_there(
    start_engine: StartEngine, connect: Connect, dialect: str
) -> None:
    sim = start_engine(dialect=dialect)
    sim.script([20])
    asked = request(logprobs=True, selected=[5], stream=False)
    asked.return_hidden_states = True
    reply = connect(sim).generate(asked)
    assert reply.code == "OK"
    assert len(reply.complete.output_logprobs.token_logprobs) == 2
    assert not reply.complete.output_logprobs.token_ids_logprobs


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GetTokenizer", common.GetTokenizerRequest()),
        ("FlushCache", common.FlushCacheRequest()),
        ("StartProfile", common.StartProfileRequest()),
        ("StopProfile", common.StopProfileRequest()),
    ],
)
def test_0_5_9_lacks_some_methods(
    start_engine: StartEngine, connect: Connect, name: str, message: object
) -> None:
    reply = connect(start_engine(dialect="0.5.9")).call(name, message)
    assert (reply.code, reply.details) == ("UNIMPLEMENTED", "Method not found!")


def test_0_5_9_wraps_embeddings(start_engine: StartEngine, connect: Connect) -> None:
    client = connect(start_engine(dialect="0.5.9", embedding=True))
    asked = pb.EmbedRequest(request_id="e", tokenized=pb.TokenizedInput(input_ids=[10, 11]))
    (message,) = client.call("Embed", asked, response=legacy.EmbedResponse).messages
    assert message.request_id == "e"
    assert message.complete.embedding_dim == len(message.complete.embedding) == 16
    assert message.complete.prompt_tokens == 2
    asked.ClearField("tokenized")
    (message,) = client.call("Embed", asked, response=legacy.EmbedResponse).messages
    assert message.error.message == "Tokenized input must be provided"


def test_versions_are_reported(start_engine: StartEngine, connect: Connect) -> None:
    client = connect(start_engine(dialect="0.5.9"))
    info = client.call("GetServerInfo", pb.GetServerInfoRequest()).messages[0]
    assert info.sglang_version == "0.5.9"
