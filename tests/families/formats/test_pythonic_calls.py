"""Calls as Python code, cut everywhere, against Python's own reading of literals."""

from __future__ import annotations

import ast
import random
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sglrouter.families.formats.program import Format
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import (
    call_lists,
    check_truncated,
    parsed,
    reading_of,
    reads,
)
from tests.families.reading import read, read_every_way
from tests.fast.profile import soak

LFM2 = TOOL_FORMATS["lfm2"]
OLMO3 = TOOL_FORMATS["olmo3"]
PYTHONIC = TOOL_FORMATS["pythonic"]


def listed(code: list[str]) -> str:
    return f"[{', '.join(code)}]"


# How each family wraps calls up.
WRAPPED = {
    "bare": (PYTHONIC, lambda code: listed(code)),
    "python_start": (PYTHONIC, lambda code: f"<|python_start|>{listed(code)}<|python_end|>"),
    "lfm2": (LFM2, lambda code: f"<|tool_call_start|>{listed(code)}<|tool_call_end|>"),
    "olmo3": (OLMO3, lambda code: "<function_calls>" + "\n".join(code) + "</function_calls>"),
}
MARKED = {name: WRAPPED[name] for name in ("python_start", "lfm2", "olmo3")}

families = pytest.mark.parametrize(("form", "wrap"), WRAPPED.values(), ids=WRAPPED)
marked_families = pytest.mark.parametrize(("form", "wrap"), MARKED.values(), ids=MARKED)

BOOK = "book(title='Emma', pages=474)"
EMMA = ("book", {"title": "Emma", "pages": 474})


@families
def test_a_call(form: Format, wrap: Any) -> None:
    assert reads(form, wrap([BOOK])) == ("", [EMMA])


@families
def test_several_calls_with_text_around(form: Format, wrap: Any) -> None:
    text = f"Looking.\n{wrap([BOOK, 'now()'])} So much [1] for that.\n{wrap(['note(text=`)'])}"
    text = text.replace("`", "'x'")
    content, calls = reads(form, text)
    assert content.startswith("Looking.\n So much [1] for that.")
    assert calls == [EMMA, ("now", {}), ("note", {"text": "x"})]


@families
def test_calls_over_several_lines(form: Format, wrap: Any) -> None:
    code = ["\n  book(\n    title = 'Emma' ,\n    pages=474,\n  )", "\n  now( )\n"]
    assert reads(form, wrap(code)) == ("", [EMMA, ("now", {})])


VALUES: dict[str, Any] = {
    r"'it\'s \"x\" \\ \n\t'": 'it\'s "x" \\ \n\t',
    '"""two\nlines "quoted" """': 'two\nlines "quoted" ',
    r"'\x41\u00e9\U0001F600'": "Aé😀",
    r"'\U0000d800 \Uffffffff \d'": r"\U0000d800 \Uffffffff \d",
    "'日本 😀 é'": "日本 😀 é",
    "''": "",
    "[1, -2, (3, 4.5), {'a': None, 2: [True, false]}]": [
        1,
        -2,
        [3, 4.5],
        {"a": None, "2": [True, False]},
    ],
    "-1.5e3": -1500.0,
    "1_000": 1000,
    "null": None,
    "None": None,
    "true": True,
    "False": False,
    "Paris": "Paris",
    "()": [],
    # Prefixes, joined literals, and every escape.
    r"r'\d+\''": r"\d+\'",
    r"Rb'\n'": r"\n",
    r"b'a\xe9\u00e9'": "aé\\u00e9",
    "u'x'": "x",
    "f'no {{name}}'": "no {name}",
    "f'{name!r}: {1 + 1}'": "{name!r}: {1 + 1}",
    "'a' 'b'\n r'\\c'": "ab\\c",
    "('a'\n 'b')": "ab",
    "'a' + 'b'": "ab",
    r"'\101\7\0\a\v\N{BULLET}\N{no such}'": "A\x07\0\a\v•\\N{no such}",
    "'over\\\n lines'": "over lines",
    # Numbers, sets, parentheses.
    "0x1F": 31,
    "0o17": 15,
    "-0b101": -5,
    "+5": 5,
    "- 5": -5,
    ".5": 0.5,
    "1_0.5e0": 10.5,
    "{1, 'b', None}": [1, "b", None],
    "{'a'}": ["a"],
    "{(1, 2), (3,)}": [[1, 2], [3]],
    "set()": [],
    "(1)": 1,
    "((1, 2), [(3)])": [[1, 2], [3]],
    "{True: 1, None: 2, 1.5: 3, }": {"true": 1, "null": 2, "1.5": 3},
    # What is no literal is its text.
    "os.path": "os.path",
    "2 + 2": "2 + 2",
    "1 < 2": "1 < 2",
    "1j": "1j",
    "007": "007",
    "1__0": "1__0",
    "'a' + x": "'a' + x",
    "'%s' % (x, y)": "'%s' % (x, y)",
    "[count('x, (', 1), 2]": ["count('x, (', 1)", 2],
    "x if y else 'z'": "x if y else 'z'",
    "{'a': f(b=1)}": {"a": "f(b=1)"},
    "{}": {},
    "') ] }</function_calls><|python_end|><|tool_call_end|>'": (
        ") ] }</function_calls><|python_end|><|tool_call_end|>"
    ),
}


