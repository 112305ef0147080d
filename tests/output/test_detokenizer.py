"""The library's way of decoding, a window at a time, against decoding all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders

from sglrouter._fast.detok import Detokenizer
from sglrouter._fast.wire import GenerateReader
from sglrouter.output.detokenizer import DetokenizerFactory, LibraryDetokenizer, TextDecoder
from sglrouter.prompt.tokenizer import load_tokenizer
from tests.fast import messages
from tests.output import models

TOKENIZERS = {
    "wordpiece": models.wordpiece(),
    "metaspace": models.metaspace(),
    "metaspace with byte fallback": models.metaspace_with_bytes(),
    "no decoder": models.without_decoder(),
}
UNKNOWN = 100_000


def run(decoder: TextDecoder, parts: Sequence[Sequence[int]], *, stopped: bool = True) -> str:
    text = ""
    for part in parts:
        reader = GenerateReader()
        reader.feed(messages.chunk(part, 0))
        text += decoder.feed(reader).decode()
        assert decoder.produced == len(text.encode())
    text += decoder.finish(stopped).decode()
    assert decoder.produced == len(text.encode())
    return text


def character_ids(tokenizer: Tokenizer) -> st.SearchStrategy[list[int]]:
    """Ids of one symbol, or of one character in byte tokens."""
    if isinstance(tokenizer.decoder, decoders.ByteLevel):
        return st.sampled_from(["a", " ", "é", "日", "😀"]).map(
            lambda char: models.byte_ids(tokenizer, char)
        ) | st.just(models.ids_of(tokenizer, models.EOS))
    vocabulary = sorted(tokenizer.get_vocab().items())
    strategy = st.sampled_from(
        [[token] for symbol, token in vocabulary if not symbol.startswith("<0x")]
    )
    if tokenizer.decoder is not None and "ByteFallback" in str(tokenizer.decoder):
        return strategy | st.sampled_from("a é日😀").map(
            lambda char: models.byte_ids(tokenizer, char)
        )
    return strategy | st.just([UNKNOWN])


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data(), skip=st.booleans())
def test_any_chunking_gives_what_the_library_decodes_at_once(
    name: str, data: st.DataObject, skip: bool
) -> None:
    tokenizer = TOKENIZERS[name]
    characters = data.draw(st.lists(character_ids(tokenizer), max_size=30))
    ids = [token for character in characters for token in character]
    cut = data.draw(st.integers(0, len(ids)))
    expected = tokenizer.decode(ids, skip_special_tokens=skip)
    for parts in ([ids], [[token] for token in ids], [ids[:cut], ids[cut:]]):
        assert run(LibraryDetokenizer(tokenizer, skip, ()), parts) == expected


def test_words_after_many_skipped_tokens_keep_their_space() -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    ids = models.ids_of(tokenizer, "hello", *["[SEP]"] * 20, "world")
    assert run(LibraryDetokenizer(tokenizer, True, ()), [ids]) == "hello world"


def test_many_characters_of_several_bytes_in_a_row_stay_whole() -> None:
    tokenizer = TOKENIZERS["metaspace with byte fallback"]
    ids = models.byte_ids(tokenizer, "😀" * 20)
    assert run(LibraryDetokenizer(tokenizer, True, ()), [[token] for token in ids]) == "😀" * 20


def test_text_after_bytes_that_are_no_character_still_comes() -> None:
    tokenizer = TOKENIZERS["metaspace with byte fallback"]
    ids = models.ids_of(tokenizer, *["<0x80>"] * 40, "w")
    decoder = LibraryDetokenizer(tokenizer, True, ())
    text = run(decoder, [[token] for token in ids])
    assert set(text[:-1]) == {"\ufffd"}
    assert text.endswith("w")


def test_the_window_stays_small() -> None:
    tokenizer = TOKENIZERS["metaspace with byte fallback"]
    decoder = LibraryDetokenizer(tokenizer, True, ())
    for symbol in ["<0x80>"] * 100 + ["w", models.EOS] * 100:
        reader = GenerateReader()
        reader.feed(messages.chunk(models.ids_of(tokenizer, symbol), 0))
        decoder.feed(reader)
        assert len(decoder._window) < 40
    assert decoder.take_starts() == []


@pytest.mark.parametrize(("stopped", "text"), [(True, "hello"), (False, "hello world")])
def test_a_stop_id_that_comes_last_is_text_unless_it_stopped_the_sample(
    stopped: bool, text: str
) -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    hello, world = models.ids_of(tokenizer, "hello", "world")
    decoder = LibraryDetokenizer(tokenizer, True, [world])
    assert run(decoder, [[hello, world]], stopped=stopped) == text
    decoder = LibraryDetokenizer(tokenizer, True, [world])
    assert run(decoder, [[world], [hello]]) == "world hello"


def test_starts_are_where_the_text_of_each_token_goes_on() -> None:
    tokenizer = TOKENIZERS["metaspace with byte fallback"]
    ids = [*models.ids_of(tokenizer, "\u2581hello", models.EOS), *models.byte_ids(tokenizer, "é")]
    decoder = LibraryDetokenizer(tokenizer, True, (), want_starts=True)
    assert run(decoder, [[*ids, *models.ids_of(tokenizer, "w")]]) == "helloéw"
    assert decoder.take_starts() == [0, 5, 5, 5, 7]
    assert decoder.take_starts() == []


def test_the_factory_decodes_by_table_where_it_can() -> None:
    byte_level = models.byte_level(("hello",))
    factory = DetokenizerFactory(byte_level)
    assert isinstance(factory.new(skip_special=True, stop_ids=()), Detokenizer)
    (hello,) = models.ids_of(byte_level, "hello")
    assert factory.piece(hello) == b"hello"
    assert factory.piece(UNKNOWN) == b""


def test_the_factory_drops_the_leading_space_where_the_decoder_does() -> None:
    tokenizer = models.byte_fallback(strip=True)
    factory = DetokenizerFactory(tokenizer)
    decoder = factory.new(skip_special=True, stop_ids=())
    ids = models.ids_of(tokenizer, "\u2581hello", "\u2581world")
    assert run(decoder, [ids]) == "hello world"
    assert factory.piece(ids[0]) == b" hello"


def test_the_factory_leaves_other_decoders_to_the_library() -> None:
    factory = DetokenizerFactory(TOKENIZERS["wordpiece"])
    assert factory.vocabulary is None
    (ending,) = models.ids_of(TOKENIZERS["wordpiece"], "##ly")
    assert factory.piece(ending) == TOKENIZERS["wordpiece"].decode([ending]).encode()
    decoder = factory.new(skip_special=True, stop_ids=(), want_starts=True)
    run(decoder, [[1, 2]])
    assert len(decoder.take_starts()) == 2


@pytest.mark.parametrize("make", [models.byte_level, models.wordpiece])
def test_special_tokens_that_are_markers_are_text(make: Callable[[], Tokenizer]) -> None:
    tokenizer = make()
    tokenizer.add_special_tokens(
        [AddedToken("<|call|>", special=True), AddedToken("<|pad|>", special=True)]
    )
    factory = DetokenizerFactory(tokenizer)
    shown = factory.special_tokens_in(["<|call|>begin", "other"])
    call, pad = models.ids_of(tokenizer, "<|call|>", "<|pad|>")
    assert shown == {call}
    reader = GenerateReader()
    reader.feed(messages.chunk([call, pad, call], 3))
    decoder = factory.new(skip_special=True, stop_ids=(), shown=shown)
    text = (decoder.feed(reader) + decoder.finish()).decode()
    assert text.count("<|call|>") == 2
    if factory.vocabulary is not None:
        assert text == "<|call|><|call|>"


@pytest.mark.parametrize(
    "tokenizer",
    [models.byte_fallback(strip=True), models.byte_fallback(strip=False), *TOKENIZERS.values()],
)
@given(data=st.data(), skip=st.booleans())
def test_the_text_of_all_ids_at_once(tokenizer: Tokenizer, data: st.DataObject, skip: bool) -> None:
    characters = data.draw(st.lists(character_ids(tokenizer), max_size=30))
    ids = [token for character in characters for token in character]
    text = DetokenizerFactory(tokenizer).text(ids, skip_special=skip)
    assert text == tokenizer.decode(ids, skip_special_tokens=skip)


@given(data=st.data(), skip=st.booleans())
def test_the_text_of_any_bytes_at_once(data: st.DataObject, skip: bool) -> None:
    tokenizer = models.byte_level(("hello", " wörld", "日本"))
    ids = data.draw(st.lists(st.integers(0, tokenizer.get_vocab_size() + 2), max_size=30))
    text = DetokenizerFactory(tokenizer).text(ids, skip_special=skip)
    assert text == tokenizer.decode(ids, skip_special_tokens=skip)


def test_a_long_text_is_made_in_turns() -> None:
    tokenizer = models.byte_level(("日本",))
    turns: list[None] = []
    word = tokenizer.encode("日本", add_special_tokens=False).ids
    # The turns begin inside of characters, too.
    ids = [*tokenizer.encode("é", add_special_tokens=False).ids, *word * 70_001]
    text = DetokenizerFactory(tokenizer).text(
        ids, skip_special=True, pause=lambda: turns.append(None)
    )
    assert text == tokenizer.decode(ids)
    assert len(turns) >= len(ids) // 20_000
    few: list[None] = []
    DetokenizerFactory(tokenizer).text(word, skip_special=True, pause=lambda: few.append(None))
    assert few == []


KINDS = {
    **TOKENIZERS,
    "byte level": models.byte_level(("hello", " wörld", "日本")),
    "byte fallback": models.byte_fallback(strip=False),
    "byte fallback with strip": models.byte_fallback(strip=True),
}


def follows(tokenizer: Tokenizer, prompt: list[int], ids: list[int], *, skip: bool) -> str:
    """What the library makes of ids behind the last ones of a prompt."""
    added = tokenizer.get_added_tokens_decoder()
    if all(
        tokenizer.id_to_token(token) is None or (skip and token in added and added[token].special)
        for token in prompt[-5:]
    ):
        prompt = []
    before = tokenizer.decode(prompt, skip_special_tokens=skip)
    return tokenizer.decode(prompt + ids, skip_special_tokens=skip)[len(before) :]


def every_cut(ids: list[int]) -> list[list[list[int]]]:
    cuts = [[ids[:cut], ids[cut:]] for cut in range(len(ids) + 1)]
    return [[[token] for token in ids], *cuts]


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data(), skip=st.booleans())
def test_a_sample_goes_on_where_its_prompt_ends(name: str, data: st.DataObject, skip: bool) -> None:
    tokenizer = KINDS[name]
    characters = st.lists(character_ids(tokenizer), max_size=12)
    prompt, ids = (
        [token for character in data.draw(characters) for token in character] for _ in range(2)
    )
    factory = DetokenizerFactory(tokenizer)
    expected = follows(tokenizer, prompt, ids, skip=skip)
    for parts in every_cut(ids):
        decoder = factory.new(skip_special=skip, stop_ids=(), prompt=prompt)
        assert run(decoder, parts) == expected


@pytest.mark.parametrize("name", ["byte level", "byte fallback", "metaspace with byte fallback"])
@pytest.mark.parametrize("char", ["é", "日", "😀"])
@pytest.mark.parametrize("before", ["", "w", "é", "日日日", "😀😀😀"])
def test_a_sample_completes_the_character_that_its_prompt_leaves_open(
    name: str, char: str, before: str
) -> None:
    tokenizer = KINDS[name]
    whole, word = models.byte_ids(tokenizer, char), models.byte_ids(tokenizer, "x")
    prompt = models.byte_ids(tokenizer, before)
    for split in range(1, len(whole)):
        ids = [*whole[split:], *word]
        for parts in every_cut(ids):
            decoder = DetokenizerFactory(tokenizer).new(
                skip_special=True, stop_ids=(), want_starts=True, prompt=prompt + whole[:split]
            )
            assert run(decoder, parts) == f"{char}x"
            starts = decoder.take_starts()
            assert len(starts) == len(ids)
            assert starts[-1] == len(char.encode())


@pytest.mark.parametrize("name", KINDS)
def test_a_replacement_character_in_the_prompt_is_no_part_of_the_sample(name: str) -> None:
    tokenizer = KINDS[name]
    odd = [models.ids_of(tokenizer, "\ufffd")] if tokenizer.token_to_id("\ufffd") else []
    if tokenizer.token_to_id("<0x00>"):
        odd += [models.byte_ids(tokenizer, "\ufffd"), models.ids_of(tokenizer, *["<0x80>"] * 9)]
    for end in odd:
        prompt = [*models.ids_of(tokenizer, "w"), *end]
        ids = models.ids_of(tokenizer, "lo", "w")
        decoder = DetokenizerFactory(tokenizer).new(skip_special=True, stop_ids=(), prompt=prompt)
        assert run(decoder, [ids]) == follows(tokenizer, prompt, ids, skip=True)


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    ["mistral-spm-v3", "qwen3", "deepseek-v3", "gpt-oss", "smollm2-135m-instruct"],
)
def test_real_samples_go_on_where_their_prompts_end(corpus: Path, name: str) -> None:
    tokenizer = load_tokenizer(corpus / "tokenizers" / name)
    factory = DetokenizerFactory(tokenizer)
    texts = ["Hello world! naïve 日本語", "  two  spaces\n\tand 👩‍👩‍👧 family", "a\n b"]
    for text in texts:
        ids = tokenizer.encode(text).ids
        for cut in range(len(ids) + 1):
            prompt, rest = ids[:cut], ids[cut:]
            before = tokenizer.decode(prompt).rstrip("\ufffd")
            decoder = factory.new(skip_special=True, stop_ids=(), prompt=prompt)
            found = run(decoder, [[token] for token in rest])
            assert before + found == tokenizer.decode(ids), (text, cut)
