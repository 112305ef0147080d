"""Families that write arguments as JSON, and how each writes calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sglrouter.families.formats.program import Format
from sglrouter.families.registry import TOOL_FORMATS as FORMATS

Calls = Sequence[tuple[str, Mapping[str, Any]]]
Dump = Callable[[object], str]


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class Family(NamedTuple):
    """A format, and the texts that it reads.

    Attributes:
        form: The format.
        write: Writes a block of calls; values by the given function.
        marked: Whether there is a marker before a block.
        opener: The first marker of a block, if there is one.
        value: How values are written.
        in_text: Whether a block may follow other text.
    """

    form: Format
    write: Callable[[Calls, Dump], str]
    opener: str = ""
    value: Dump = dump
    in_text: bool = True

    def block(self, calls: Calls) -> str:
        return self.write(calls, self.value)


def listed(
    before: str, after: str = "", name: str = "name", arguments: str = "arguments"
) -> Callable[[Calls, Dump], str]:
    """An array of objects."""

    def write(calls: Calls, value: Dump) -> str:
        return (
            f"{before}{value([{name: called, arguments: given} for called, given in calls])}{after}"
        )

    return write


def single(
    before: str,
    after: str = "",
    name: str = "name",
    arguments: str = "arguments",
    between: str = "",
) -> Callable[[Calls, Dump], str]:
    """One object after each marker."""

    def write(calls: Calls, value: Dump) -> str:
        return between.join(
            f"{before}{value({name: called, arguments: given})}{after}" for called, given in calls
        )

    return write


def headed(call: str, before: str = "", after: str = "") -> Callable[[Calls, Dump], str]:
    """The name in front of the arguments; `call` has NAME, NUMBER and VALUE in it."""

    def write(calls: Calls, value: Dump) -> str:
        written = "".join(
            call.replace("NAME", name).replace("NUMBER", str(number)).replace("VALUE", value(given))
            for number, (name, given) in enumerate(calls)
        )
        return f"{before}{written}{after}"

    return write


def _apertus(calls: Calls, value: Dump) -> str:
    return f"<|tools_prefix|>{value([{name: given} for name, given in calls])}<|tools_suffix|>"


def _inkling(calls: Calls, value: Dump) -> str:
    return "".join(
        f"<|message_model|>{name}<|content_invoke_tool_json|>"
        f"{value({'name': name, 'args': given})}<|end_message|>"
        for name, given in calls
    )


_DEEPSEEK_BEGIN, _DEEPSEEK_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_PLUGIN, _ACTION_END = "<|action_start|> <|plugin|>\n", "<|action_end|>"

FAMILIES = {
    "hermes": Family(
        FORMATS["hermes"],
        single("<tool_call>\n", "\n</tool_call>", between="\n"),
        "<tool_call>",
    ),
    "trinity": Family(FORMATS["trinity"], single("<tool_call>", "</tool_call>"), "<tool_call>"),
    "json": Family(FORMATS["json"], listed("", arguments="parameters")),
    "json_object": Family(FORMATS["json"], single("", name="function", between="\n")),
    "json_fence": Family(FORMATS["json"], listed("```json\n", "\n```")),
    "llama3": Family(
        FORMATS["llama3"], single("", arguments="parameters", between="; "), in_text=False
    ),
    "python_tag": Family(
        FORMATS["llama3"],
        lambda calls, value: "<|python_tag|>" + single("", between=";")(calls, value),
        "<|python_tag|>",
    ),
    "mistral": Family(FORMATS["mistral"], listed("[TOOL_CALLS] "), "[TOOL_CALLS]"),
    "mistral_args": Family(
        FORMATS["mistral"], headed("[TOOL_CALLS]NAME[ARGS]VALUE"), "[TOOL_CALLS]"
    ),
    "mistral_id": Family(
        FORMATS["mistral"],
        headed("[TOOL_CALLS]NAME[CALL_ID]a1b2c3d4e[ARGS]VALUE"),
        "[TOOL_CALLS]",
    ),
    "mistral_bare": Family(FORMATS["mistral"], headed("[TOOL_CALLS]NAMEVALUE"), "[TOOL_CALLS]"),
    "interns1": Family(
        FORMATS["interns1"], single(_PLUGIN, _ACTION_END, arguments="parameters"), _PLUGIN[:-1]
    ),
    "cohere": Family(
        FORMATS["cohere"],
        listed("<|START_ACTION|>", "<|END_ACTION|>", "tool_name", "parameters"),
        "<|START_ACTION|>",
    ),
    "granite3": Family(FORMATS["granite3"], listed("<|tool_call|>"), "<|tool_call|>"),
    "granite_20b_fc": Family(
        FORMATS["granite_20b_fc"], single("<function_call> ", between="\n"), "<function_call>"
    ),
    "phi4_mini": Family(FORMATS["phi4_mini"], listed("functools"), "functools["),
    "phi4_tag": Family(
        FORMATS["phi4_mini"], listed("<|tool_call|>", "<|/tool_call|>"), "<|tool_call|>"
    ),
    "xlam": Family(FORMATS["xlam"], listed("")),
    "xlam_tag": Family(FORMATS["xlam"], listed("<tool_call>", "</tool_call>"), "<tool_call>"),
    "jamba": Family(FORMATS["jamba"], listed("<tool_calls>", "</tool_calls>"), "<tool_calls>"),
    "nemotron_json": Family(
        FORMATS["nemotron_json"], listed("<TOOLCALL>", "</TOOLCALL>"), "<TOOLCALL>"
    ),
    "apertus2509": Family(FORMATS["apertus2509"], _apertus, "<|tools_prefix|>"),
    "gigachat3": Family(FORMATS["gigachat3"], single("<|function_call|>"), "<|function_call|>"),
    "gigachat3_role": Family(
        FORMATS["gigachat3"],
        single("function call<|role_sep|>\n"),
        "function call<|role_sep|>",
    ),
    "sarashina": Family(FORMATS["sarashina"], listed("<|tool_calls|>"), "<|tool_calls|>", repr),
    "sarashina_bare": Family(FORMATS["sarashina"], listed(""), "", repr, in_text=False),
    "inkling": Family(FORMATS["inkling"], _inkling, "<|content_invoke_tool_json|>"),
    "deepseekv3": Family(
        FORMATS["deepseekv3"],
        headed(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nVALUE\n```<｜tool▁call▁end｜>",
            _DEEPSEEK_BEGIN,
            _DEEPSEEK_END,
        ),
        _DEEPSEEK_BEGIN,
    ),
    "deepseekv31": Family(
        FORMATS["deepseekv31"],
        headed(
            "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>VALUE<｜tool▁call▁end｜>",
            _DEEPSEEK_BEGIN,
            _DEEPSEEK_END,
        ),
        _DEEPSEEK_BEGIN,
    ),
    "kimi_k2": Family(
        FORMATS["kimi_k2"],
        headed(
            "<|tool_call_begin|>functions.NAME:NUMBER<|tool_call_argument_begin|>VALUE<|tool_call_end|>",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
        ),
        "<|tool_calls_section_begin|>",
    ),
}
MARKED = {name: family for name, family in FAMILIES.items() if family.opener}
BARE = {name: family for name, family in FAMILIES.items() if not family.opener}
