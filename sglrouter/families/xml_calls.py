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
from sglrouter.families.call_blocks import CallBlocks, ReadCall, broken_or_cut
from sglrouter.families.program import JSON, PEEK, Format, Outcome, Tools, literal
from sglrouter.families.typed_values import Values, as_string

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
        found = attributes(text[:-1] if closed else text)
        is_text = found.get("string")
        return found.get("name", ""), None if is_text is None else is_text == "true", closed


def attributes(text: str) -> dict[str, str]:
    """The attributes of a tag, of a bounded length."""
    found: dict[str, str] = {}
    while "=" in text:
        left, _, text = text.partition("=")
        text = text.lstrip()
        quote = text[:1]
        if quote in ("'", '"'):
            value, _, text = text[1:].partition(quote)
        else:
            value, _, text = text.partition(" ")
        words = left.split()
        if words:
            found[words[-1]] = value.strip()
    return found


def _function_tags(
    opener: bytes, closer: bytes, *, unwrapped: bool = False, null_text: bool = False
) -> Format:
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


# Its models write null for no value whatever the type is, and its reference parser reads
# that so. They are also known to leave out the opener, and the ends of parameters.
QWEN_CODER = _function_tags(b"<tool_call>", b"</tool_call>", unwrapped=True, null_text=True)

MIMO = _function_tags(b"<tool_call>", b"</tool_call>")
SEED = _function_tags(b"<seed:tool_call>", b"</seed:tool_call>")

# The template writes values as they are, so entities in them are the value's own.
MINIMAX = invoke_tags((b"<minimax:tool_call>",), (b"</minimax:tool_call>",)).format()

STEP3 = invoke_tags(
    (
        "<｜tool_calls_begin｜>".encode(),
        "<｜tool_call_begin｜>function<｜tool_sep｜>".encode(),
    ),
    ("<｜tool_calls_end｜>".encode(),),
    prefix=b"steptml:",
    noise=("<｜tool_call_end｜>".encode(),),
).format()

DOTS = invoke_tags((b"<dots_function_call>",), (b"</dots_function_call>",)).format()

# This one is XML in earnest.
MINICPM = TaggedCalls(
    call=b"<function ",
    call_end=b"</function>",
    parameter=b"<param ",
    parameter_end=b"</param>",
    literals={
        b"&amp;": b"&",
        b"&lt;": b"<",
        b"&gt;": b">",
        b"&quot;": b'"',
        b"&apos;": b"'",
        b"&#39;": b"'",
        b"&#34;": b'"',
    },
    verbatim=(b"<![CDATA[", b"]]>"),
    unwrapped=True,
).format()

FORMATS: dict[str, Format] = {
    "qwen3_coder": QWEN_CODER,
    "qwen_coder": QWEN_CODER,
    "qwen_xml": QWEN_CODER,
    "step3p5": QWEN_CODER,
    "nanbeige": QWEN_CODER,
    "mimo": MIMO,
    "seed_oss": SEED,
    "minimax_m2": MINIMAX,
    "minimax-m2": MINIMAX,
    "step3": STEP3,
    "dots": DOTS,
    "minicpm5": MINICPM,
}
