"""Log probabilities: where they are, how many, and that they agree with each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from sglrouter.sim.distribution import Distribution, MadeUp
from tests.sim.conftest import EOS, VOCAB_SIZE
from tests.sim.wire import EngineClient, request

if TYPE_CHECKING:
    from sglrouter.sim import SimulatedEngine
    from tests.sim.conftest import Connect, StartEngine


def test_none_unless_asked_for(sim: SimulatedEngine, client: EngineClient) -> None:
    reply = client.generate(request(max_new_tokens=2, logprob_start_len=0, top=3))
    assert not any(chunk.HasField("output_logprobs") for chunk in reply.chunks)
    assert not reply.chunks[0].HasField("input_logprobs")
    assert not reply.complete.HasField("output_logprobs")


def test_a_stream_sends_what_is_new_and_repeats_it_at_the_end(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21, 22])
    reply = client.generate(request(max_new_tokens=3, logprobs=True, top=2))
    for chunk, token in zip(reply.chunks, [20, 21, 22], strict=True):
        assert list(chunk.output_logprobs.token_ids) == [token]
        (top,) = chunk.output_logprobs.top_logprobs
        assert (len(top.values), top.token_ids[0]) == (2, token)
        assert top.values[0] == chunk.output_logprobs.token_logprobs[0]
        assert top.values[0] > top.values[1]
        assert not chunk.output_logprobs.token_ids_logprobs
    assert reply.complete.output_logprobs == reply.chunks[-1].output_logprobs
    assert not any(chunk.HasField("input_logprobs") for chunk in reply.chunks)


def test_one_message_has_them_all(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21])
    reply = client.generate(request(stream=False, logprobs=True))
    logprobs = reply.complete.output_logprobs
    assert list(logprobs.token_ids) == [20, 21, EOS]
    assert len(logprobs.token_logprobs) == 3
    assert not logprobs.top_logprobs


def test_several_tokens_a_chunk_have_as_many_rows(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script(list(range(20, 30)))
    reply = client.generate(
        request(max_new_tokens=10, logprobs=True, top=2, selected=[5], stream_interval=4)
    )
    assert [len(chunk.output_logprobs.top_logprobs) for chunk in reply.chunks] == [1, 4, 4, 1]
    assert [len(chunk.output_logprobs.token_ids_logprobs) for chunk in reply.chunks] == [1, 4, 4, 1]


def test_selected_ids_are_complete_at_the_end(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21, 22])
    reply = client.generate(request(max_new_tokens=3, logprobs=True, selected=[5, 21, 6]))
    rows = [chunk.output_logprobs.token_ids_logprobs[0] for chunk in reply.chunks]
    assert all(list(row.token_ids) == [5, 21, 6] for row in rows)
    assert rows[1].values[1] == reply.chunks[1].output_logprobs.token_logprobs[0]
    logprobs = reply.complete.output_logprobs
    assert list(logprobs.token_ids_logprobs) == rows
    assert len(logprobs.token_logprobs) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_prompt_scores_by_default_of_the_wire(
    sim: SimulatedEngine, client: EngineClient, stream: bool
) -> None:
    ids = [10, 11, 12, 13, 14]
    reply = client.generate(
        request(ids, stream=stream, logprobs=True, logprob_start_len=0, top=2, max_new_tokens=2)
    )
    carriers = reply.chunks if stream else reply.completes
    scores = carriers[0].input_logprobs
    assert [each.HasField("value") for each in scores.token_logprobs] == [False] + [True] * 4
    assert list(scores.token_ids) == ids
    assert [len(top.values) for top in scores.top_logprobs] == [0, 2, 2, 2, 2]
    for later in [*carriers[1:], *(reply.completes if stream else [])]:
        assert not later.HasField("input_logprobs")


def test_prompt_scores_from_a_position_on(sim: SimulatedEngine, client: EngineClient) -> None:
    ids = [10, 11, 12, 13, 14]
    reply = client.generate(request(ids, logprobs=True, logprob_start_len=3, max_new_tokens=1))
    scores = reply.chunks[0].input_logprobs
    assert list(scores.token_ids) == [13, 14]
    assert not scores.top_logprobs
    at_the_end = request(ids, logprobs=True, logprob_start_len=5, max_new_tokens=1)
    reply = client.generate(at_the_end)
    assert reply.code == "OK"
    assert not reply.chunks[0].HasField("input_logprobs")


def test_prefill_only_has_one_row_of_what_would_come(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20])
    reply = client.generate(
        request(stream=False, max_new_tokens=0, logprobs=True, logprob_start_len=0, top=2)
    )
    logprobs = reply.complete.output_logprobs
    assert not logprobs.token_ids
    assert not logprobs.token_logprobs
    assert [len(row.values) for row in logprobs.top_logprobs] == [2]
    assert logprobs.top_logprobs[0].token_ids[0] == 20
    assert len(reply.complete.input_logprobs.token_ids) == 4


@pytest.mark.parametrize("stream", [True, False])
def test_prefill_only_scores_the_selected_ids_once(
    sim: SimulatedEngine, client: EngineClient, stream: bool
) -> None:
    sim.script([20])
    reply = client.generate(
        request(stream=stream, max_new_tokens=0, logprobs=True, selected=[20, 5])
    )
    scores = [each.output_logprobs for each in reply.chunks]
    for part in [*scores, reply.complete.output_logprobs]:
        (row,) = part.token_ids_logprobs
        assert list(row.token_ids) == [20, 5]
        assert row.values[0] > row.values[1]
        assert not part.token_ids


def test_a_forced_token_is_the_likeliest(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20])
    reply = client.generate(
        request(max_new_tokens=1, logprobs=True, top=2, logit_bias={"7": 100.0})
    )
    logprobs = reply.complete.output_logprobs
    assert logprobs.token_logprobs[0] == pytest.approx(0.0, abs=1e-3)
    assert logprobs.top_logprobs[0].token_ids[0] == 7


def test_the_same_request_gives_the_same_values(
    start_engine: StartEngine, connect: Connect
) -> None:
    asked = request(max_new_tokens=4, logprobs=True, top=3, rid="same")
    values = []
    for seed in (1, 1, 2):
        sim = start_engine(seed=seed)
        sim.script([20, 21, 22, 23])
        reply = connect(sim).generate(asked)
        values.append([list(chunk.output_logprobs.token_logprobs) for chunk in reply.chunks])
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_made_up_distributions_are_distributions() -> None:
    for key in range(50):
        made_up = MadeUp(7, str(key), range(3, 200), VOCAB_SIZE)
        top = made_up.top(VOCAB_SIZE)
        assert top[0][0] == made_up.best == 7
        assert sorted(token for token, _ in top) == list(range(VOCAB_SIZE))
        assert [each for _, each in top] == sorted((each for _, each in top), reverse=True)
        assert 0.5 < sum(math.exp(each) for _, each in top) < 1.001
        assert all(made_up.logprob(token) == each for token, each in top)


def test_a_bias_moves_a_token_and_keeps_the_sum() -> None:
    plain = Distribution([(4, math.log(0.6)), (5, math.log(0.4))], 10)
    biased = plain.biased({5: math.log(3.0)})
    assert biased.best == 5
    assert biased.logprob(5) == pytest.approx(math.log(1.2 / 1.8))
    assert plain.biased({9: float("inf")}).logprob(9) == pytest.approx(0.0)
    assert plain.biased({4: float("-inf")}).best == 5
