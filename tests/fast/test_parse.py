"""What programs do with the parser that runs them, however the text is cut."""

from __future__ import annotations

from typing import Any

import pytest

from sglrouter._fast.operations import CONTENT, REASONING, Match, Pass, Peek, Read, Value
from sglrouter._fast.parse import OutputParser
from tests.fast.programs import Output, Program, run


def test_arguments_that_come_before_the_name_go_with_it() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.mark()
        yield Value()
        name = yield Read([b"."])
        parser.begin_call(name[0].decode())
        parser.end_call()

    assert run(program, '{"a": 1}late.')[2:4] == (["late"], '{"a": 1}')


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.begin_call("f")
        parser.end_call()
        yield Pass(CONTENT)

    assert run(program, "")[2:4] == (["f"], "{}")


def test_what_turns_out_to_be_no_call_is_content() -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        found = yield Pass(CONTENT, [b"<c>"])
        if found < 0:
            return
        parser.mark(b"<c>")
        yield Peek()
        yield Value()
        if (yield Match([b"!"])) == 0:
            parser.accept()
        else:
            parser.reject()
        yield Pass(CONTENT)

    assert run(program, "a <c> [1, 'x'] no")[0] == "a <c> [1, 'x'] no"
    assert run(program, "a <c> [1, 'x']! no")[0] == "a  no"
    assert run(program, "a <c> [1, 'x']! no")[3] == ""


def test_calls_that_are_not_accepted_are_dropped_whole() -> None:
    def program(parser: OutputParser) -> Program:
        while (yield Pass(CONTENT, [b"<c>"])) >= 0:
            name, _ = yield Read([b":"])
            parser.begin_call(name.decode())
            yield Value()
            parser.end_call()

    parser = OutputParser(program, lambda name, number: f"{name}-{number}", "known".__eq__)
    parser.feed(b'<c>known:{"a": 1}<c>other:{"b": [2]} text <c>known:3')
    parser.finish()
    content, _, deltas = parser.take()
    assert content == b" text "
    assert deltas == [(0, "known-0", "known", b'{"a": 1}'), (1, "known-1", "known", b"3")]
    assert (parser.called, parser.completed) == (2, 2)


def test_text_that_is_put_back_is_read_next() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        yield Read([b"|"])
        parser.push(b"again ")
        yield Pass(REASONING)

    assert run(program, "gone|rest")[1] == "again rest"


def test_a_program_that_is_over_leaves_content() -> None:
    def program(_: OutputParser, __: list[Any]) -> Program:
        yield Match([b"<c>"])

    assert run(program, "<c>rest")[0] == "rest"


def test_a_program_that_never_ends_is_an_error() -> None:
    def program(_: OutputParser, __: list[Any]) -> Program:
        while True:
            yield Pass(CONTENT, [b"<c>"])

    with pytest.raises(RuntimeError, match="does not stop"):
        Output(program).read(["text"])


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", ""),
        (" \n", " \n"),  # an answer of white space is an answer
        (" a ", " a "),
        (" <c>", ""),
        (" a <c> \n<c>\n", " a "),
        ("<c> b <c>", " b "),
        ("<c>\n\nb\n", "\n\nb\n"),
    ],
)
def test_white_space_alone_is_no_content_around_calls(text: str, content: str) -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        while (yield Pass(CONTENT, [b"<c>"])) >= 0:
            parser.begin_call("f")
            parser.end_call()

    assert run(program, text)[0] == content


# Text that is wanted back.


def test_what_was_consumed_can_be_read_again() -> None:
    def program(parser: OutputParser, results: list[Any]) -> Program:
        parser.mark(b"<c>")
        yield Match([b"<c>"])
        results.append((yield Read([b":"])))
        parser.rewind()
        yield Pass(REASONING)

    # What mark() was told has been seen is part of it.
    assert run(program, "<c>name:rest")[1] == "<c><c>name:rest"
    assert run(program, "<c>na")[1] == "<c><c>na"


@pytest.mark.parametrize(
    ("again", "text", "content", "rest"),
    [
        (b"", "a|x! rest", "a|", "x! rest"),
        (b"b", "a|x! rest", "a|", "x! rest"),
        (b"b", "a|! rest", "a|!", " rest"),
        (b"longer than what was there", "a|! rest", "a|", "! rest"),
    ],
)
def test_what_is_put_back_is_recorded_once(
    again: bytes, text: str, content: str, rest: str
) -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.mark()
        yield Read([b"|"])
        parser.push(again)
        yield Match([b"b", b"longer"])
        yield Match([b"!"])
        parser.reject()
        yield Pass(REASONING)

    assert run(program, text)[:2] == (content, rest)


def test_what_was_accepted_is_not_wanted_back() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.mark(b"<c>")
        yield Read([b"|"])
        parser.accept()
        parser.reject()
        parser.rewind()

    assert run(program, "markup|rest")[0] == "rest"


def test_what_was_put_back_before_the_mark_counts_as_new() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        yield Read([b"|"])
        parser.push(b"b!")
        parser.mark()
        yield Match([b"b!"])
        parser.reject()

    assert run(program, "gone|rest")[0] == "b!rest"


def test_what_is_put_back_and_passed_on_is_not_skipped_again() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        parser.mark()
        yield Read([b"|"])
        parser.push(b"x|")
        yield Pass(REASONING, [b"|"])
        parser.reject()
        yield Pass(REASONING)

    assert run(program, "a|")[:2] == ("a|", "x")
    assert run(program, "a|rest")[:2] == ("a|", "xrest")


def test_a_program_can_say_something_itself() -> None:
    def program(parser: OutputParser, _: list[Any]) -> Program:
        yield Read([b"|"])
        parser.say(b" said ")
        yield Pass(CONTENT)

    assert run(program, "gone| \nrest")[0] == " said  \nrest"
    assert run(program, "gone|\n")[0] == " said \n"
