"""gpt-oss's output, a row of messages: <|channel|>C to=R<|message|>text<|end|>.

A message's header says what becomes of its text: in the channel "analysis" it is
reasoning; addressed to a function it is a call; everything else is content. Headers are
read tolerantly, as models write them: the recipient before or after the channel, more
words, a missing <|start|> or <|end|>. Only the text of the markers counts as a marker:
the prompt ends with "<|start|>assistant", so the output begins inside a header, or is
plain content if it does not look so.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

from sglrouter._fast.operations import CONTENT, REASONING, Match, Operation, Pass, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.detection import Signature
from sglrouter.families.family import Family
from sglrouter.families.formats.json_calls import mend
from sglrouter.families.formats.program import DROP_REST, JSON, PEEK, Format, Program, Tools
from sglrouter.families.formats.strays import drop_strays
from sglrouter.families.formats.structural_tags import Call, Json

_START = b"<|start|>"
_CHANNEL = b"<|channel|>"
_MESSAGE = b"<|message|>"
_CONSTRAIN = b"<|constrain|>"
_ENDS = (b"<|end|>", b"<|call|>", b"<|return|>")

# What ends a text, and what is only noise in it.
_BEHIND_TEXT = (_START, _CHANNEL, *_ENDS)
_NOISE = (_MESSAGE, _CONSTRAIN)
_CONTENT = Pass(CONTENT, (*_BEHIND_TEXT, *_NOISE))
_REASONING = Pass(REASONING, (*_BEHIND_TEXT, *_NOISE))

# A header is over with its text's beginning, or with the message's end or the next one.
_HEADER = Read((_MESSAGE, _START, *_ENDS), limit=4096)
_HEADER_MARKERS = (b"", _START, *_ENDS)

# How an output begins that begins inside a header, and what may come between messages.
_OPENERS = (b" to=", _CHANNEL, _START, _CONSTRAIN)
_FIRST = Match(_OPENERS)
# After a call, gpt-oss may write the channel's name once too often.
_BETWEEN_TEXTS = (*_BEHIND_TEXT, b"commentary" + _CHANNEL)
_AFTER_CALL = len(_BEHIND_TEXT)
_BETWEEN = Match(_BETWEEN_TEXTS, skip_space=True)

# Recipients that are no functions.
_PEOPLE = frozenset({"assistant", "user", "all", "system", "developer"})


class _Header(NamedTuple):
    """What a message's header says.

    Attributes:
        recipient: The function that it calls; "" if none.
        reasons: Whether its text is reasoning, if it is no call.
    """

    recipient: str
    reasons: bool


def _read_header(text: str, tools: Tools) -> _Header:
    """Understands a header, between <|start|> or <|channel|> and <|message|>."""
    _, channel, words = text.rpartition(_CHANNEL.decode())
    at = text.find("to=")
    recipient = ""
    if at == 0 or (at > 0 and (text[at - 1].isspace() or text[at - 1] == ">")):
        rest = text[at + 3 :].split("<", 1)[0].split(None, 1)
        recipient = rest[0] if rest else ""
    if recipient in _PEOPLE:
        recipient = ""
    name = recipient.removeprefix("functions.")
    last = name.rpartition(".")[2]
    if name not in tools and last in tools:
        name = last
    return _Header(name, bool(channel) and words.strip().lower().startswith("analysis"))


def _message(
    parser: OutputParser, tools: Tools, opener: bytes
) -> Generator[Operation, Any, bytes | None]:
    """Reads a message from behind the marker that opens it.

    Returns the marker that ended it, or None at the end of the text.
    """
    parser.mark(opener)
    read = yield _HEADER
    if read is None:
        if parser.ended:
            return None
        parser.reject()
        return (yield from _text(_CONTENT))
    text, ended_by = read
    header = _read_header((opener + text).decode(), tools)
    parser.accept()
    if ended_by > 0:
        # There is no text.
        if header.recipient and ended_by > 1:
            parser.begin_call(header.recipient)
            parser.end_call()
        return _HEADER_MARKERS[ended_by]
    if header.recipient:
        parser.mark()
        byte = yield PEEK
        if byte in (b"{", b"<", b""):
            parser.begin_call(header.recipient)
            whole = (yield JSON) if byte == b"{" else (byte == b"<" or None)
            if whole is None:
                return None
            if not whole:
                yield from mend(parser)
            parser.end_call()
            yield from drop_strays(parser)
            return (yield from _text(_CONTENT))
        # It is written for something else than a function, such as a Python interpreter.
        parser.rewind()
    return (yield from _text(_REASONING if header.reasons else _CONTENT))


def _text(passing: Pass) -> Generator[Operation, Any, bytes | None]:
    """Passes a message's text on; returns the marker that ended it, or None at the end."""
    while (found := (yield passing)) >= len(_BEHIND_TEXT):
        pass
    return _BEHIND_TEXT[found] if found >= 0 else None


