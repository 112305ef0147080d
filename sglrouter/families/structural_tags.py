"""Structural tags: grammars that let a model call tools in the format it was trained for.

A tag is free text until a trigger appears; from there the text must be a call of one of
the tools, with arguments that follow a schema. Engines take two forms:

- the old one lists `structures` (begin, schema, end) and `triggers`; every grammar
  backend with structural tags compiles it, but it knows calls in JSON only, one after
  another, as many as the model likes;
- the new one nests `format`s, which xgrammar compiles: sections around the calls,
  arguments in XML, at most one call.

The old one is sent where it says all there is to say. What families write is a table,
by the names that SGLang and the Shepherd gateway give their parsers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

Json = dict[str, Any]

# Arguments of any kind, but arguments: parsers expect an object.
ANY_ARGUMENTS: Json = {"type": "object"}


class Call(msgspec.Struct, frozen=True):
    """A call that a tag allows: a tool's name and the schema of its arguments."""

    name: str
    arguments: Json


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """How models of a family write calls.

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
    def plain(self) -> bool:
        """Whether the old form can say it."""
        return (
            self.section is None
            and self.numbered is None
            and self.style == "json"
            and not self.excludes
            and not self.leads_in
        )


def _json_call(begin: str, end: str, trigger: str, **more: Any) -> Family:
    """A call as {"name": ..., "arguments": {...}} between two marks."""
    return Family(
        before=begin + '{"name":"',
        after='", "arguments":',
        end="}" + end,
        trigger=trigger,
        json_name=True,
        **more,
    )


_DSML = "｜DSML｜"


def _dsml(calls: str, invoke: str, style: str) -> Family:
    """DeepSeek's XML: <｜DSML｜calls> around <｜DSML｜invoke name="...">."""
    return Family(
        before=f'<{_DSML}{invoke} name="',
        after='">\n',
        end=f"</{_DSML}{invoke}>\n",
        trigger=f"<{_DSML}{calls}>",
        section=(f"<{_DSML}{calls}>\n", "", f"</{_DSML}{calls}>"),
        lead="\n\n",
        style=style,
    )


