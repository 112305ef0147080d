"""The table of bytes per id against the library's own decoding."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders

from sglrouter._fast.detok import Detokenizer
from sglrouter.output.vocabulary import TokenTable, build_token_table
from tests.output import models


def table_of(tokenizer: Tokenizer) -> TokenTable:
    table = build_token_table(tokenizer)
    assert table is not None
    return table


def decode(table: TokenTable, ids: list[int], *, skip: bool) -> str:
    detokenizer = Detokenizer(table.vocabulary, skip, (), table.strip_leading_space)
    return (detokenizer.feed_ids(ids) + detokenizer.finish()).decode()


@pytest.mark.parametrize(
    ("tokenizer", "byte_fallback", "strip"),
    [
        (models.byte_level(("hello", " world", "日本")), False, False),
        (models.byte_fallback(strip=True), True, True),
        (models.byte_fallback(strip=False), True, False),
    ],
    ids=["byte level", "byte fallback, leading space dropped", "byte fallback"],
)
def test_every_id_decodes_as_in_the_library(
    tokenizer: Tokenizer, byte_fallback: bool, strip: bool
) -> None:
    table = table_of(tokenizer)
    assert table.vocabulary.byte_fallback is byte_fallback
    assert table.strip_leading_space is strip
    last = max(tokenizer.get_vocab().values())
    assert len(table.vocabulary) == last + 1
    for skip in (False, True):
        for token in range(last + 3):
            expected = tokenizer.decode([token], skip_special_tokens=skip)
            assert decode(table, [token], skip=skip) == expected, tokenizer.id_to_token(token)


@given(st.data())
def test_the_embedded_model_decodes_as_in_the_library(
    tiny_model: Path, data: st.DataObject
) -> None:
    tokenizer, table = _tiny(tiny_model)
    ids = data.draw(st.lists(st.integers(0, len(table.vocabulary) + 2), max_size=30))
    for skip in (False, True):
        expected = tokenizer.decode(ids, skip_special_tokens=skip)
        assert decode(table, ids, skip=skip) == expected


def test_every_id_of_the_embedded_model_decodes_as_in_the_library(tiny_model: Path) -> None:
    tokenizer, table = _tiny(tiny_model)
    for token in range(len(table.vocabulary)):
        expected = tokenizer.decode([token], skip_special_tokens=False)
        assert decode(table, [token], skip=False) == expected
        assert table.vocabulary.piece(token).decode("utf-8", "replace") == expected


_tiny_model: dict[Path, tuple[Tokenizer, TokenTable]] = {}


def _tiny(path: Path) -> tuple[Tokenizer, TokenTable]:
    if path not in _tiny_model:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        _tiny_model[path] = tokenizer, table_of(tokenizer)
    return _tiny_model[path]


SENTENCEPIECE = models.byte_fallback(strip=True)
# Characters in bytes and as words, so that what the library shows is what was meant.
character_ids = st.one_of(
    st.sampled_from([*models.WORDS, *models.LOOKALIKES, "[TOOL]", models.EOS]).map(
        lambda symbol: models.ids_of(SENTENCEPIECE, symbol)
    ),
    st.characters(exclude_categories=["Cs"]).map(lambda char: models.byte_ids(SENTENCEPIECE, char)),
    st.just([100_000]),
)


@given(st.lists(character_ids, max_size=12), st.booleans())
def test_byte_fallback_decodes_as_in_the_library(parts: list[list[int]], skip: bool) -> None:
    ids = [token for part in parts for token in part]
    expected = SENTENCEPIECE.decode(ids, skip_special_tokens=skip)
    assert decode(table_of(SENTENCEPIECE), ids, skip=skip) == expected


def test_byte_fallback_keeps_whole_characters_beside_a_cut_one() -> None:
    """The library shows such a run of byte tokens as U+FFFD and nothing else."""
    ids = models.byte_ids(SENTENCEPIECE, "é€")[:-1]
    assert SENTENCEPIECE.decode(ids) == "\ufffd" * 4
    assert decode(table_of(SENTENCEPIECE), ids, skip=True) == "é\ufffd\ufffd"


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.WordPiece(),
        decoders.Metaspace(),
        decoders.BPEDecoder(),
        decoders.CTC(),
        decoders.Fuse(),
        decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()]),
        decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()]),
        decoders.Sequence([decoders.Replace("_", " "), decoders.ByteFallback(), decoders.Fuse()]),
        decoders.Sequence(
            [decoders.Replace("\u2581", ""), decoders.ByteFallback(), decoders.Fuse()]
        ),
        decoders.Sequence(
            [
                decoders.Replace("\u2581", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 2, 0),
            ]
        ),
        decoders.Sequence(
            [
                decoders.Replace("\u2581", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 1),
            ]
        ),
    ],
    ids=str,
)
def test_other_decoders_are_left_to_the_library(decoder: decoders.Decoder | None) -> None:
    tokenizer = models.without_decoder()
    tokenizer.decoder = decoder
    assert build_token_table(tokenizer) is None


def test_nested_sequences_are_seen_through() -> None:
    tokenizer = models.byte_fallback(strip=False)
    inner = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), inner, decoders.Strip(" ", 1, 0)]
    )
    assert table_of(tokenizer).strip_leading_space