@families
@pytest.mark.parametrize("written", VALUES)
def test_values(form: Format, wrap: Any, written: str) -> None:
    code = f"book(shelf={written}, title={written})"
    value = VALUES[written]
    assert reads(form, wrap([code])) == ("", [("book", {"shelf": value, "title": value})])


@families
def test_an_argument_is_what_its_first_value_says(form: Format, wrap: Any) -> None:
    code = "book(pages=1, pages=[2, ')'], price=3)"
    assert reads(form, wrap([code])) == ("", [("book", {"pages": 1, "price": 3})])


LONG = "x" * 100


@families
@pytest.mark.parametrize(
    ("written", "arguments", "rest"),
    [
        ("book(pages=1, 2)", '{"pages": 1', ", 2)"),
        ("book(pages=1, **more)", '{"pages": 1', ", **more)"),
        ("book(tags=[1, 2][0], pages=1)", '{"tags": [1, 2]', "[0], pages=1)"),
        ("book(shelf={(1, 2): 3})", '{"shelf": [[1, 2]', ": 3})"),
        (f"book(title='{LONG}' + x)", f'{{"title": "{LONG}', "+ x)"),
    ],
)
def test_an_argument_that_breaks_leaves_its_call_incomplete(
    form: Format, wrap: Any, written: str, arguments: str, rest: str
) -> None:
    result = read_every_way(reading_of(form), wrap([written]))
    assert [(call.name, call.arguments) for call in result.calls] == [("book", arguments)]
    assert result.completed == 0
    assert result.content.strip().startswith(rest)


@families
@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("book(pages=, lent=True)", {"pages": None, "lent": True}),
        ("book(pages=[1, lent=True)", {"pages": [1, "lent=True"]}),
        ("book(pages=1 lent=True title = 'x')", {"pages": 1, "lent": True, "title": "x"}),
        (
            "book(title='Emma' pages=(1, 2) lent=None)",
            {"title": "Emma", "pages": [1, 2], "lent": None},
        ),
    ],
)
def test_commas_and_brackets_that_were_forgotten(
    form: Format, wrap: Any, written: str, arguments: Any
) -> None:
    assert reads(form, wrap([written])) == ("", [("book", arguments)])


@marked_families
@pytest.mark.parametrize("stray", [")", "]", "}", "\n```", "]]\n"])
def test_what_is_left_over_behind_a_call_does_not_show(form: Format, wrap: Any, stray: str) -> None:
    text = f"{form.markers[0]}[{BOOK}]{stray}{form.markers[1]} Done."
    assert reads(form, text) == (" Done.", [EMMA])
    text = f"{form.markers[0]}[{BOOK}{form.markers[1]} Done."
    assert reads(form, text) == (" Done.", [EMMA])
    text = f"{form.markers[0]}{BOOK.removesuffix(')')}{form.markers[1]} Done."
    assert reads(form, text) == (" Done.", [EMMA])


