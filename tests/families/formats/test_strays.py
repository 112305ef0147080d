"""What models leave behind calls: dropped where it is stray, kept where it may be the answer."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter._fast.operations import CONTENT, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.strays import TagStrays, drop_strays
from tests.fast.programs import Program, run


def behind_brackets(text: str) -> str:
    """The content of what follows a call that brackets end."""

    def program(parser: OutputParser, _: list[Any]) -> Program:
        yield from drop_strays(parser)
        yield Pass(CONTENT)

    content: str = run(program, text)[0]
    return content


STRAYS = TagStrays((b"<call>",))
ALONE = TagStrays(())


def behind_tags(text: str, strays: TagStrays = STRAYS, *, fenced: bool = False) -> str:
    """The content of what follows a call that tags end."""

    def program(parser: OutputParser, _: list[Any]) -> Program:
        yield from strays.drop(parser, fenced=fenced)
        yield Pass(CONTENT)

    content: str = run(program, text)[0]
    return content


@pytest.mark.parametrize(
    "stray", ["}", "]", ")", '"', "}]", " } \n] ", "```", "}\n```json", '"}]})']
)
@pytest.mark.parametrize("after", ["", "<call>", "[CALL]"])
def test_brackets_before_markup_are_stray(stray: str, after: str) -> None:
    assert behind_brackets(stray + after) == after


@pytest.mark.parametrize(
    "text", ["} is a brace", ") and so on", "]]. <call>", "```\nx = 1\n```", '"a']
)
def test_brackets_before_other_text_are_the_answer(text: str) -> None:
    assert behind_brackets(text) == text


def test_what_is_the_answer_is_read_again() -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        yield from drop_strays(parser)
        results.append((yield Pass(CONTENT, [b"```json"])))
        yield Pass(CONTENT)

    content, *_, results = run(program, "}\n```json x")
    assert (content, results) == ("}\n x", [0])


@pytest.mark.parametrize("text", ["<call>", " <call>", "\n\nDone.", "{a}", "``<"])
def test_what_is_no_bracket_is_left_alone(text: str) -> None:
    assert behind_brackets(text) == text


@pytest.mark.parametrize("stray", ["}", "]", "}}", " )\n] "])
@pytest.mark.parametrize("after", ["", "<call>", "Done.", "{a}"])
@pytest.mark.parametrize("fenced", [True, False])
def test_behind_tags_a_bracket_is_stray_whatever_follows(
    stray: str, after: str, fenced: bool
) -> None:
    assert behind_tags(stray + after, fenced=fenced).lstrip() == after
    assert behind_tags(stray + after, ALONE, fenced=fenced).lstrip() == after


@pytest.mark.parametrize("space", ["", "\n", "  \n\n"])
def test_a_fence_that_closes_one_is_stray(space: str) -> None:
    for after in ("", "<call>", "\nDone.", "\nx = 1\n"):
        assert behind_tags(f"{space}```{after}", fenced=True) == after
    assert behind_tags(f"{space}}}```") == ""


def test_a_fence_that_no_other_has_begun_is_stray_where_only_calls_follow() -> None:
    assert behind_tags("\n```") == ""
    assert behind_tags("```\n<call>") == "\n<call>"
    for text in ("\n```python\nx = 1\n```", "```\nSo.", "```<tag>"):
        assert behind_tags(text) == text


def test_tags_of_which_no_call_begins_leave_no_fence_to_be_closed() -> None:
    assert behind_tags("}```", ALONE, fenced=True) == ""
    assert behind_tags("} ok", ALONE) == " ok"
    assert behind_tags("no", ALONE) == "no"
