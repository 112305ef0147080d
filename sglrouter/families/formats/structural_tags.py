"""Structural tags: grammars that let a model call tools in the format it was trained for.

A tag is free text until a trigger appears; from there the text must be a call of one of
the tools, with arguments that follow a schema. Engines take two forms:

- the old one lists `structures` (begin, schema, end) and `triggers`; every grammar
  backend with structural tags compiles it, but it knows calls in JSON only, one after
  another, as many as the model likes;
- the new one nests `format`s, which xgrammar compiles: sections around the calls,
  arguments in XML, at most one call.

The old one is sent where it says all there is to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

Json = dict[str, Any]

# Arguments of any kind, but arguments: parsers expect an object.
ANY_ARGUMENTS: Json = {"type": "object"}


class Call(msgspec.Struct, frozen=True):
    """A call that a tag allows: a tool's name and the schema of its arguments."""

    name: str
    arguments: Json


class Tag(Protocol):
    """How structural tags describe the calls of a family."""

    @property
    def always(self) -> bool:
        """Whether calls are held to their format even if no tool is strict."""

    def of_calls(
        self, calls: Sequence[Call], *, at_least_one: bool, stop_after_first: bool
    ) -> Json:
        """The structural tag that allows these calls.

        Args:
            calls: What may be called, one at least.
            at_least_one: Whether there must be a call, and no text.
            stop_after_first: Whether the answer ends with the first call.

        Returns:
            What to send as structural_tag, before it is written as JSON.
        """


class CallTag(msgspec.Struct, frozen=True, kw_only=True):
    """The tag of calls that stand in free text, alone or in a section.

    Attributes:
        before: What is before the function's name; begins with the trigger unless there is
            a section. "{name}" stands for the name, here and in the trigger.
        after: What is between the name and the arguments.
        end: What is after the arguments.
        trigger: What makes free text a call.
        section: What is before all calls, between two, and after them; None if calls stand
            on their own.
        lead: What models write before a section that must come.
        numbered: What is between the name and a number, where calls have one before `after`.
        style: How xgrammar calls the format of the arguments.
        json_name: Whether the name is inside a JSON string.
        excludes: What must not be in free text, since parsers would stumble over it.
        leads_in: Whether text comes before a call even where a call must come.
        always: Whether calls are held to their format even if no tool is strict.
    """

    before: str
    after: str
    end: str
    trigger: str
    section: tuple[str, str, str] | None = None
    lead: str = ""
    numbered: str | None = None
    style: str = "json"
    json_name: bool = False
    excludes: tuple[str, ...] = ()
    leads_in: bool = False
    always: bool = False

    @property
    def _plain(self) -> bool:
        """Whether the old form can say it."""
        return (
            self.section is None
            and self.numbered is None
            and self.style == "json"
            and not self.excludes
            and not self.leads_in
        )

    def of_calls(
        self, calls: Sequence[Call], *, at_least_one: bool, stop_after_first: bool
    ) -> Json:
        """The tag that allows these calls, in the old form where that says all there is to say."""
        if self._plain and not stop_after_first:
            return self._old_form(calls, at_least_one)
        form = self._new_form(calls, at_least_one, stop_after_first)
        return {"type": "structural_tag", "format": form}

    def of_answer_or_calls(
        self, calls: Sequence[Call], *, answer: Json, stop_after_first: bool
    ) -> Json:
        """The structural tag for an answer that is JSON of a schema, or calls.

        Args:
            calls: What may be called, one at least.
            answer: The schema of an answer that is no call.
            stop_after_first: Whether there may be one call only.
        """
        called = self._new_form(calls, True, stop_after_first)
        either = [{"type": "json_schema", "json_schema": answer}, called]
        return {"type": "structural_tag", "format": {"type": "or", "elements": either}}

    def _old_form(self, calls: Sequence[Call], at_least_one: bool) -> Json:
        return {
            "type": "structural_tag",
            "structures": [
                {"begin": self._begin(call.name), "schema": call.arguments, "end": self.end}
                for call in calls
            ],
            "triggers": self._triggers(calls),
            "at_least_one": at_least_one,
        }

    def _new_form(self, calls: Sequence[Call], at_least_one: bool, stop_after_first: bool) -> Json:
        tags = [self._tag(call) for call in calls]
        triggers = self._triggers(calls)
        if self.section is not None:
            begin, separator, end = self.section
            section = {
                "type": "tag",
                "begin": self.lead + begin if at_least_one else begin,
                "content": {
                    "type": "tags_with_separator",
                    "tags": tags,
                    "separator": separator,
                    "at_least_one": True,
                    "stop_after_first": stop_after_first,
                },
                "end": end,
            }
            if at_least_one and self.leads_in:
                text = {"type": "any_text", "excludes": [*triggers, *self.excludes]}
                return {"type": "sequence", "elements": [text, section]}
            if at_least_one:
                return section
            tags = [section]
        return {
            "type": "triggered_tags",
            "triggers": triggers,
            "tags": tags,
            "excludes": list(self.excludes),
            "at_least_one": at_least_one,
            "stop_after_first": stop_after_first,
        }

    def _tag(self, call: Call) -> Json:
        content: Json = {"type": "json_schema", "json_schema": call.arguments}
        if self.style != "json":
            content["style"] = self.style
        if self.numbered is not None:
            content = {
                "type": "sequence",
                "elements": [
                    {"type": "regex", "pattern": "[0-9]+"},
                    {"type": "const_string", "value": self.after},
                    content,
                ],
            }
        return {
            "type": "tag",
            "begin": self._begin(call.name),
            "content": content,
            "end": self.end,
        }

    def _begin(self, name: str) -> str:
        written = msgspec.json.encode(name).decode()[1:-1] if self.json_name else name
        after = self.after if self.numbered is None else self.numbered
        return self.before.replace("{name}", name) + written + after

    def _triggers(self, calls: Sequence[Call]) -> list[str]:
        return list(dict.fromkeys(self.trigger.replace("{name}", call.name) for call in calls))


def json_tag(begin: str, end: str, trigger: str, **more: Any) -> CallTag:
    """The tag of a call as {"name": ..., "arguments": {...}} between two marks."""
    return CallTag(
        before=begin + '{"name":"',
        after='", "arguments":',
        end="}" + end,
        trigger=trigger,
        json_name=True,
        **more,
    )
