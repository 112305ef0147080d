"""Calls written as a name and pairs of tags, one for each key and one for each value.

    <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>

So write GLM and those that follow it. The families differ in the names of the tags and in
what they allow between them; white space between tags means nothing in any of them.

A value may quote tags. So it ends at the tag that is followed by what can follow it in a
call, and a pair of tags that is quoted whole is part of it.
"""

from __future__ import annotations

from sglrouter._fast.guard import ENDS, ENDS_OR_CLOSES, OPENS, Guard
from sglrouter._fast.operations import Match, Read
from sglrouter._fast.parse import OutputParser
from sglrouter.families.formats import json_calls
from sglrouter.families.formats.call_blocks import CallBlocks, ReadCall
from sglrouter.families.formats.program import PEEK, Outcome, Tools, broken_or_cut
from sglrouter.families.formats.typed_values import Values, as_string

# A name ends at a tag or a line; some write the line's end as the two characters \\n.
_NAME = Read((b"<", b"\n", b"\\n", b" ", b"\t", b"\r"), limit=256, peek=True)


class PairedCalls(CallBlocks):
    """The grammar of a family, and its parts of the program.

    Args:
        call: The name of a call's tag.
        block: The name of the tag around all calls; empty if there is none.
        separator: The name of the tag that may follow the function's name; so.
        prefix: What the names of the tags begin with.
        suffixes: What the names may end with.
        typed: Whether a tag for the type may follow the key.
    """

    def __init__(
        self,
        call: str = "tool_call",
        *,
        block: str = "",
        separator: str = "",
        prefix: str = "",
        suffixes: tuple[str, ...] = ("",),
        typed: bool = False,
    ) -> None:
        def tags(name: str, slash: str = "") -> tuple[bytes, ...]:
            if not name:
                return ()
            return tuple(f"<{slash}{prefix}{name}{suffix}>".encode() for suffix in suffixes)

        self._keys = tags("arg_key")
        self._separators = (*tags(separator), b"\\n")
        self._typed = tags("arg_type") if typed else ()
        key_ends = tags("arg_key", "/")
        values = tags("arg_value")
        value_ends = tags("arg_value", "/")
        parts = (*self._keys, *key_ends, *values, *value_ends, *tags(separator))
        super().__init__(
            openers=tags(block),
            closers=tags(block, "/"),
            calls=tags(call),
            call_ends=tags(call, "/"),
            parts=parts,
            strays=parts,
            unwrapped=True,
            unknown=True,
        )
        ends = (*self.call_ends, *self.calls, *self.openers, *self.closers)
        self._again = Match((*self.calls, b"\\n"), skip_space=True)
        self._name_tags = (*self._keys, *ends, *self._separators)
        self._after_name = Match(self._name_tags, skip_space=True)
        # A key's end may be there twice, or not at all, as may a value's beginning.
        self._key_stops = (*key_ends, *values, *self._keys, *self.call_ends)
        self._key = Read(self._key_stops)
        self._key_tags = (*values, *key_ends, *self._typed, *self._keys, *ends)
        self._after_key = Match(self._key_tags, skip_space=True)
        self._after_a_key = frozenset({*key_ends, *self._typed})
        self._type = Read(tags("arg_type", "/"))
        self._value = values[0]
        self._values_begin = frozenset(values)
        # A call's end may stand for a value's, but only where nothing else or a call follows.
        self._ends_of_value = (*value_ends, *self.call_ends)
        proofs: dict[bytes, str | None] = dict.fromkeys(
            (*self._keys, *self.calls, *self.openers, *self.closers)
        )
        again = dict.fromkeys((*value_ends, *key_ends), "value")
        over = dict.fromkeys(self.call_ends, "call")
        guard = Guard(
            (
                *((ENDS_OR_CLOSES, "value", None),) * len(value_ends),
                *((ENDS, "last", None),) * len(self.call_ends),
                *((OPENS, "pair", None),) * len(key_ends),
            ),
            {
                "value": ({**proofs, **again, **over}, False, True, False),
                "call": ({**dict.fromkeys(value_ends, ""), **proofs}, True, True, False),
                "last": (
                    {
                        **dict.fromkeys((*self.calls, *self.openers)),
                        **dict.fromkeys(self.closers, "block"),
                    },
                    False,
                    True,
                    False,
                ),
                "block": (dict.fromkeys((*self.calls, *self.openers)), False, True, False),
                "pair": (dict.fromkeys(values), False, False, False),
            },
        )
        self._values = Values(self._ends_of_value, guard=guard, quotes=key_ends)
        self._value_is_over = frozenset({*value_ends, *key_ends})
        self._value_tags = (*self._keys, *value_ends, *key_ends, *ends)
        self._after_value = Match(self._value_tags, skip_space=True)

    def read_call(self, parser: OutputParser, tools: Tools, *, wrapped: bool) -> ReadCall:
        """Reads a call after its first tag."""
        while (yield self._again) >= 0:
            pass
        if (yield PEEK) in (b"{", b"["):
            outcome, begun = yield from json_calls.calls(parser)
            # What follows is the call's end.
            return Outcome.BROKEN if outcome is Outcome.DONE else outcome, begun, None
        read = yield _NAME
        name = read[0].decode("utf-8", "replace") if read is not None else ""
        name = self.function(name, tools, wrapped=wrapped) if name else ""
        if not name:
            return broken_or_cut(parser), False, None
        tag = b"\\n"
        while tag in self._separators:
            found = yield self._after_name
            if found < 0:
                return broken_or_cut(parser), False, None
            tag = self._name_tags[found]
        parser.begin_call(name)
        before = b"{"
        keys: set[str] = set()
        while tag in self._keys:
            parser.mark(tag)
            read = yield self._key
            if read is None:
                if parser.ended:
                    return Outcome.CUT, True, None
                parser.reject()
                tag = b""
                break
            parser.accept()
            key = read[0].decode("utf-8", "replace").strip()
            schema = tools.schema(name, key)
            tag = self._key_stops[read[1]]
            while tag in self._after_a_key:
                if tag in self._typed:
                    read = yield self._type
                    if read is None:
                        return Outcome.CUT, True, None
                    if schema is None:
                        schema = {"type": read[0].decode("utf-8", "replace").strip()}
                found = yield self._after_key
                if found < 0 and parser.ended:
                    return Outcome.CUT, True, None
                # A value without its tag begins right here.
                tag = self._key_tags[found] if found >= 0 else self._value
            if tag not in self._values_begin:
                continue  # a key without a value
            if key in keys:
                # The first one has gone out already, and names must not come twice.
                found = yield from self._values.drop()
            else:
                keys.add(key)
                before += as_string(key.encode()) + b": "
                found = yield from self._values.read(parser, before, schema)
                before = b", "
            if found < 0:
                return Outcome.CUT, True, None
            tag = self._ends_of_value[found]
            while tag in self._value_is_over:
                if found < 0 and parser.ended:
                    return Outcome.CUT, True, None
                found = yield self._after_value
                tag = self._value_tags[found] if found >= 0 else b""
            if found < 0 and parser.ended:
                return Outcome.CUT, True, None
        # The end; or something that does not belong here, which ends the call, too.
        if before != b"{":
            parser.argue(b"}")
        parser.end_call()
        if tag in self.call_ends:
            return Outcome.DONE, True, None
        return Outcome.BROKEN, True, tag or None


# Written by GLM, and by those that follow it to the letter.
GLM_CALLS = PairedCalls().format()