def _program(parser: OutputParser, tools: Tools) -> Program:
    first = yield _FIRST
    if first < 0:
        ended_by = yield from _text(_CONTENT)
    else:
        ended_by = yield from _message(parser, tools, _OPENERS[first])
    while ended_by is not None:
        if ended_by in _ENDS:
            parser.mark()
            found = yield _BETWEEN
            if found >= 0:
                parser.accept()
                ended_by = _CHANNEL if found == _AFTER_CALL else _BETWEEN_TEXTS[found]
            elif parser.ended:
                # All that is left is less than a marker.
                yield DROP_REST
                return
            else:
                parser.reject()
                ended_by = yield from _text(_CONTENT)
        else:
            ended_by = yield from _message(parser, tools, ended_by)


_MESSAGE_ENDS = ["<|end|>", "<|return|>"]
_NEXT_MESSAGE = "<|start|>assistant"


class _Tag:
    """The tag of calls among messages: there is no free text, and a call is the last."""

    always = False

    def of_calls(
        self, calls: Sequence[Call], *, at_least_one: bool, stop_after_first: bool
    ) -> Json:
        """The tag that allows these calls, after any messages or after thoughts only."""
        form = self._form(calls, at_least_one, stop_after_first)
        return {"type": "structural_tag", "format": form}

    def _form(self, calls: Sequence[Call], at_least_one: bool, stop_after_first: bool) -> Json:
        messages = [_message_tag("analysis")]
        if not at_least_one:
            messages.append(_message_tag("final"))
        tags = [
            {
                "type": "tag",
                "begin": begin,
                "content": {"type": "json_schema", "json_schema": call.arguments},
                "end": "<|call|>",
            }
            for call in calls
            for begin in (
                f"<|channel|>commentary to=functions.{call.name}<|constrain|>json<|message|>",
                f" to=functions.{call.name}<|channel|>commentary <|constrain|>json<|message|>",
                f" to=functions.{call.name}<|channel|>commentary json<|message|>",
            )
        ]
        if not at_least_one and not stop_after_first:
            return _message_tags([*tags, *messages])
        called = {
            **_message_tags(tags),
            "at_least_one": True,
            "stop_after_first": stop_after_first,
        }
        between: Json = {"type": "const_string", "value": _NEXT_MESSAGE}
        first = {**_message_tags(messages), "at_least_one": True}
        choices = [called, {"type": "sequence", "elements": [first, between, called]}]
        if not at_least_one:
            choices.insert(0, _message_tags(messages))
        return {"type": "or", "elements": choices}


def _message_tag(channel: str) -> Json:
    return {
        "type": "tag",
        "begin": f"<|channel|>{channel}<|message|>",
        "content": {"type": "any_text"},
        "end": _MESSAGE_ENDS,
    }


def _message_tags(tags: list[Json]) -> Json:
    return {"type": "tags_with_separator", "tags": tags, "separator": _NEXT_MESSAGE}


_TOKENS = Signature(tokens=("<|channel|>", "<|constrain|>", "<|call|>"))
_SIGNATURES = (Signature(("<|channel|>",), without=("<rfl:parameter",), rank=1), _TOKENS)

FAMILIES = (
    Family(
        names=("gpt-oss",),
        calls=Format(
            _program,
            tuple(marker.decode() for marker in (_START, _CHANNEL, *_NOISE, *_ENDS)),
            every_answer=True,
            reasons=True,
        ),
        call_signatures=_SIGNATURES,
        tag=_Tag(),
        reasoning_signatures=_SIGNATURES,
    ),
)
