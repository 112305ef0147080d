"""Calls written as tags: a tag for the function and in it one for every parameter.

    <tool_call><function=name><parameter=key>value</parameter></function></tool_call>

The families differ in how the tags look, in what is around them, and in the white space
around values. Where a model is known to forget a tag, the next one stands in for it. A
family's grammar is a table; TaggedCalls reads by it.

A value may quote tags, even those of its own format. So its end is the tag that is followed
by what can follow it in a call; anything else is the value's text. Only a call that is
quoted from its last tags on and has other text behind it cannot be told from the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sglrouter._fast.guard import CLOSES, ENDS, ENDS_ON_LINE, OPENS, Guard
from sglrouter._fast.operations import KEEP, ONE_NEWLINE, Match, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats.call_blocks import CallBlocks, ReadCall
from sglrouter.families.formats.program import (
    JSON,
    PEEK,
    Format,
    Outcome,
    Tools,
    attributes,
    broken_or_cut,
    literal,
)
from sglrouter.families.formats.typed_values import Values, as_string

# The rest of a tag. Another tag in it shows that it is none.
_HEAD = Read((b">", b"<"), peek=True)
_HEAD_END = literal(b">")


class TaggedCalls(CallBlocks):
    """The grammar of a family, and the parts of its program.

    Args:
        openers: What a block of calls begins with.
        closers: What it ends with.
        call: The beginning of a function's tag, up to the name or the attributes.
        call_end: The tag after its parameters.
        parameter: The beginning of a parameter's tag.
        parameter_end: The tag after its value.
        forgiving: Whether a value may end without `parameter_end`: at a line that begins
            with the tag of another parameter, one that the function declares.
        attributes: Whether the tags have attributes, name="..." at least; else the name
            is all that is left of the tag.
        trim: The white space around a string that is markup, as Pass has it.
        null_text: Whether the word null is no string, whatever the schema says.
        literals: What stands for another text in a value.
        verbatim: The beginning and the end of text without literals.
        unwrapped: Whether a call may come without an opener. Then it must be one of the
            request's own functions.
        noise: Tags around calls that mean nothing.
        following: What else may follow a call.
    """

    def __init__(
        self,
        *,
        openers: tuple[bytes, ...] = (),
        closers: tuple[bytes, ...] = (),
        call: bytes,
        call_end: bytes,
        parameter: bytes,
        parameter_end: bytes,
        forgiving: bool = False,
        attributes: bool = True,
        trim: int = KEEP,
        null_text: bool = False,
        literals: Mapping[bytes, bytes] | None = None,
        verbatim: tuple[bytes, bytes] | None = None,
        unwrapped: bool = False,
        noise: tuple[bytes, ...] = (),
        following: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(
            openers=openers,
            closers=closers,
            calls=(call,),
            call_ends=(call_end,),
            parts=(parameter, parameter_end),
            strays=(parameter_end,),
            unwrapped=unwrapped,
            noise=noise,
        )
        self._call_end = call_end
        self._parameter = parameter
        self._parameter_end = parameter_end
        self._attributes = attributes
        self._forgiving = forgiving
        self._following = (*following, *noise)
        self._value_ends = (parameter_end, call_end, *((parameter,) if forgiving else ()))

        @lru_cache(maxsize=256)
        def values(wrapped: bool, others: frozenset[str]) -> Values:
            return Values(
                self._value_ends,
                trim=trim,
                null_text=null_text,
                literals=literals,
                verbatim=verbatim,
                guard=self._guard(wrapped, others),
                quotes=(*openers, *closers),
            )

        self._values = values
        self._part_tags = (parameter, parameter_end, call_end, call, *openers, *closers)
        self._part = Match(self._part_tags, skip_space=True)

    def read_call(self, parser: OutputParser, tools: Tools, *, wrapped: bool) -> ReadCall:
        """Reads a call after the beginning of its tag."""
        head = yield _HEAD
        if head is None or (yield _HEAD_END) < 0:
            return broken_or_cut(parser), False, None
        name, _, closed = self._tag(head[0])
        name = self.function(name, tools, wrapped=wrapped) if name else ""
        if not name:
            return Outcome.BROKEN, False, None
        parser.begin_call(name)
        if closed:
            parser.end_call()
            return Outcome.DONE, True, None
        if (yield PEEK) == b"{":
            whole = yield JSON
            if whole is None:
                return Outcome.CUT, True, None
            if whole is False:
                parser.close_value()
            parser.end_call()
            found = yield self._part
            tag = self._part_tags[found] if found >= 0 else None
            if tag == self._parameter:
                parser.say(tag)
                tag = None
            outcome = Outcome.DONE if tag == self._call_end else Outcome.BROKEN
            return outcome, True, None if tag == self._call_end else tag
        return (yield from self._read_parameters(parser, tools, name, wrapped))

    def _guard(self, wrapped: bool, others: frozenset[str]) -> Guard:
        """What has to follow the end of a value.

        Args:
            wrapped: Whether the call is in a block, so that its end is not the last tag.
            others: The parameters that may begin in place of the end.
        """
        (call,), (call_end,) = self.calls, self.call_ends
        next_call = dict.fromkeys((*self.openers, call, *self._following))
        another = {**dict.fromkeys(self.openers, "next block"), call: "next call"}
        last = {
            **another,
            **dict.fromkeys(self._following, "last"),
            **dict.fromkeys(self.closers, "last block"),
        }
        end_of_block = dict.fromkeys(self.closers, "block")
        # Twice the same end is a slip of the model, but only where each has its own line.
        rules: list[tuple[int, str | None, str | None]] = [
            (ENDS, "value", "line"),
            (ENDS, "last", None),
        ]
        if self._forgiving:
            rules.append((ENDS_ON_LINE, "parameter", None))
        rules.extend([(OPENS, "opener", None)] * len(self.openers))
        rules.extend([(CLOSES, None, None)] * len(self.closers))
        parts = {self._parameter: None, call_end: "call", **next_call, **end_of_block}
        named = [text for name in others for text in (f"{name}>", f'"{name}">', f"'{name}'>")]
        return Guard(
            rules,
            {
                "value": (parts, False, True, False),
                "line": ({**parts, self._parameter_end: "line"}, False, True, False),
                "call": (
                    {self._parameter_end: "", call_end: "call", **next_call, **end_of_block},
                    not (wrapped and self.closers),
                    True,
                    False,
                ),
                "block": ({self._parameter_end: ""}, True, True, False),
                # The end of a parameter is missing: nothing else may follow, or another call.
                "last": (last, False, True, False),
                "last block": (
                    {**another, **dict.fromkeys(self._following, "last block")},
                    False,
                    True,
                    False,
                ),
                "next block": ({call: "next call", b"{": None}, False, True, False),
                "next call": (
                    {self._parameter: None, call_end: None, b"{": None},
                    False,
                    True,
                    True,
                ),
                "opener": ({call: "function"}, False, False, False),
                "function": ({self._parameter: None, call_end: None}, False, False, True),
                "parameter": (dict.fromkeys(text.encode() for text in named), False, False, False),
            },
        )

    def _read_parameters(
        self, parser: OutputParser, tools: Tools, name: str, wrapped: bool
    ) -> ReadCall:
        before = b"{"
        keys: set[str] = set()
        others = frozenset(tools.parameters(name) if self._forgiving else ())
        tag: bytes | None = self._parameter_end
        while True:
            if tag == self._parameter_end:
                found = yield self._part
                if found < 0 and parser.ended:
                    return Outcome.CUT, True, None
                tag = self._part_tags[found] if found >= 0 else None
                continue
            if tag != self._parameter:
                break
            parser.mark(tag)
            head = yield _HEAD
            if head is None or (yield _HEAD_END) < 0:
                if parser.ended:
                    return Outcome.CUT, True, None
                head = (b"", 0)
            key, is_text, closed = self._tag(head[0])
            if not key:
                parser.reject()
                tag = None
                break
            parser.accept()
            repeated = key in keys
            keys.add(key)
            others -= {key}
            values = self._values(wrapped, others)
            if repeated:
                # The first one has gone out already, and names must not come twice.
                found = 0 if closed else (yield from values.drop())
            else:
                before += as_string(key.encode()) + b": "
                if closed:
                    found = 0
                    parser.argue(before + b'""')
                else:
                    schema = tools.schema(name, key)
                    found = yield from values.read(parser, before, schema, text=is_text)
                before = b", "
            if found < 0:
                return Outcome.CUT, True, None
            tag = self._value_ends[found]
        # The end; or something that does not belong here, which ends the call, too.
        if before != b"{":
            parser.argue(b"}")
        parser.end_call()
        if tag == self._call_end:
            return Outcome.DONE, True, None
        return Outcome.BROKEN, True, tag

    def _tag(self, head: bytes) -> tuple[str, bool | None, bool]:
        """Reads the rest of a tag: the name, whether the value is text, whether nothing follows.

        The name is empty where it cannot be one.
        """
        text = head.decode("utf-8", "replace").strip()
        if not self._attributes:
            name = text.strip("\"'")
            return "" if any(map(str.isspace, name)) else name, None, False
        closed = text.endswith("/")
        values = attributes(text[:-1] if closed else text)
        is_text = values.get("string")
        name = values.get("name", "").strip()
        return name, None if is_text is None else is_text.strip() == "true", closed


def function_tags(
    opener: bytes, closer: bytes, *, unwrapped: bool = False, null_text: bool = False
) -> Format:
    """The format of the families that write <function=f><parameter=key>.

    Args:
        opener: What a block of calls begins with.
        closer: What it ends with.
        unwrapped: As TaggedCalls has it.
        null_text: As TaggedCalls has it.
    """
    return TaggedCalls(
        openers=(opener,),
        closers=(closer,),
        call=b"<function=",
        call_end=b"</function>",
        parameter=b"<parameter=",
        parameter_end=b"</parameter>",
        forgiving=True,
        attributes=False,
        trim=ONE_NEWLINE,
        unwrapped=unwrapped,
        null_text=null_text,
    ).format()


def invoke_tags(
    openers: tuple[bytes, ...],
    closers: tuple[bytes, ...],
    *,
    prefix: bytes = b"",
    unwrapped: bool = False,
    noise: tuple[bytes, ...] = (),
) -> TaggedCalls:
    """The grammar of the families that write <invoke name="..."><parameter name="...">.

    Args:
        openers: As TaggedCalls has them.
        closers: As TaggedCalls has them.
        prefix: What the names of the tags begin with.
        unwrapped: As TaggedCalls has it.
        noise: As TaggedCalls has it.
    """
    return TaggedCalls(
        openers=openers,
        closers=closers,
        call=b"<" + prefix + b"invoke ",
        call_end=b"</" + prefix + b"invoke>",
        parameter=b"<" + prefix + b"parameter ",
        parameter_end=b"</" + prefix + b"parameter>",
        unwrapped=unwrapped,
        noise=noise,
    )


def markup(name: str, *blocks: str, blank: str = "", noise: tuple[str, ...] = ()) -> Format:
    """The format of invoke tags with a prefix between bars: DeepSeek's DSML, GigaChat's GCML.

    A parameter says itself whether it is a string; one that does not say it is JSON. Instead
    of parameters there may be one JSON object.

    Args:
        name: The name of the markup.
        blocks: The names of the tag around calls.
        blank: What stands before every tag's name.
        noise: As TaggedCalls has it.
    """
    prefix = f"｜{name}｜{blank}"
    return invoke_tags(
        tuple(f"<{prefix}{block}>".encode() for block in blocks),
        tuple(f"</{prefix}{block}>".encode() for block in blocks),
        prefix=prefix.encode(),
        unwrapped=True,
        noise=tuple(text.encode() for text in noise),
    ).format()