@marked_families
def test_calls_in_a_fence(form: Format, wrap: Any) -> None:
    text = f"{form.markers[0]}```python\n[{BOOK}]\n```{form.markers[1]}"
    assert reads(form, text) == ("", [EMMA])


@marked_families
@pytest.mark.parametrize("code", ["2 + 2", "book('Emma')", "book(*all)", "", "book", "(book)"])
def test_a_block_without_a_call_is_content(form: Format, wrap: Any, code: str) -> None:
    content, calls = reads(form, f"a {wrap([code])} b")
    assert calls == []
    assert content.startswith("a " + form.markers[0])
    assert content.endswith(" b")
    assert code in content


@marked_families
def test_a_doubled_opener_is_one(form: Format, wrap: Any) -> None:
    assert reads(form, form.markers[0] + "\n" + wrap([BOOK])) == ("", [EMMA])


@marked_families
def test_a_call_of_an_unknown_function(form: Format, wrap: Any) -> None:
    calls = [("shop.buy-2", {"a": 1}), EMMA]
    assert reads(form, wrap(["shop.buy-2(a=1)", BOOK])) == ("", calls)


@marked_families
def test_a_block_that_is_not_closed(form: Format, wrap: Any) -> None:
    closer = form.markers[1]
    assert reads(form, wrap([BOOK]).removesuffix(closer)) == ("", [EMMA])


@marked_families
def test_a_closer_that_was_cut_off_is_not_shown(form: Format, wrap: Any) -> None:
    text = wrap([BOOK])
    for end in range(len(text) - len(form.markers[1]), len(text)):
        assert reads(form, text[:end]) == ("", [EMMA])


@pytest.mark.parametrize(("form", "wrap"), [WRAPPED["lfm2"], WRAPPED["python_start"]])
def test_json_in_a_block(form: Format, wrap: Any) -> None:
    code = '{"name": "book", "arguments": {"title": "Emma", "pages": 474}}'
    assert reads(form, wrap([code, code])) == ("", [EMMA, EMMA])


def test_a_forgotten_bracket_is_forgiven() -> None:
    text = f"<|tool_call_start|>[{BOOK}, now()<|tool_call_end|> Done."
    assert reads(LFM2, text) == (" Done.", [EMMA, ("now", {})])


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 3] and [see note] or f(x)",
        "[",
        "[[[[[ book(",
        "[shop(a=1)]",
        "[book]",
        "[book('Emma')]",
        "[book(",
        "[book(title",
        "[booking(title='x')]",
        "book(title='x')",
        "[ \n\n now (",
        "[" + " " * 100 + "now()]",
        '{"title": "Emma"}',
        '{"name": "shop", "arguments": {}}',
        '[{"name": "shop"}]',
        '{"na',
        '{"type": "a\\',
        " \n[]",
        "<|python_sta",
    ],
)
def test_without_a_marker_everything_else_is_content(text: str) -> None:
    assert reads(PYTHONIC, text) == (text, [])


def test_what_follows_a_list_without_an_end_is_content() -> None:
    assert reads(PYTHONIC, f"[{BOOK} \nand so on") == (" \nand so on", [EMMA])


def test_a_list_is_found_wherever_it_is() -> None:
    assert reads(PYTHONIC, f"[book([ [x] [\n \t{BOOK}]") == ("[book([ [x] ", [EMMA])


def test_a_list_that_has_begun_may_name_what_it_likes() -> None:
    text = f"[{BOOK}, shop(a=1), shop(2)]."
    assert reads(PYTHONIC, text) == (", shop(2)].", [EMMA, ("shop", {"a": 1})])


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "note", "parameters": {"text": "x"}}',
        ' [{"name": "note", "arguments": {"text": "x"}}]',
    ],
)
def test_llama_4_also_writes_json(text: str) -> None:
    assert reads(PYTHONIC, text) == ("", [("note", {"text": "x"})])
    assert reads(PYTHONIC, text + f" and [{BOOK}]") == (" and ", [("note", {"text": "x"}), EMMA])


