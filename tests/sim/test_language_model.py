"""The tiny language model: a proper distribution everywhere, and answers that make sense."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sglrouter.sim.build_tiny import PADDED_VOCABULARY, TINY
from sglrouter.sim.language_model import LanguageModel

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZER = Tokenizer.from_file(str(TINY / "tokenizer.json"))
MODEL = LanguageModel.load(TINY)
LONGEST_ANSWER = 80

TOOLS = "<|im_start|>system\n<tools>\n{}\n</tools>\n<tool_call>\n</tool_call><|im_end|>\n"

ids_of_any_kind = st.lists(
    st.integers(0, PADDED_VOCABULARY - 1)
    | st.sampled_from([MODEL.eos_id, MODEL.eos_id - 1, -1, 2**32, 2**70]),
    max_size=40,
)


def encode(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False).ids)


def chat(question: str, before: str = "", after: str = "") -> str:
    return f"{before}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{after}"


def greedy(prompt: str) -> tuple[str, bool]:
    """The most likely answer, and whether the model ended it by itself."""
    ids = encode(prompt)
    answer: list[int] = []
    while len(answer) < LONGEST_ANSWER:
        token = MODEL.distribution(ids + answer)[0][0]
        if token == MODEL.eos_id:
            return TOKENIZER.decode(answer, skip_special_tokens=False), True
        answer.append(token)
    return TOKENIZER.decode(answer, skip_special_tokens=False), False


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the capital of France?", "Paris"),
        ("what's the capital of Japan", "Tokyo"),
        ("Tell me something about elephants", "largest animal on land"),
        ("What does a cat eat?", "fish"),
        ("What is 7 plus 5?", "12"),
        ("What is 6 * 7?", "42"),
        ("Was ist die Hauptstadt von Italien?", "Rom"),
        ("日本の首都はどこですか", "東京"),
        ("法国的首都是哪里", "巴黎"),
        ("Write a Python function that adds two numbers", "return first + second"),
        ("How does quantum tunnelling work?", "tiny model"),
        ("", "tiny model"),
    ],
)
def test_answers_the_question_and_ends(question: str, expected: str) -> None:
    answer, ended = greedy(chat(question))
    assert expected in answer
    assert ended


def test_answers_the_last_question_of_several() -> None:
    earlier = chat("What does a cat eat?", after="Fish.<|im_end|>\n")
    assert greedy(chat("What is the capital of Chile?", before=earlier)) == (
        "The capital of Chile is Santiago. People there speak Spanish.",
        True,
    )


def test_goes_on_with_plain_text() -> None:
    answer, ended = greedy("The capital of France is")
    assert answer.startswith(" Paris.")
    assert ended


def test_closes_the_thought_that_the_prompt_opened() -> None:
    answer, ended = greedy(chat("What is the capital of France?", after="<think>\n"))
    thought, separator, spoken = answer.partition("\n</think>\n\n")
    assert "capital of France" in thought
    assert separator
    assert spoken.startswith("The capital of France is Paris.")
    assert ended


def test_opens_no_thought_by_itself() -> None:
    answer, _ = greedy(chat("What is the capital of France?"))
    assert "think>" not in answer


def test_calls_a_tool_only_where_the_prompt_shows_how() -> None:
    question = "What is the weather in Paris?"
    assert greedy(chat(question, before=TOOLS)) == (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        True,
    )
    assert "tool_call" not in greedy(chat(question))[0]


def test_makes_two_calls_in_one_turn() -> None:
    answer, ended = greedy(
        chat("Find a hotel in Vienna for two nights and a train to get there.", before=TOOLS)
    )
    assert answer.count("<tool_call>\n") == answer.count("\n</tool_call>") == 2
    assert ended


def test_answers_from_a_tool_result() -> None:
    result = '<tool_response>\n{"city": "Oslo", "condition": "snowy"}\n</tool_response>'
    answer, ended = greedy(chat(result, before=TOOLS))
    assert "Oslo is snowy" in answer
    assert ended


@given(ids_of_any_kind)
def test_any_context_gives_a_distribution(context: list[int]) -> None:
    ranked = MODEL.distribution(context)
    tokens = [token for token, _ in ranked]
    logprobs = [logprob for _, logprob in ranked]
    assert sum(map(math.exp, logprobs)) == pytest.approx(1.0)
    assert logprobs == sorted(logprobs, reverse=True)
    assert len(set(tokens)) == len(tokens) >= 20
    assert all(0 <= token < TOKENIZER.get_vocab_size() for token in tokens)
    assert MODEL.distribution(context) == ranked


@given(ids_of_any_kind)
def test_never_opens_a_turn(context: list[int]) -> None:
    tokens = {TOKENIZER.id_to_token(token) for token, _ in MODEL.distribution(context)}
    assert not tokens & {"<|im_start|>", "<|endoftext|>", "<think>", "<tool_response>"}


def test_only_a_bounded_tail_of_the_context_counts() -> None:
    question = encode(chat("What is the capital of France?"))
    filler = encode("the router ") * 3000
    assert MODEL.distribution(question + filler) == MODEL.distribution(filler)


def test_accepts_any_sequence() -> None:
    context = encode(chat("Hello!"))
    assert MODEL.distribution(tuple(context)) == MODEL.distribution(context)


def test_two_models_agree() -> None:
    context = encode(chat("Tell me a story."))
    assert LanguageModel.load(TINY).distribution(context) == MODEL.distribution(context)


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((TINY / name).read_bytes())
    with pytest.raises(FileNotFoundError):
        LanguageModel.load(tmp_path)


def test_a_tokenizer_without_the_markers_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "corpus.txt"):
        (tmp_path / name).write_bytes((TINY / name).read_bytes())
    stranger = (TINY / "tokenizer.json").read_text("utf-8").replace("<|im_start|>", "<|turn|>")
    (tmp_path / "tokenizer.json").write_text(stranger, "utf-8")
    with pytest.raises(ValueError, match="im_start"):
        LanguageModel.load(tmp_path)