_QWEN = _json_call("<tool_call>\n", "\n</tool_call>", "<tool_call>")
# Further calls come after a semicolon, as free text: a section must have an end.
_LLAMA = _json_call("<|python_tag|>", "", "<|python_tag|>")
_DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_V3 = Family(
    before="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    after="\n```json\n",
    end="\n```<｜tool▁call▁end｜>",
    trigger=_DEEPSEEK_SECTION[0],
    section=(_DEEPSEEK_SECTION[0], "\n", _DEEPSEEK_SECTION[1]),
)
_DEEPSEEK_V31 = Family(
    before="<｜tool▁call▁begin｜>",
    after="<｜tool▁sep｜>",
    end="<｜tool▁call▁end｜>",
    trigger=_DEEPSEEK_SECTION[0],
    section=(_DEEPSEEK_SECTION[0], "", _DEEPSEEK_SECTION[1]),
)
_DEEPSEEK_V32 = _dsml("function_calls", "invoke", "deepseek_xml")
_DEEPSEEK_V4 = _dsml("tool_calls", "invoke", "deepseek_xml")
_DEEPSEEK_V41 = _dsml(" calls", " invoke", "deepseek_v4_1_xml")
_QWEN_XML = Family(
    before="<tool_call>\n<function=",
    after=">\n",
    end="\n</function>\n</tool_call>",
    trigger="<tool_call>\n<function=",
    style="qwen_xml",
)
_GLM_47 = Family(
    before="<tool_call>",
    after="",
    end="</tool_call>",
    trigger="<tool_call>",
    style="glm_xml",
    excludes=("</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
)
_KIMI_K2 = Family(
    before="<|tool_call_begin|>functions.",
    numbered=":",
    after="<|tool_call_argument_begin|>",
    end="<|tool_call_end|>",
    trigger="<|tool_calls_section_begin|>",
    section=("<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>"),
    excludes=("<|tool_call_begin|>",),
)
_KIMI_K3 = Family(
    before='<|open|>call tool="',
    numbered='" index="',
    after='"<|sep|>',
    end="<|close|>call<|sep|>",
    trigger="<|open|>tools<|sep|>",
    section=("<|open|>tools<|sep|>", "", "<|close|>tools<|sep|>"),
    style="kimi_k3_xml",
    excludes=("<|open|>call",),
    leads_in=True,
    always=True,
)
_INKLING = Family(
    before='<|message_model|>{name}<|content_invoke_tool_json|>{"name":"',
    after='","args":',
    end="}<|end_message|>",
    trigger="<|message_model|>{name}<|content_invoke_tool_json|>",
    json_name=True,
    always=True,
)

FAMILIES: dict[str, Family] = {
    "qwen": _QWEN,
    "qwen25": _QWEN,
    "trinity": _QWEN,
    "hermes": _json_call("<tool_call>", "</tool_call>", "<tool_call>"),
    "llama3": _LLAMA,
    "llama": _LLAMA,
    "mistral": _json_call("", "", "[TOOL_CALLS]", section=("[TOOL_CALLS] [", ", ", "]")),
    "deepseekv3": _DEEPSEEK_V3,
    "deepseek": _DEEPSEEK_V3,
    "deepseekv31": _DEEPSEEK_V31,
    "deepseek31": _DEEPSEEK_V31,
    "deepseekv32": _DEEPSEEK_V32,
    "deepseek32": _DEEPSEEK_V32,
    "deepseekv4": _DEEPSEEK_V4,
    "deepseek_v4": _DEEPSEEK_V4,
    "deepseekv41": _DEEPSEEK_V41,
    "interns1": Family(
        before='<|action_start|> <|plugin|>\n{"name": "',
        after='", "parameters": ',
        end="}<|action_end|>",
        trigger="<|action_start|> <|plugin|>",
        json_name=True,
    ),
    "apertus2509": Family(
        before='{"',
        after='": ',
        end="}",
        trigger="<|tools_prefix|>",
        section=("<|tools_prefix|>[", ", ", "]<|tools_suffix|>"),
        json_name=True,
    ),
    "kimi_k2": _KIMI_K2,
    "kimik2": _KIMI_K2,
    "kimi_k3": _KIMI_K3,
    "qwen3_coder": _QWEN_XML,
    "qwen_coder": _QWEN_XML,
    "qwen_xml": _QWEN_XML,
    "step3p5": _QWEN_XML,
    "nanbeige": _QWEN_XML,
    "glm47": _GLM_47,
    "glm47_moe": _GLM_47,
    "inkling": _INKLING,
}

HARMONY = frozenset(("gpt-oss",))


def has_tags(parser: str) -> bool:
    """Whether calls in this parser's format can be constrained."""
    return parser in FAMILIES or parser in HARMONY


def always_tagged(parser: str) -> bool:
    """Whether calls are constrained even if no tool is strict."""
    family = FAMILIES.get(parser)
    return family is not None and family.always


def structural_tag(
    parser: str, calls: Sequence[Call], *, at_least_one: bool, stop_after_first: bool
) -> Json:
    """The structural tag that allows these calls in a parser's format.

    Args:
        parser: The name of a parser for which has_tags() is true.
        calls: What may be called, one at least.
        at_least_one: Whether there must be a call, and no text.
        stop_after_first: Whether the answer ends with the first call.

    Returns:
        What to send as structural_tag, before it is written as JSON.
    """
    if parser in HARMONY:
        form = _harmony(calls, at_least_one, stop_after_first)
    else:
        family = FAMILIES[parser]
        if family.plain and not stop_after_first:
            return _old_form(family, calls, at_least_one)
        form = _calls(family, calls, at_least_one, stop_after_first)
    return {"type": "structural_tag", "format": form}


def answer_or_calls(
    parser: str, calls: Sequence[Call], *, answer: Json, stop_after_first: bool
) -> Json:
    """The structural tag for an answer that is JSON of a schema, or calls.

    Args:
        parser: A key of FAMILIES.
        calls: What may be called, one at least.
        answer: The schema of an answer that is no call.
        stop_after_first: Whether there may be one call only.
    """
    called = _calls(FAMILIES[parser], calls, True, stop_after_first)
    either = [{"type": "json_schema", "json_schema": answer}, called]
    return {"type": "structural_tag", "format": {"type": "or", "elements": either}}


def _old_form(family: Family, calls: Sequence[Call], at_least_one: bool) -> Json:
    return {
        "type": "structural_tag",
        "structures": [
            {"begin": _begin(family, call.name), "schema": call.arguments, "end": family.end}
            for call in calls
        ],
        "triggers": _triggers(family, calls),
        "at_least_one": at_least_one,
    }


def _calls(
    family: Family, calls: Sequence[Call], at_least_one: bool, stop_after_first: bool
) -> Json:
    tags = [_tag(family, call) for call in calls]
    triggers = _triggers(family, calls)
    if family.section is not None:
        begin, separator, end = family.section
        section = {
            "type": "tag",
            "begin": family.lead + begin if at_least_one else begin,
            "content": {
                "type": "tags_with_separator",
                "tags": tags,
                "separator": separator,
                "at_least_one": True,
                "stop_after_first": stop_after_first,
            },
            "end": end,
        }
        if at_least_one and family.leads_in:
            text = {"type": "any_text", "excludes": [*triggers, *family.excludes]}
            return {"type": "sequence", "elements": [text, section]}
        if at_least_one:
            return section
        tags = [section]
    return {
        "type": "triggered_tags",
        "triggers": triggers,
        "tags": tags,
        "excludes": list(family.excludes),
        "at_least_one": at_least_one,
        "stop_after_first": stop_after_first,
    }


def _tag(family: Family, call: Call) -> Json:
    content: Json = {"type": "json_schema", "json_schema": call.arguments}
    if family.style != "json":
        content["style"] = family.style
    if family.numbered is not None:
        content = {
            "type": "sequence",
            "elements": [
                {"type": "regex", "pattern": "[0-9]+"},
                {"type": "const_string", "value": family.after},
                content,
            ],
        }
    return {
        "type": "tag",
        "begin": _begin(family, call.name),
        "content": content,
        "end": family.end,
    }


def _begin(family: Family, name: str) -> str:
    written = msgspec.json.encode(name).decode()[1:-1] if family.json_name else name
    after = family.after if family.numbered is None else family.numbered
    return family.before.replace("{name}", name) + written + after


def _triggers(family: Family, calls: Sequence[Call]) -> list[str]:
    return list(dict.fromkeys(family.trigger.replace("{name}", call.name) for call in calls))


# Harmony has no free text: all is messages, each with a channel, and a call is the last.
_MESSAGE_ENDS = ["<|end|>", "<|return|>"]
_NEXT_MESSAGE = "<|start|>assistant"


def _harmony(calls: Sequence[Call], at_least_one: bool, stop_after_first: bool) -> Json:
    messages = [_message("analysis")]
    if not at_least_one:
        messages.append(_message("final"))
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
        return _messages([*tags, *messages])
    called = {
        **_messages(tags),
        "at_least_one": True,
        "stop_after_first": stop_after_first,
    }
    between: Json = {"type": "const_string", "value": _NEXT_MESSAGE}
    first = {**_messages(messages), "at_least_one": True}
    choices = [called, {"type": "sequence", "elements": [first, between, called]}]
    if not at_least_one:
        choices.insert(0, _messages(messages))
    return {"type": "or", "elements": choices}


def _message(channel: str) -> Json:
    return {
        "type": "tag",
        "begin": f"<|channel|>{channel}<|message|>",
        "content": {"type": "any_text"},
        "end": _MESSAGE_ENDS,
    }


def _messages(tags: list[Json]) -> Json:
    return {"type": "tags_with_separator", "tags": tags, "separator": _NEXT_MESSAGE}