@families
def test_what_is_cut_off_stays_as_far_as_it_was(form: Format, wrap: Any) -> None:
    text = "Hm. " + wrap([r"book(title='a\'é\x41', pages=12, shelf={'k': [True, -1]})", "now()"])
    check_truncated(form, text + " Done.")


@families
def test_a_long_string_arrives_as_it_is_written(form: Format, wrap: Any) -> None:
    # Until then it may turn out to be part of an expression.
    text, _, _ = wrap([f"note(text='{'abcdef' * 20}')"]).partition("f')")
    assert read(reading_of(form), [text]).calls[0].arguments == f'{{"text": "{"abcdef" * 20}'[:-1]


def test_brackets_without_an_end_take_linear_time() -> None:
    # An engine's regular expression takes minutes for a tenth of this.
    text = "[book(" + ", ".join(f"p{n}=0" for n in range(300))
    result = read(reading_of(PYTHONIC), list(text))
    assert result.calls[0].arguments.startswith('{"p0": 0, "p1": 0, ')


def rendered(calls: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    return [
        f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
        for name, arguments in calls
    ]


@pytest.mark.soak
@families
@soak
@given(calls=call_lists(), seed=st.integers())
def test_what_python_writes_is_read_back(form: Format, wrap: Any, calls: Any, seed: int) -> None:
    text = wrap(rendered(calls))
    dice = random.Random(seed)
    ends = sorted(dice.sample(range(len(text) + 1), min(len(text), 6)))
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    result = read(reading_of(form), parts)
    assert (result.content, parsed(result)) == ("", [(name, dict(a)) for name, a in calls])


def plain(value: Any) -> Any:
    """A value of Python as JSON has it."""
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    return value.decode("latin-1") if isinstance(value, bytes) else value


def quoted(text: str, prefix: str, quote: str) -> str:
    """A literal with this text in it, escaped no more than it has to be."""
    return f"{prefix}{quote}{text}{quote}"


LITERALS = st.builds(
    quoted,
    st.text(st.sampled_from("ab é\\nxuNU01{}'\"d😀"), max_size=8),
    st.sampled_from(["", "r", "R", "u", "f", "b", "rb", "bR", "fr"]),
    st.sampled_from(["'", '"', "'''", '"""']),
)
NUMERALS = st.sampled_from(
    ["0", "-1", "+2", "0x_fF", "0b1", "0O7", "1_000", "1.", ".5", "1e3", "-1E-2", "- 3", "00"]
)
WRITTEN = st.recursive(
    LITERALS
    | NUMERALS
    | st.sampled_from(["None", "True", "False", "()", "[]", "{}"])
    | st.lists(LITERALS, min_size=1, max_size=3).map(" ".join),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(inner, max_size=3).map(lambda items: f"({' , '.join(items)})")
        | st.lists(st.tuples(LITERALS, inner), max_size=3).map(
            lambda items: "{" + ", ".join(f"{key} : {item}" for key, item in items) + "}"
        )
    ),
    max_leaves=5,
)


@soak
@given(written=WRITTEN, seed=st.integers())
def test_a_literal_is_what_python_reads(written: str, seed: int) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = plain(ast.literal_eval(written))
    except (ValueError, SyntaxError, TypeError):
        assume(False)
    text = f"<|tool_call_start|>[note(text={written}, n=1)]<|tool_call_end|>"
    dice = random.Random(seed)
    ends = sorted(dice.sample(range(len(text) + 1), min(len(text), 6)))
    parts = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
    for pieces in (parts, [text], list(text)):
        result = read(reading_of(LFM2), pieces)
        assert (result.content, parsed(result)) == ("", [("note", {"text": value, "n": 1})])


@families
@given(noise=st.text(st.sampled_from("[](){}=,'\"\\ab1 \n"), max_size=30))
def test_noise_is_read_the_same_however_it_is_cut(form: Format, wrap: Any, noise: str) -> None:
    read_every_way(reading_of(form), wrap([f"book(pages={noise}"]))
    read_every_way(reading_of(form), wrap([noise]))
