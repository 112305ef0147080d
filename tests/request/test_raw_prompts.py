"""Prompts as texts and as ids: what an engine gets of them, and what a client sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import Tokenizer, processors

from sglrouter.errors import BadRequest
from sglrouter.output.detokenizer import DetokenizerFactory
from sglrouter.output.prompt_text import PromptText
from sglrouter.prompt.encoder import reference_encoder
from sglrouter.prompt.tokenizer import load_tokenizer
from sglrouter.request.limits import Limits
from sglrouter.request.raw_prompts import RawPrompt, RawPrompts
from tests.output import models

WORDS = ("hello", " world", "日本")
LIMITS = Limits(vocab_size=300, context_length=100, max_prompt_tokens=0, max_n=4)
EOS = 259


def prompts_of(
    tokenizer: tokenizers.Tokenizer | None = None,
    *,
    most: int = 3,
    pauses: list[None] | None = None,
) -> RawPrompts:
    tokenizer = tokenizer or models.byte_level(WORDS)
    return RawPrompts(
        reference_encoder(tokenizer),
        DetokenizerFactory(tokenizer),
        most,
        lambda: None if pauses is None else pauses.append(None),
    )


def with_ends(tokenizer: tokenizers.Tokenizer, first: str, last: str) -> tokenizers.Tokenizer:
    ids = [(symbol, tokenizer.get_vocab()[symbol]) for symbol in {first, last}]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=ids
    )
    return tokenizer


def read(prompt: Any, **options: Any) -> list[RawPrompt]:
    return prompts_of(**options).read(prompt, LIMITS, "prompt")


def refused(prompt: Any, **options: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read(prompt, **options)
    return caught.value


def ids(prompt: RawPrompt) -> list[int]:
    return list(memoryview(prompt.ids).cast("B").cast("I"))


def test_texts_and_ids_become_prompts() -> None:
    text = models.byte_ids(models.byte_level(WORDS), "ab")
    assert [(ids(each), each.text) for each in read("ab")] == [(text, "ab")]
    assert [(ids(each), each.text) for each in read(["ab", "a"])] == [
        (text, "ab"),
        (text[:1], "a"),
    ]
    assert [(ids(each), each.text) for each in read([5, 6])] == [([5, 6], None)]
    assert [(ids(each), each.text) for each in read([[5], [6, 7]])] == [([5], None), ([6, 7], None)]


def test_a_text_gets_the_special_tokens_of_its_ends_and_ids_do_not() -> None:
    tokenizer = with_ends(models.byte_level(WORDS), models.EOS, models.EOS)
    (prompt,) = read("a", tokenizer=tokenizer)
    assert ids(prompt)[0] == ids(prompt)[-1] == EOS
    assert len(ids(prompt)) == 3
    (prompt,) = read([5], tokenizer=tokenizer)
    assert ids(prompt) == [5]
    # A text of nothing then is a prompt.
    assert EOS in ids(read("", tokenizer=tokenizer)[0])


@pytest.mark.parametrize("prompt", [[], ["a", 5], [[5], 5], [5, "a"], ["a", [5]]])
def test_a_mixture_and_nothing_are_refused(prompt: list[Any]) -> None:
    error = refused(prompt)
    assert (error.code, error.param) == ("invalid_type", "prompt")


@pytest.mark.parametrize(
    ("prompt", "param", "code"),
    [
        ("", "prompt", "empty_prompt"),
        (["a", ""], "prompt[1]", "empty_prompt"),
        ([[5], []], "prompt[1]", "empty_prompt"),
        ([300], "prompt", "token_out_of_vocabulary"),
        ([[5], [5, 300]], "prompt[1]", "token_out_of_vocabulary"),
        ([5, -1], "prompt[1]", "token_out_of_vocabulary"),
        ([[2**32]], "prompt[0][0]", "token_out_of_vocabulary"),
        ([[5, 10**400]], "prompt[0][1]", "token_out_of_vocabulary"),
        ("a" * 94, "prompt", "context_length_exceeded"),
        (["a", "a" * 94], "prompt[1]", "context_length_exceeded"),
        ([5] * 94, "prompt", "context_length_exceeded"),
    ],
)
def test_what_an_engine_cannot_take_is_named(prompt: Any, param: str, code: str) -> None:
    error = refused(prompt)
    assert (error.param, error.code) == (param, code)
    assert len(error.message) < 300


def test_the_number_of_prompts_is_bounded() -> None:
    assert len(read(["a"] * 3)) == 3
    error = refused(["a"] * 4)
    assert error.param == "prompt"
    assert "at most 3" in error.message
    # One prompt of many ids is one.
    assert len(read([5] * 90)) == 1


def shown(prompt: RawPrompt, *, skip_special: bool = True, **options: Any) -> PromptText:
    return prompts_of(**options).shown(prompt, skip_special=skip_special, placed=True)


def test_a_text_is_shown_as_it_is_and_its_tokens_are_placed_in_it() -> None:
    (prompt,) = read("ü a")
    assert shown(prompt) == PromptText("ü a".encode(), [0, 0, 1, 2])
    unplaced = prompts_of().shown(prompt, skip_special=True, placed=False)
    assert unplaced == PromptText("ü a".encode())


def test_special_tokens_at_the_ends_have_a_place_and_no_text() -> None:
    tokenizer = with_ends(models.byte_level(WORDS), models.EOS, models.EOS)
    text = f"ü{models.EOS}a"
    (prompt,) = read(text, tokenizer=tokenizer)
    end = len(text)
    found = shown(prompt, tokenizer=tokenizer)
    assert found == PromptText(text.encode(), [0, 0, 0, 1, end - 1, end])


def test_a_space_that_the_tokenizer_writes_first_is_no_part_of_the_text() -> None:
    tokenizer = models.byte_fallback(strip=True)
    hello, world = models.ids_of(tokenizer, "\u2581hello", "\u2581world")
    eos = tokenizer.get_vocab()[models.EOS]
    prompt = RawPrompt(memoryview(bytes_of([eos, hello, world])).cast("I"), "hello world")
    assert shown(prompt, tokenizer=tokenizer) == PromptText(b"hello world", [0, 0, 5])


def test_a_text_that_the_tokenizer_changes_keeps_its_own_words() -> None:
    made = [EOS, *models.byte_ids(models.byte_level(WORDS), "abüc"), EOS]
    prompt = RawPrompt(memoryview(bytes_of(made)).cast("I"), "ABÜ")
    assert shown(prompt) == PromptText("ABÜ".encode(), [0, 0, 1, 2, 2, 3, 3])


@pytest.mark.parametrize("skip_special", [True, False])
def test_ids_are_shown_as_their_text(skip_special: bool) -> None:
    found = [*models.byte_ids(models.byte_level(WORDS), "é"), EOS, 256]
    (prompt,) = read(found)
    text = "éhello" if skip_special else f"é{models.EOS}hello"
    assert shown(prompt, skip_special=skip_special) == PromptText(
        text.encode(), [0, 0, 1, 1 if skip_special else 1 + len(models.EOS)]
    )


# vllm#48853
@pytest.mark.parametrize("make", [models.byte_level, models.metaspace_with_bytes])
def test_a_character_that_ids_leave_open_is_for_the_answer_to_show(
    make: Callable[[], Tokenizer],
) -> None:
    tokenizer = make()
    (prompt,) = read([*models.byte_ids(tokenizer, "é日")[:-1]], tokenizer=tokenizer)
    assert shown(prompt, tokenizer=tokenizer) == PromptText("é".encode(), [0, 0, 1, 1])
    decoder = DetokenizerFactory(tokenizer).new(skip_special=True, stop_ids=(), prompt=prompt.ids)
    assert set(decoder.finish(stopped=False).decode()) == {"\ufffd"}


def test_bytes_that_are_no_character_are_shown_to_their_end() -> None:
    tokenizer = models.metaspace_with_bytes()
    wrong = models.ids_of(tokenizer, "w", "<0x80>", "<0x80>")
    (prompt,) = read(wrong, tokenizer=tokenizer)
    assert shown(prompt, tokenizer=tokenizer).text.decode() == "w\ufffd\ufffd"


def test_a_tokenizer_without_a_table_places_tokens_as_well() -> None:
    tokenizer = models.wordpiece()
    (prompt,) = read(models.ids_of(tokenizer, "hello", "##s", "world"), tokenizer=tokenizer)
    assert shown(prompt, tokenizer=tokenizer) == PromptText(b"hellos world", [0, 5, 6])


def test_others_get_their_turn_while_many_prompts_are_read() -> None:
    # Each of these takes many times the turn that a request has.
    pauses: list[None] = []
    read(["a" * 90] * 4000, most=4000, pauses=pauses)
    assert pauses
    pauses.clear()
    shown(RawPrompt(memoryview(bytes_of([5] * 1_000_000)).cast("I")), pauses=pauses)
    assert pauses


def test_the_tiny_model_places_every_token_of_a_text(tiny_model: Path) -> None:
    tokenizer = load_tokenizer(tiny_model)
    prompts = prompts_of(tokenizer)
    text = "What is the capital of France? 日本語 👩‍👩‍👧 <|im_start|>x"
    (prompt,) = prompts.read(text, Limits(10_000, 0, 0, 1), "prompt")
    found = prompts.shown(prompt, skip_special=True, placed=True)
    factory = DetokenizerFactory(tokenizer)
    for token, offset in zip(ids(prompt), found.offsets, strict=True):
        piece = factory.piece(token)
        assert text.encode().startswith(piece, len(text[:offset].encode())) or len(piece) < 4


def bytes_of(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)
