"""Where tokens come from: files, echoes, the language model; and how they are chosen."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from sglrouter._proto import scheduler as pb
from sglrouter.sim import Script, SimOptions
from sglrouter.sim.answers import read_script
from sglrouter.sim.distribution import Distribution
from sglrouter.sim.model_folder import ModelFolder
from sglrouter.sim.options import DIALECTS, TINY_MODEL
from sglrouter.sim.prefix_cache import PrefixCache
from sglrouter.sim.sampling import Sampling, choose
from tests.sim.conftest import EOS
from tests.sim.wire import request

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sim.conftest import Connect, Encode, StartEngine


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("Hello there.\n", "Hello there.\n"),
        ("[20, 21]", [20, 21]),
        ("[[20, 21], [22]]", [[20, 21], [22]]),
        ("[]", "[]"),
        ('["a"]', '["a"]'),
        ("[true]", "[true]"),
        ('{"a": 1}', '{"a": 1}'),
    ],
)
def test_script_files(tmp_path: Path, text: str, content: object) -> None:
    path = tmp_path / "script"
    path.write_text(text, "utf-8")
    assert read_script(path) == Script(content)  # type: ignore[arg-type]


def test_a_script_file_answers_everything(
    start_engine: StartEngine, connect: Connect, tmp_path: Path, encode: Encode
) -> None:
    path = tmp_path / "script"
    path.write_text("héllo <|im_end|>", "utf-8")
    client = connect(start_engine(answer="script", script=path))
    for _ in range(2):
        complete = client.generate(request(stream=False)).complete
        assert list(complete.output_ids) == [*encode("héllo "), EOS]


def test_echo_of_the_last_user_turn_or_of_all(
    start_engine: StartEngine, connect: Connect, encode: Encode
) -> None:
    client = connect(start_engine())
    chat = (
        "<|im_start|>user\nfirst<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n"
        "<|im_start|>user\nsay\nthis<|im_end|>\n<|im_start|>assistant\n"
    )
    for asked, text in (
        (request(text=chat, stream=False), "say\nthis"),
        (request(encode(chat), stream=False), "say\nthis"),
        (request(text="plain", stream=False), "plain"),
        (request(encode("plain"), stream=False), "plain"),
    ):
        assert list(client.generate(asked).complete.output_ids) == [*encode(text), EOS]


def test_the_language_model_answers(start_engine: StartEngine, connect: Connect) -> None:
    sim = start_engine(model=TINY_MODEL, answer="model")
    folder = ModelFolder.load(TINY_MODEL)
    client = connect(sim)
    prompt = folder.encode(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    greedy = request(prompt, stream=False, max_new_tokens=40, logprobs=True, top=3)
    first = client.generate(greedy).complete
    second = client.generate(greedy).complete
    assert list(first.output_ids) == list(second.output_ids)
    assert folder.decode(list(first.output_ids)).strip()
    for token, row in zip(first.output_ids, first.output_logprobs.top_logprobs, strict=True):
        assert row.token_ids[0] == token
        assert list(row.values) == sorted(row.values, reverse=True)
    scored = request(
        prompt, logprobs=True, logprob_start_len=0, top=1, max_new_tokens=0, stream=False
    )
    scores = client.generate(scored).complete.input_logprobs
    assert len(scores.token_logprobs) == len(prompt)
    assert all(each.value < 0.0 for each in scores.token_logprobs[1:])


def test_the_seed_decides_what_is_drawn(start_engine: StartEngine, connect: Connect) -> None:
    prompt = ModelFolder.load(TINY_MODEL).encode(
        "<|im_start|>user\nTell me something.<|im_end|>\n<|im_start|>assistant\n"
    )
    asked = request(prompt, stream=False, temperature=2.0, max_new_tokens=30, rid="same")
    answers = []
    for seed in (1, 1, 2):
        sim = start_engine(model=TINY_MODEL, answer="model", seed=seed)
        answers.append(list(connect(sim).generate(asked).complete.output_ids))
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


@pytest.mark.parametrize(
    "bad",
    [
        {"dialect": "0.1"},
        {"answer": "oracle"},
        {"answer": "script"},
        {"tokens_per_chunk": 0},
        {"stream_interval": 0},
        {"max_running_requests": 0},
    ],
)
def test_impossible_options(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        SimOptions(**bad)  # type: ignore[arg-type]


HALF = [(5, math.log(0.5)), (6, math.log(0.3)), (7, math.log(0.2))]


def draw(count: int = 2000, **params: float) -> Counter[int]:
    settings = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0}
    wire = pb.SamplingParams(**(settings | params))  # type: ignore[arg-type]
    sampling = Sampling.read(wire, DIALECTS["current"])
    dice = random.Random(7)
    return Counter(
        choose(
            Distribution(list(HALF), 10),
            sampling,
            decided=False,
            prompt=[1],
            output=[5, 5],
            forbidden=frozenset(),
            dice=dice,
        )
        for _ in range(count)
    )


def test_sampling_follows_the_distribution() -> None:
    counts = draw()
    assert counts[5] / 2000 == pytest.approx(0.5, abs=0.05)
    assert counts[6] / 2000 == pytest.approx(0.3, abs=0.05)
    assert counts[7] / 2000 == pytest.approx(0.2, abs=0.05)


def test_sampling_parameters_narrow_it() -> None:
    assert set(draw(temperature=0.0)) == {5}
    assert set(draw(temperature=0.05)) == {5}
    assert set(draw(top_k=1)) == {5}
    assert set(draw(top_k=2)) == {5, 6}
    assert set(draw(top_p=0.5)) == {5}
    assert set(draw(top_p=0.6)) == {5, 6}
    assert set(draw(min_p=0.5)) == {5, 6}
    assert set(draw(min_p=1.0)) == {5}
    assert set(draw(temperature=float("nan"))) == {0}
    hot = draw(temperature=50.0)
    assert min(hot[5], hot[6], hot[7]) / 2000 == pytest.approx(1 / 3, abs=0.05)


def test_penalties_count_what_was_said() -> None:
    assert set(draw(temperature=0.0, presence_penalty=0.6)) == {6}
    assert set(draw(temperature=0.0, frequency_penalty=0.3)) == {6}
    assert set(draw(temperature=0.0, frequency_penalty=0.2)) == {5}
    assert set(draw(temperature=0.0, repetition_penalty=2.0)) == {6}


def test_forbidden_ids_never_come_even_if_they_are_all_that_is_likely() -> None:
    sampling = Sampling.read(pb.SamplingParams(temperature=1.0), DIALECTS["current"])
    token = choose(
        Distribution([(0, -0.1), (1, -2.0)], 3),
        sampling,
        decided=True,
        prompt=[1],
        output=[],
        forbidden=frozenset({0, 1}),
        dice=random.Random(0),
    )
    assert token == 2


def test_prefix_cache_forgets_the_oldest() -> None:
    cache = PrefixCache(6)
    cache.insert("", [1, 2, 3])
    cache.insert("", [4, 5, 6])
    assert (cache.match("", [1, 2, 9]), cache.match("", [4, 5, 6, 7])) == (2, 3)
    cache.insert("", [7])
    assert (cache.match("", [1, 2, 3]), cache.match("", [4, 5, 6])) == (0, 3)
    assert cache.match("other", [4, 5, 6]) == 0
    cache.clear()
    assert cache.match("", [4]) == 0
