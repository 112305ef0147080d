"""Values that quote the markup they stand in, in every family that writes tags."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sglrouter.families.formats.program import Tools
from tests.families.families import FAMILIES, Family
from tests.families.laws import check_truncated, parsed, reading_of, reads
from tests.families.reading import read, read_every_way, without_ids
from tests.fast.profile import soak

# Those whose values are text as it is; MiniCPM escapes them, M3 marks its tags by a token.
TAGS = {
    name: family
    for name, family in FAMILIES.items()
    if "minimax-m3" not in name and "minicpm" not in name
}
every_family = pytest.mark.parametrize("family", TAGS.values(), ids=TAGS)

TOOLS = Tools(
    [
        {
            "function": {
                "name": "write",
                "parameters": {
                    "$defs": {
                        "Count": {"type": ["integer", "null"]},
                        "Lines": {"anyOf": [{"$ref": "#/$defs/Count"}, {"type": "null"}]},
                        "Loop": {"$ref": "#/$defs/Loop"},
                    },
                    "properties": {
                        "content": {"type": "string"},
                        "path": {"type": "string"},
                        "mode": {"type": ["string", "null"]},
                        "count": {"type": "integer"},
                        "lines": {"$ref": "#/$defs/Lines"},
                        "union": {"type": ["integer", "null"]},
                        "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
                        "loop": {"$ref": "#/$defs/Loop"},
                        "nowhere": {"$ref": "#/$defs/None"},
                        "object": {"type": "object"},
                    },
                },
            }
        }
    ]
)


CALL_ENDS = (
    "</function>", "</invoke>", "</steptml:invoke>", "</｜DSML｜invoke>", "</｜DSML｜ invoke>",
    "</｜GCML｜invoke>", "</atem:invoke>", "</tool_call>", "</iquest_tool_call>",
    "</ifm|tool_call>", "</tool_call:opensource>",
)  # fmt: skip
CALLS = [end.replace("</", "<").removesuffix(">") for end in CALL_ENDS]


def tags(family: Family) -> list[str]:
    """The tags of a call of `write` with a path and a content."""
    block = family.block([("write", {"path": "P", "content": "C"})])
    return [f"<{part.split('>')[0]}>" for part in block.split("<")[1:]]


def quotes(family: Family) -> list[str]:
    """Values that are not the end of what they stand in, whatever they look like."""
    end = family.value_end if family.value_end.endswith(">") else family.value_end + ">"
    call = family.block([("write", {"path": "P", "content": "C"})])
    single = [f"a {tag} b" for tag in tags(family)]
    return [
        *single,
        f"a{end}b",
        f"use {end} and {end} here",
        "".join(f"{tag} x " for tag in tags(family)),
        call,
        f"Such a call:\n{call}\nand another:\n{call}\nare two.",
        f"null{end}x",
        "",
    ]


@every_family
@pytest.mark.parametrize("after", ["", " ok"], ids=["end", "text"])
def test_a_value_quotes_its_own_markup(family: Family, after: str) -> None:
    for value in quotes(family):
        for arguments in (
            {"content": value},
            {"content": value, "path": "t"},
            {"path": "t", "content": value},
            {"path": "t", "mode": value, "count": 5},
            {"object": {"a": value}, "path": "t"},
        ):
            if not value and "mode" in arguments:
                continue
            text = family.block([("write", arguments)]) + after
            result = read_every_way(reading_of(family.form, TOOLS), text, most=40)
            assert (result.content, parsed(result)) == (after, [("write", arguments)]), value


@every_family
def test_a_call_that_quotes_markup_is_cut_off_anywhere(family: Family) -> None:
    reading = reading_of(family.form, TOOLS)
    for value in quotes(family):
        text = family.block([("write", {"content": value, "path": "t"})])
        whole = json.dumps({"content": value, "path": "t"}, ensure_ascii=False)
        for end in range(text.index("write") + 6, len(text), 3):
            result = read(reading, [text[:end]])
            # One byte of a tag may be the beginning of any text.
            assert result.content.strip() in ("", "<"), text[:end]
            assert len(result.calls) <= 1
            if result.calls and result.completed == 0:
                got = result.calls[0].arguments
                # A quote may close where a tag was the last word.
                assert whole.startswith((got, got.removesuffix('"'))), text[:end]


@every_family
def test_no_name_comes_twice(family: Family) -> None:
    pair = {"path": "t", "pat2": "u", "count": 5}
    text = family.block([("write", pair)]).replace("pat2", "path")
    result = read_every_way(reading_of(family.form, TOOLS), text)
    assert result.calls[0].arguments == '{"path": "t", "count": 5}'
    assert (result.completed, result.content) == (1, "")


@every_family
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "\n 5 \n", 5),
        ("union", "\n 5 \n", 5),
        ("union", "\nnull\n", None),
        ("lines", "\n 5 \n", 5),
        ("either", "\n true \n", True),
        ("either", "\n maybe \n", "maybe"),
        ("loop", "\n 5 \n", 5),
        ("nowhere", "\n 5 \n", 5),
        ("undeclared", "\n 5 \n", 5),
        ("undeclared", "\nfive\n", "five"),
    ],
)
def test_a_value_on_its_own_line(family: Family, name: str, text: str, value: Any) -> None:
    call = family.block([("write", {name: "VALUE"})]).replace('string="true"', 'string="false"')
    call = call.replace("\nVALUE\n", "VALUE").replace("VALUE", text)
    assert reads(family.form, call, TOOLS) == ("", [("write", {name: value})])


@every_family
@pytest.mark.parametrize("stray", ["}", "\n}\n", "\n```", "\n```\n", "}}\n```"])
def test_what_is_stray_after_a_call(family: Family, stray: str) -> None:
    block = family.block([("write", {"path": "t"})])
    call = ("write", {"path": "t"})
    assert reads(family.form, block + stray, TOOLS) == ("", [call])
    assert reads(family.form, f"{block}{stray}{block}", TOOLS) == ("", [call, call])


@every_family
def test_a_fence(family: Family) -> None:
    block = family.block([("write", {"path": "t"})])
    call = ("write", {"path": "t"})
    code = "\n```python\nx = {}\n```"
    assert reads(family.form, block + code, TOOLS) == (code, [call])
    assert reads(family.form, f"So:\n```\nx\n```{code}", TOOLS) == (f"So:\n```\nx\n```{code}", [])
    if "muse" in family.before or "atem" in family.before:
        return  # its calls are in messages of their own
    for fence in ("```xml\n", "```\n", "```json\n\n"):
        text = f"So:\n{fence}{block}\n```\nDone."
        assert reads(family.form, text, TOOLS) == ("So:\n\nDone.", [call])
        no = f"So:\n{fence}{family.before} no"
        assert reads(family.form, no, TOOLS) == (no, [])
        check_truncated(family.form, text, TOOLS)


@every_family
@soak
@given(data=st.data())
def test_a_value_of_fragments_comes_back(family: Family, data: st.DataObject) -> None:
    """Any value does that holds no end of a value before what can follow one."""
    pieces = st.sampled_from([*tags(family), "\n", " ", "x", "null", "<", ">"])
    value = "".join(data.draw(st.lists(pieces, max_size=8)))
    arguments = {"content": f"{value}.", "path": "t"}
    end = family.value_end if family.value_end.endswith(">") else family.value_end + ">"
    follow = [part.strip() for part in value.split(end)[1:]]
    assume(not any(part.startswith("<") for part in follow))
    # Nor what begins a whole call in it, or another parameter on a line of its own.
    assume("<parameter=path>" not in value)
    assume(not family.before or family.before.strip() not in value)
    assume("arg_key" not in value)
    # Nor the end of a call where another one begins.
    after = [value.partition(end)[2] for end in CALL_ENDS]
    assume(not any(tag in text for text in after for tag in CALLS))
    text = family.block([("write", arguments)])
    reading = reading_of(family.form, TOOLS)
    whole = read(reading, [text])
    assert (whole.content, parsed(whole)) == ("", [("write", arguments)])
    assert without_ids(read(reading, list(text))) == without_ids(whole)
