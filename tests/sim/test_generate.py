"""Generate: chunks, counts, samples, stops, limits, the prefix cache."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.sim.conftest import CONTEXT, EOS
from tests.sim.wire import EngineClient, request, samples

if TYPE_CHECKING:
    from sglrouter.sim import SimulatedEngine
    from tests.sim.conftest import Connect, Encode, StartEngine


def test_a_stream_sends_each_token_and_the_last_one_twice(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21, 22])
    reply = client.generate(request(max_new_tokens=3))
    assert reply.kinds == ["chunk", "chunk", "chunk", "complete"]
    assert reply.deltas == [[20], [21], [22]]
    assert [chunk.completion_tokens for chunk in reply.chunks] == [1, 2, 3]
    assert {chunk.prompt_tokens for chunk in reply.chunks} == {4}
    assert list(reply.complete.output_ids) == [22]
    assert reply.complete.completion_tokens == 3
    assert reply.complete.finish_reason == "length"
    assert reply.complete.WhichOneof("matched_stop") is None
    assert (reply.code, reply.details) == ("OK", "")


def test_without_stream_there_is_one_message_with_everything(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21, 22])
    reply = client.generate(request(stream=False))
    assert reply.kinds == ["complete"]
    assert list(reply.complete.output_ids) == [20, 21, 22, EOS]
    assert reply.complete.finish_reason == "stop"
    assert reply.complete.matched_token_id == EOS


def test_eos_is_sent_and_counted(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20])
    reply = client.generate(request())
    assert reply.deltas == [[20], [EOS]]
    assert reply.complete.completion_tokens == 2
    assert reply.complete.matched_token_id == EOS


def test_a_matched_id_of_zero_is_present(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 0])
    complete = client.generate(request()).complete
    assert complete.WhichOneof("matched_stop") == "matched_token_id"
    assert complete.matched_token_id == 0


def test_ignore_eos_goes_on_and_also_disables_stop_token_ids(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21])
    reply = client.generate(request(ignore_eos=True, stop_token_ids=[21], max_new_tokens=5))
    assert reply.deltas == [[20], [21], [EOS], [20], [21]]
    assert reply.complete.finish_reason == "length"


def test_stop_token_ids_end_the_answer(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21, 22])
    complete = client.generate(request(stop_token_ids=[21, 999])).complete
    assert (complete.finish_reason, complete.matched_token_id) == ("stop", 21)
    assert complete.completion_tokens == 2


def test_min_new_tokens_keeps_eos_back(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21, 22, 23, 24, 25])
    reply = client.generate(request(min_new_tokens=4, logit_bias={str(EOS): 100.0}))
    assert reply.deltas == [[20], [21], [22], [23], [EOS]]
    assert reply.complete.matched_token_id == EOS


def test_min_new_tokens_replaces_the_end_of_a_script(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20])
    reply = client.generate(request(min_new_tokens=3))
    assert reply.complete.completion_tokens > 3
    assert [EOS] not in reply.deltas[:3]


def test_logit_bias_forces_a_token_even_when_infinite(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21, 22])
    for bias in (100.0, float("inf")):
        reply = client.generate(request(max_new_tokens=2, logit_bias={"5": bias}))
        assert reply.deltas == [[5], [5]]


def test_max_new_tokens_zero_is_prefill_only(sim: SimulatedEngine, client: EngineClient) -> None:
    reply = client.generate(request(max_new_tokens=0))
    assert reply.kinds == ["chunk", "complete"]
    assert reply.deltas == [[]]
    assert (reply.complete.finish_reason, reply.complete.completion_tokens) == ("length", 0)
    reply = client.generate(request(max_new_tokens=0, stream=False))
    assert reply.kinds == ["complete"]


def test_without_a_limit_or_beyond_it_the_context_ends_the_answer(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20])
    room = CONTEXT - 2 - 4
    unlimited = request(ignore_eos=True, stream=False)
    beyond = request(ignore_eos=True, stream=False, max_new_tokens=100_000)
    for asked in (unlimited, beyond):
        complete = client.generate(asked).complete
        assert (complete.finish_reason, complete.completion_tokens) == ("length", room)


def test_no_sampling_parameters_at_all_is_a_greedy_answer(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21])
    bare = request()
    bare.ClearField("sampling_params")
    assert client.generate(bare).deltas == [[20], [21], [EOS]]


def test_stream_interval_sends_the_first_token_at_once(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script(list(range(20, 34)))
    reply = client.generate(request(stream_interval=4, max_new_tokens=14))
    assert [len(delta) for delta in reply.deltas] == [1, 4, 4, 4, 1]
    assert list(reply.complete.output_ids) == [33]
    sim.options.stream_interval = 6
    reply = client.generate(request(max_new_tokens=14))
    assert [len(delta) for delta in reply.deltas] == [1, 6, 6, 1]


def test_several_tokens_a_step_come_in_one_chunk(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine(tokens_per_chunk=3)
    sim.script(list(range(20, 28)))
    reply = connect(sim).generate(request())
    assert reply.deltas == [[20, 21, 22], [23, 24, 25], [26, 27, EOS]]
    assert list(reply.complete.output_ids) == [26, 27, EOS]


def test_a_script_of_chunks_decides_the_messages(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([[20, 21], [], [22], [23, 24, 25]], finish_reason="length")
    reply = client.generate(request())
    assert reply.deltas == [[20, 21], [], [22], [23, 24, 25]]
    assert reply.complete.finish_reason == "length"
    assert list(reply.complete.output_ids) == [23, 24, 25]


def test_a_script_may_end_in_any_way(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([[20]], finish_reason="stop", matched="x")
    assert client.generate(request()).complete.matched_stop_str == "x"
    sim.script([20, 21], finish_reason="abort")
    reply = client.generate(request())
    assert reply.deltas == [[20], [21]]
    assert reply.complete.finish_reason == "abort"
    sim.script([], finish_reason="abort")
    reply = client.generate(request(stream=False))
    assert (reply.complete.finish_reason, list(reply.complete.output_ids)) == ("abort", [])


def test_scripts_are_used_in_order_and_the_last_one_stays(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20], [30])
    answers = [client.generate(request()).deltas[0] for _ in range(3)]
    assert answers == [[20], [30], [30]]
    sim.script()
    assert client.generate(request([40, 41])).deltas == [[40], [41], [EOS]]


def test_stop_string_holds_back_what_may_begin_it(
    sim: SimulatedEngine, client: EngineClient, encode: Encode
) -> None:
    sim.script("xyENzEND!")
    reply = client.generate(request(stop=["END"]))
    ids = [encode(letter)[0] for letter in "xyENzEND"]
    assert reply.deltas == [[ids[0]], [ids[1]], ids[2:5], ids[5:8]]
    assert reply.complete.matched_stop_str == "END"
    assert list(reply.complete.output_ids) == ids[5:8]
    assert reply.complete.completion_tokens == 8


def test_stop_string_inside_a_token(
    sim: SimulatedEngine, client: EngineClient, encode: Encode
) -> None:
    sim.script("zabcz")
    reply = client.generate(request(stop=["b"]))
    assert reply.deltas == [encode("z"), encode("abc")]
    assert reply.complete.matched_stop_str == "b"


def test_the_first_listed_of_two_stops_in_one_tail_wins(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script("zabcz")
    assert client.generate(request(stop=["q", "c", "a"])).complete.matched_stop_str == "c"


def test_stop_strings_are_not_disabled_by_ignore_eos(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script("one.two")
    complete = client.generate(request(stop=["."], ignore_eos=True, stream=False)).complete
    assert (complete.matched_stop_str, complete.completion_tokens) == (".", 4)


def test_an_empty_stop_string_matches_at_once(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21])
    reply = client.generate(request(stop=[""]))
    assert reply.kinds == ["chunk", "complete"]
    assert reply.complete.WhichOneof("matched_stop") == "matched_stop_str"
    assert reply.complete.matched_stop_str == ""


def test_held_back_ids_wait_beyond_the_stream_interval(
    sim: SimulatedEngine, client: EngineClient, encode: Encode
) -> None:
    sim.script("123456Ex")
    reply = client.generate(request(stop=["END"], stream_interval=3))
    # Due after 1, 4 and 7 tokens; the seventh may begin the stop.
    assert [len(delta) for delta in reply.deltas] == [1, 3, 4, 1]


def test_cached_tokens_grow_with_what_was_said_before(
    sim: SimulatedEngine, client: EngineClient
) -> None:
    sim.script([20, 21, 22])
    ids = list(range(40, 50))

    def cached(**settings: Any) -> int:
        reply = client.generate(request(**settings))
        assert len({chunk.cached_tokens for chunk in reply.chunks}) == 1
        assert reply.complete.cached_tokens == reply.chunks[0].cached_tokens
        return reply.complete.cached_tokens

    assert cached(ids=ids) == 0
    assert cached(ids=ids) == 9
    assert cached(ids=ids[:5] + [99] * 5) == 5
    # The next turn of a conversation: the answer is cached, too, save its last token.
    assert cached(ids=[*ids, 20, 21, 22, EOS, 60]) == 13
    assert cached(ids=ids, lora_id="other") == 0
    # Scoring the prompt reuses only what comes before the scored part.
    assert cached(ids=ids, logprobs=True, logprob_start_len=0) == 0
    assert cached(ids=ids, logprobs=True, logprob_start_len=6) == 6
    assert cached(ids=ids, logprobs=True) == 9


def test_n_samples_of_a_stream_run_side_by_side(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20, 21], [30, 31])
    reply = client.generate(request(n=2, max_new_tokens=2))
    assert [chunk.index for chunk in reply.chunks] == [0, 1, 0, 1]
    assert [(index, ids) for index, ids, _ in samples(reply)] == [(0, [20, 21]), (1, [30, 31])]
    # The hidden prefix request has filled the cache.
    assert {chunk.cached_tokens for chunk in reply.chunks} == {3}
    assert {message.request_id for message in reply.messages} == {sim.requests[0].request_id}


def test_n_samples_without_stream_run_one_after_another_with_index_zero(
    start_engine: StartEngine, connect: Connect
) -> None:
    sim = start_engine(token_delay=0.02)
    sim.script([20, 21], [30, 31])
    call = connect(sim).start("Generate", request(n=2, max_new_tokens=2, stream=False))
    seen: set[int] = set()

    def watch_until_it_is_over() -> bool:
        seen.add(sim.running)
        return bool(sim.requests) and not sim.active

    sim.wait_until(watch_until_it_is_over)
    reply = call.finish()
    assert max(seen) == 1
    assert [complete.index for complete in reply.completes] == [0, 0]
    assert [list(each.output_ids) for each in reply.completes] == [[20, 21], [30, 31]]


def test_n_zero_is_one_sample(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20])
    assert client.generate(request(n=0)).kinds == ["chunk", "chunk", "complete"]


def test_delays_are_kept(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(first_delay=0.1, token_delay=0.05)
    sim.script([20, 21, 22])
    client = connect(sim)
    client.health()
    began = time.monotonic()
    call = client.start("Generate", request(max_new_tokens=3))
    call.read(1)
    first = time.monotonic() - began
    call.finish()
    total = time.monotonic() - began
    assert 0.1 <= first < 1.0
    assert 0.2 <= total < 2.0


def test_large_requests_and_answers_pass(sim: SimulatedEngine, client: EngineClient) -> None:
    sim.script([20])
    assert client.generate(request(text="x" * 8_000_000)).code == "OK"
