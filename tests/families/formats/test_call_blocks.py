"""What all families have in common that write values as text between tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.families.families import FAMILIES, Family
from tests.families.laws import NUMBERS, TEXTS, check_truncated, parsed, reading_of, reads
from tests.families.reading import read, without_ids
from tests.fast.profile import SOAK

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
blocks = {name: family for name, family in FAMILIES.items() if family.before}
every_block = pytest.mark.parametrize("family", blocks.values(), ids=blocks)

EMMA = ("book", {"title": "Emma", "pages": 474})
TYPED = (
    "book",
    {
        "title": "474",
        "pages": -3,
        "price": 9.5,
        "lent": True,
        "tags": ["a]", "b}"],
        "shelf": {"row": {"at": ["x"]}},
    },
)
STRANGE = "say \"hi\"\n\ttab \\ back 'single' 東京 👩\u200d💻 } ] { [ 1 < 2 > 0 & <b>x</b> \\n"


@every_family
def test_a_call(family: Family) -> None:
    assert reads(family.form, family.block([EMMA])) == ("", [EMMA])


@every_family
def test_values_of_every_type(family: Family) -> None:
    assert reads(family.form, family.block([TYPED])) == ("", [TYPED])


@every_family
def test_a_string_is_kept_to_the_letter(family: Family) -> None:
    text = f"  {STRANGE}\n\n"
    assert reads(family.form, family.block([("note", {"text": text})])) == (
        "",
        [("note", {"text": text})],
    )


@every_family
def test_a_call_without_arguments(family: Family) -> None:
    calls = [("now", {}), ("now", {}), EMMA]
    assert reads(family.form, family.block(calls)) == ("", calls)


@every_family
def test_text_before_between_and_after(family: Family) -> None:
    text = f"Wait.\n\n{family.block([EMMA])}\n\nAnd then:\n{family.block([('now', {})])}\nDone."
    content, calls = reads(family.form, text)
    assert content == "Wait.\n\n\n\nAnd then:\n\nDone."
    assert calls == [EMMA, ("now", {})]


@every_family
def test_blank_text_around_calls_is_none(family: Family) -> None:
    text = f"\n{family.block([EMMA])}\n\n{family.block([EMMA])}\n"
    assert reads(family.form, text) == ("", [EMMA, EMMA])


@every_block
def test_an_unknown_function_is_called(family: Family) -> None:
    assert reads(family.form, family.block([("fly", {"to": 3})])) == ("", [("fly", {"to": 3})])


@every_family
def test_a_call_cut_off_anywhere(family: Family) -> None:
    check_truncated(family.form, f"So: {family.block([TYPED, ('note', {'text': STRANGE})])} ok")


@every_block
def test_the_end_of_a_block_may_be_missing(family: Family) -> None:
    block = family.block([EMMA]).removesuffix(family.after)
    assert reads(family.form, block) == ("", [EMMA])
    assert reads(family.form, block + block) == ("", [EMMA, EMMA])


@every_block
def test_an_opener_written_twice(family: Family) -> None:
    assert reads(family.form, family.before + family.block([EMMA])) == ("", [EMMA])


@every_family
def test_what_only_begins_like_a_marker_is_text(family: Family) -> None:
    marker = family.block([EMMA]).split("\n")[0]
    for end in range(1, 6):
        text = f"Sure. {marker[:end]}"
        assert reads(family.form, text) == (text, [])
        assert reads(family.form, f"{text} no") == (f"{text} no", [])


@every_block
def test_what_is_no_call_is_text_and_the_next_call_a_call(family: Family) -> None:
    for junk in ("what?", "", "12 < 13, or is it", "no\nnever\n"):
        text = f"{family.before}{junk} {family.after} {family.block([EMMA])} ok"
        content, calls = reads(family.form, text)
        assert calls == [EMMA]
        assert content.startswith(family.before + junk)
        assert content.endswith(" ok")


@every_block
def test_what_is_no_call_after_a_block_without_end(family: Family) -> None:
    block = family.block([EMMA]).removesuffix(family.after)
    content, calls = reads(family.form, f"{block}\n{family.before}what?")
    assert (content.strip(), calls) == (f"{family.before}what?", [EMMA])


@every_block
def test_tags_are_text_again_after_their_block(family: Family) -> None:
    block = family.block([EMMA])
    call, end = block.removesuffix(family.after), family.after.strip()
    text = f"{call} what? {family.before}no {end} yes {block} {end}"
    content, calls = reads(family.form, text)
    assert calls == [EMMA, EMMA]
    assert reads(family.form, f"{call} what? {end} yes {end}")[0].count(end) == 1
    # The first end belongs to the block that was not closed, the last one to none.
    assert content.count(end) == 1
    assert content.endswith(end)


@every_family
def test_text_in_a_call_ends_it(family: Family) -> None:
    call = family.block([EMMA])
    end = call.rindex(family.value_end)
    end = call.index(">", end + len(family.value_end) - 1) + 1
    text = f"{call[:end]} what? {call[end:]} And {family.block([TYPED])} ok"
    content, calls = reads(family.form, text)
    assert calls == [EMMA, TYPED]
    assert content.split() == ["what?", "And", "ok"]


@every_family
def test_the_markers_of_calls_in_a_string(family: Family) -> None:
    inner = '<tool_call> </tool_call> <function </fun {"name": 1} [TOOL_CALLS] </invok </para'
    call = ("note", {"text": inner})
    assert reads(family.form, family.block([call])) == ("", [call])


@every_family
def test_a_long_string_goes_out_as_it_comes(family: Family) -> None:
    block = family.block([("note", {"text": "x" * 1000})])
    start = block.index("x" * 100)
    arguments = read(reading_of(family.form), [block[: start + 500]]).calls[0].arguments
    assert arguments == '{"text": "' + "x" * 500


@every_family
def test_arguments_are_not_escaped_to_ascii(family: Family) -> None:
    block = family.block([("note", {"text": "午後 😀"})])
    assert read(reading_of(family.form), [block]).calls[0].arguments == '{"text": "午後 😀"}'


# There are twenty families.
quick = settings(max_examples=max(20, SOAK // 10))

ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "title": TEXTS.filter(lambda text: text.strip() != "null"),
        "pages": st.integers(),
        "price": NUMBERS,
        "lent": st.booleans(),
        "tags": st.lists(TEXTS, min_size=1, max_size=3),
        "shelf": st.dictionaries(st.sampled_from("abc"), st.booleans() | NUMBERS, min_size=1),
        "more": st.integers(),
    },
)
CALLS = st.lists(st.tuples(st.just("book"), ARGUMENTS), min_size=1, max_size=3)


@every_family
@quick
@given(calls=CALLS, data=st.data())
def test_calls_come_back_as_they_were(
    family: Family, calls: list[tuple[str, Mapping[str, Any]]], data: st.DataObject
) -> None:
    text = family.block(calls)
    reading = reading_of(family.form)
    whole = read(reading, [text])
    assert (whole.content, parsed(whole)) == ("", calls)
    ends = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    assert without_ids(read(reading, parts)) == without_ids(whole)
    assert without_ids(read(reading, list(text))) == without_ids(whole)


@every_family
@quick
@given(data=st.data())
def test_no_text_depends_on_its_cuts(family: Family, data: st.DataObject) -> None:
    """Pieces of markup in any order."""
    block = family.block([TYPED])
    tags = [f"<{tag}" for tag in block.split("<")[1:]]
    pieces = st.sampled_from([*tags, "{", "}", '"', "\n", " ", "null", "now", "a < b", "x"])
    parts = data.draw(st.lists(pieces | TEXTS, max_size=12))
    text = "".join(parts)
    reading = reading_of(family.form)
    whole = without_ids(read(reading, [text]))
    assert without_ids(read(reading, parts)) == whole
    assert without_ids(read(reading, list(text))) == whole
