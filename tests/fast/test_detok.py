"""The detokenizer against its definition: all bytes of all ids, decoded at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sglrouter._fast.detok import Detokenizer, Vocabulary
from sglrouter._fast.wire import GenerateReader
from sglrouter.output.vocabulary import TokenTable, build_token_table
from tests.fast import messages, reference
from tests.fast.profile import soak

BYTES = 256
# Ids 0 to 255 are the bytes; then come words, a special token, a hole and an empty token.
WORDS = [b"hello", b" world", " é".encode(), "日本".encode(), "😀".encode(), "😀".encode()[:2]]
SPECIAL = BYTES + len(WORDS)
PIECES = [*(bytes([i]) for i in range(BYTES)), *WORDS, b"<|end|>", None, b""]
UNKNOWN = len(PIECES) + 5

# What tells a decoder apart: the borders of the ranges of well-formed UTF-8.
BORDERS = bytes.fromhex(
    "00 20 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f4 f5 ff"
)
tokens = st.sampled_from([*BORDERS, *range(BYTES, len(PIECES)), UNKNOWN, 2**32 - 1])
samples = st.lists(tokens, max_size=12)


@pytest.fixture(scope="module", params=[False, True], ids=["byte_level", "byte_fallback"])
def spec(request: pytest.FixtureRequest) -> reference.Vocabulary:
    return reference.Vocabulary(PIECES, frozenset([SPECIAL]), bool(request.param))


def compiled(spec: reference.Vocabulary) -> Vocabulary:
    return Vocabulary(spec.pieces, spec.special, spec.byte_fallback)


def run(
    detokenizer: Detokenizer, parts: Sequence[Sequence[int]], *, stopped: bool = True
) -> reference.Text:
    """What comes out in all; each part goes in by the one and by the other door."""
    text = b""
    starts = []
    for number, part in enumerate(parts):
        if number % 2:
            fresh = detokenizer.feed_ids(part)
        else:
            reader = GenerateReader()
            reader.feed(messages.chunk(part, 0))
            fresh = detokenizer.feed(reader)
            assert reader.take_ids() == []
        fresh.decode()  # whole characters
        text += fresh
        assert detokenizer.produced == len(text)
        starts += detokenizer.take_starts()
    text += detokenizer.finish(stopped)
    assert detokenizer.produced == len(text)
    assert detokenizer.finish(stopped) == b""
    return reference.Text(text, starts + detokenizer.take_starts())


def cuts(ids: Sequence[int]) -> Iterator[list[Sequence[int]]]:
    """One by one, all at once, and cut in two at every point."""
    yield [[token] for token in ids]
    for cut in range(len(ids) + 1):
        yield [ids[:cut], ids[cut:]]


@pytest.mark.soak
@soak
@given(
    samples,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(), (SPECIAL,), (SPECIAL, 0x41, UNKNOWN)]),
)
# Bytes that wait and then turn out invalid, a space to strip before more, and both.
@example([0xF0, 0x90, 0x41, 0x80, 0x80], True, False, True, ())
@example([0x20, 0x41, 0x41], True, True, True, ())
@example([0x20, 0xF0, 0x90], False, True, True, ())
def test_every_way_of_cutting_gives_the_text_of_the_definition(
    spec: reference.Vocabulary,
    ids: list[int],
    skip: bool,
    strip: bool,
    stopped: bool,
    stop_ids: tuple[int, ...],
) -> None:
    expected = reference.detokenize(
        spec,
        ids,
        skip_special=skip,
        stop_ids=stop_ids,
        strip_leading_space=strip,
        stopped=stopped,
    )
    vocabulary = compiled(spec)
    for parts in cuts(ids):
        detokenizer = Detokenizer(vocabulary, skip, stop_ids, strip, want_starts=True)
        assert run(detokenizer, parts, stopped=stopped) == expected


@given(samples, samples, st.booleans(), st.booleans())
@example([0x41], [0x20, 0x41], True, True)
@example([SPECIAL], [0x20, 0x41], True, True)
@example([SPECIAL], [0x20, 0x41], False, True)
@example([0xF0, 0x90], [0x80, 0x80, 0x20], True, True)
@example([0x20], [0x20, 0x20], True, True)
def test_a_sample_goes_on_where_its_prompt_ends(
    spec: reference.Vocabulary, prompt: list[int], ids: list[int], skip: bool, strip: bool
) -> None:
    expected = reference.detokenize(
        spec, ids, skip_special=skip, strip_leading_space=strip, prompt=prompt
    )
    vocabulary = compiled(spec)
    for parts in cuts(ids):
        detokenizer = Detokenizer(vocabulary, skip, (), strip, want_starts=True)
        detokenizer.follow(prompt)
        assert detokenizer.settle() == b""
        assert detokenizer.produced == 0
        assert run(detokenizer, parts) == expected


@given(samples)
def test_at_most_three_bytes_wait(spec: reference.Vocabulary, ids: list[int]) -> None:
    detokenizer = Detokenizer(compiled(spec), skip_special=False)
    text = b""
    for count, token in enumerate(ids, 1):
        text += detokenizer.feed_ids([token])
        whole = b"".join(spec.piece(each) for each in ids[:count])
        # What is out is the text of all but the last few bytes.
        assert text in [
            b"".join(
                shown
                for _, shown in reference.pieces_of(
                    whole[: len(whole) - waiting], byte_fallback=spec.byte_fallback
                )
            )
            for waiting in range(min(3, len(whole)) + 1)
        ]


@pytest.mark.parametrize("text", ["é", "€", "日本語", "😀😀", "a\u0301", "\U0010ffff", "e\ufffd"])
def test_a_character_comes_out_with_its_last_byte(spec: reference.Vocabulary, text: str) -> None:
    detokenizer = Detokenizer(compiled(spec))
    shown = ""
    for number, char in enumerate(text, 1):
        *begin, last = char.encode()
        assert detokenizer.feed_ids(begin) == b""
        shown += detokenizer.feed_ids([last]).decode()
        assert shown == text[:number]
    assert detokenizer.finish() == b""


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ("80", 1),
        ("bf bf", 2),
        ("c0 af", 2),
        ("c1 bf", 2),
        ("e0 80 af", 3),
        ("e0 9f bf", 3),
        ("f0 80 80 af", 4),
        ("f0 8f bf bf", 4),
        ("ed a0 80", 3),
        ("ed bf bf", 3),
        ("ed a0 bd ed b8 80", 6),
        ("f4 90 80 80", 4),
        ("f5 80 80 80", 4),
        ("ff fe", 2),
        ("e2 82", 1),
        ("f0 9f 98", 1),
        ("f0 9f 98 f0 9f", 2),
        ("c3 c3", 2),
    ],
    ids=str,
)
def test_bytes_that_are_no_character_become_replacements(
    spec: reference.Vocabulary, data: str, parts: int
) -> None:
    raw = bytes.fromhex(data)
    shown = "\ufffd" * (len(raw) if spec.byte_fallback else parts)
    for ids in cuts(b"a" + raw + b"b"):
        assert run(Detokenizer(compiled(spec)), ids).data.decode() == f"a{shown}b"
    for ids in cuts(raw):
        assert run(Detokenizer(compiled(spec)), ids).data.decode() == shown


@given(st.binary(max_size=16))
def test_invalid_bytes_show_as_python_shows_them(data: bytes) -> None:
    detokenizer = Detokenizer(compiled(reference.Vocabulary(PIECES)))
    text = run(detokenizer, [[byte] for byte in data]).data
    assert text.decode() == data.decode("utf-8", "replace")


def test_a_stop_id_waits_for_what_follows() -> None:
    vocabulary = compiled(reference.Vocabulary(PIECES))
    detokenizer = Detokenizer(vocabulary, stop_ids=[0x41])
    assert detokenizer.feed_ids(b"xA") == b"x"
    assert detokenizer.feed_ids([]) == b""
    assert detokenizer.feed_ids(b"y") == b"Ay"
    assert detokenizer.feed_ids(b"AA") == b"A"
    assert detokenizer.finish(stopped=True) == b""


@pytest.mark.parametrize(("stopped", "rest"), [(True, b""), (False, b"A")])
def test_a_stop_id_that_comes_last_is_text_unless_it_stopped_the_sample(
    stopped: bool, rest: bytes
) -> None:
    detokenizer = Detokenizer(compiled(reference.Vocabulary(PIECES)), stop_ids=[0x41])
    assert detokenizer.feed_ids(b"xA") == b"x"
    assert detokenizer.finish(stopped) == rest


def test_a_stop_id_does_not_complete_a_character_that_is_cut() -> None:
    detokenizer = Detokenizer(compiled(reference.Vocabulary(PIECES)), stop_ids=[0x41])
    assert detokenizer.feed_ids([0xE2, 0x82, 0x41]) == b""
    assert detokenizer.finish().decode() == "\ufffd"


def test_starts_are_empty_unless_wanted() -> None:
    detokenizer = Detokenizer(compiled(reference.Vocabulary(PIECES)))
    for _ in range(2):
        detokenizer.feed_ids(b"ab")
        assert detokenizer.take_starts() == []


@pytest.mark.parametrize("byte", [0x80, 0xE2, 0xF0, 0x20])
def test_a_megabyte_of_partial_characters_ends(byte: int) -> None:
    count = 1_000_000
    for parts in ([[byte] * count], [[byte] * 100] * (count // 100)):
        detokenizer = Detokenizer(
            compiled(reference.Vocabulary(PIECES)), want_starts=True, strip_leading_space=True
        )
        text = b"".join(detokenizer.feed_ids(part) for part in parts) + detokenizer.finish()
        assert len(text.decode()) == count - (byte == 0x20)
        assert len(detokenizer.take_starts()) == count


def test_the_vocabulary_knows_its_pieces() -> None:
    vocabulary = Vocabulary([b"a", None, "é".encode()], [7, -1])
    assert len(vocabulary) == vocabulary.size == 3
    assert [vocabulary.piece(i) for i in (-1, 0, 1, 2, 3)] == [b"", b"a", b"", "é".encode(), b""]


def test_an_empty_vocabulary_makes_no_text() -> None:
    assert run(Detokenizer(Vocabulary([], [])), [[0, 1]]).data == b""


BYTE_LEVEL = ["deepseek-v3", "gpt-oss", "mistral-tekken-240911", "qwen3", "smollm2-135m-instruct"]
SENTENCEPIECE = "mistral-spm-v3"


@pytest.fixture(scope="module", params=[*BYTE_LEVEL, SENTENCEPIECE])
def real(request: pytest.FixtureRequest, corpus: Path) -> tuple[str, TokenTable]:
    name = str(request.param)
    path = corpus / "tokenizers" / name / "tokenizer.json"
    table = build_token_table(Tokenizer.from_file(str(path)))
    assert table is not None
    return name, table


def golden_rows(corpus: Path, name: str) -> list[dict[str, Any]]:
    path = corpus / "tokenizers" / "goldens" / f"{name}.jsonl"
    with path.open(encoding="utf-8") as rows:  # str.splitlines() splits at U+2028, too
        return [json.loads(row) for row in rows]


def texts_of(table: TokenTable, ids: list[int], skip: bool) -> set[bytes]:
    """The text by each way of cutting that is tried; one if all is well."""
    return {
        run(Detokenizer(table.vocabulary, skip, (), table.strip_leading_space), parts).data
        for parts in ([[token] for token in ids], [ids])
    }


@pytest.mark.corpus
def test_real_vocabularies_decode_as_the_library_does(
    corpus: Path, real: tuple[str, TokenTable]
) -> None:
    name, table = real
    rows = golden_rows(corpus, name)
    assert len(rows) > 300
    special = special_ids(corpus, name) if name == SENTENCEPIECE else frozenset()
    for row in rows:
        for skip, column in ((False, "decoded"), (True, "decoded_skip")):
            expected = row[column].encode()
            if name == SENTENCEPIECE and "\ufffd" in row[column]:
                # The library turns a whole run of byte tokens into U+FFFD as soon as one
                # character in it is cut, which a stream cannot retract. Ours keeps the
                # characters that were whole.
                pieces: list[bytes | None] = [
                    table.vocabulary.piece(token) for token in range(len(table.vocabulary))
                ]
                expected = reference.detokenize(
                    reference.Vocabulary(pieces, special, byte_fallback=True),
                    row["ids"],
                    skip_special=skip,
                    strip_leading_space=True,
                ).data
            assert texts_of(table, row["ids"], skip) == {expected}, (row["kind"], row["n"])


def special_ids(corpus: Path, name: str) -> frozenset[int]:
    path = corpus / "tokenizers" / name / "tokenizer.json"
    added = json.loads(path.read_text())["added_tokens"]
    return frozenset(token["id"] for token in added if token["special"])
