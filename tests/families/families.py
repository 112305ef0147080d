"""Families that write values as text, and how each writes a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from sglrouter.families import minimax_m3
from sglrouter.families.formats.program import Format
from sglrouter.families.registry import TOOL_FORMATS as FORMATS

Arguments = Mapping[str, Any]


class Family(NamedTuple):
    """A format, and the texts that it reads.

    Attributes:
        form: The format.
        call: Writes one call.
        before: What goes before a block of calls.
        after: What goes after it.
        value_end: What ends a value.
    """

    form: Format
    call: Callable[[str, Arguments], str]
    before: str
    after: str
    value_end: str

    def block(self, calls: Sequence[tuple[str, Arguments]]) -> str:
        """Writes calls, those that can be in one block."""
        written = "\n".join(self.call(name, arguments) for name, arguments in calls)
        return f"{self.before}{written}{self.after}"


def text_of(value: object) -> str:
    """How a template writes a value."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def function_call(name: str, arguments: Arguments) -> str:
    parameters = "".join(
        f"<parameter={key}>\n{text_of(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<function={name}>\n{parameters}</function>"


def invoke_call(prefix: str = "", typed: bool = False) -> Callable[[str, Arguments], str]:
    def write(name: str, arguments: Arguments) -> str:
        text = f'<{prefix}invoke name="{name}">\n'
        for key, value in arguments.items():
            kind = f' string="{str(isinstance(value, str)).lower()}"' if typed else ""
            text += f'<{prefix}parameter name="{key}"{kind}>{text_of(value)}</{prefix}parameter>\n'
        return f"{text}</{prefix}invoke>"

    return write


def step3_call(name: str, arguments: Arguments) -> str:
    call = invoke_call("steptml:")(name, arguments)
    return f"<｜tool_call_begin｜>function<｜tool_sep｜>{call}<｜tool_call_end｜>"


def minicpm_call(name: str, arguments: Arguments) -> str:
    parameters = "".join(
        f'<param name="{key}">{escape(text_of(value))}</param>' for key, value in arguments.items()
    )
    return f'<function name="{name}">{parameters}</function>'


def cdata_call(name: str, arguments: Arguments) -> str:
    parameters = "".join(
        f'<param name="{key}"><![CDATA[{text_of(value)}]]></param>'
        for key, value in arguments.items()
    )
    return f'<function name="{name}">{parameters}</function>'


def paired_call(
    call: str = "tool_call",
    *,
    after_name: str = "\n",
    between: str = "\n",
    prefix: str = "",
    suffix: str = "",
) -> Callable[[str, Arguments], str]:
    def tag(name: str, text: str) -> str:
        return f"<{prefix}{name}{suffix}>{text}</{prefix}{name}{suffix}>"

    def write(name: str, arguments: Arguments) -> str:
        pairs = "".join(
            tag("arg_key", key) + between + tag("arg_value", text_of(value)) + between
            for key, value in arguments.items()
        )
        return tag(call, f"{name}{after_name}{pairs}")

    return write


def m3_call(name: str, arguments: Arguments) -> str:
    ns = minimax_m3.NAMESPACE.decode()

    def write(key: str, value: object) -> str:
        if isinstance(value, list) and value:
            text = "".join(write("item", item) for item in value)
        elif isinstance(value, dict) and value:
            text = "".join(write(str(member), inner) for member, inner in value.items())
        else:
            text = text_of(value)
        return f"{ns}<{key}>{text}{ns}</{key}>"

    parameters = "".join(write(key, value) for key, value in arguments.items())
    return f'{ns}<invoke name="{name}">{parameters}{ns}</invoke>'


_PARAMETER = "</parameter>"
_VALUE = "</arg_value>"

FAMILIES: dict[str, Family] = {
    "qwen3_coder": Family(
        FORMATS["qwen3_coder"], function_call, "<tool_call>\n", "\n</tool_call>", _PARAMETER
    ),
    "mimo": Family(FORMATS["mimo"], function_call, "<tool_call>", "</tool_call>", _PARAMETER),
    "seed_oss": Family(
        FORMATS["seed_oss"],
        function_call,
        "<seed:tool_call>\n",
        "\n</seed:tool_call>",
        _PARAMETER,
    ),
    "minimax_m2": Family(
        FORMATS["minimax_m2"],
        invoke_call(),
        "<minimax:tool_call>\n",
        "\n</minimax:tool_call>",
        _PARAMETER,
    ),
    "step3": Family(
        FORMATS["step3"],
        step3_call,
        "<｜tool_calls_begin｜>\n",
        "\n<｜tool_calls_end｜>",
        "</steptml:parameter>",
    ),
    "dots": Family(
        FORMATS["dots"],
        invoke_call(),
        "<dots_function_call>\n",
        "\n</dots_function_call>",
        _PARAMETER,
    ),
    "minicpm5": Family(FORMATS["minicpm5"], minicpm_call, "", "", "</param>"),
    "minicpm5_cdata": Family(FORMATS["minicpm5"], cdata_call, "", "", "]]></param>"),
    "deepseekv32": Family(
        FORMATS["deepseekv32"],
        invoke_call("｜DSML｜", typed=True),
        "<｜DSML｜function_calls>\n",
        "\n</｜DSML｜function_calls>",
        "</｜DSML｜parameter>",
    ),
    "deepseekv4": Family(
        FORMATS["deepseekv4"],
        invoke_call("｜DSML｜", typed=True),
        "<｜DSML｜tool_calls>\n",
        "\n</｜DSML｜tool_calls>",
        "</｜DSML｜parameter>",
    ),
    "deepseekv41": Family(
        FORMATS["deepseekv41"],
        invoke_call("｜DSML｜ ", typed=True),
        "<｜DSML｜ calls>\n",
        "\n</｜DSML｜ calls>",
        "</｜DSML｜ parameter>",
    ),
    "gigachat35": Family(
        FORMATS["gigachat35"],
        invoke_call("｜GCML｜", typed=True),
        "<｜GCML｜tool_calls>\n",
        "\n</｜GCML｜tool_calls>",
        "</｜GCML｜parameter>",
    ),
    "glm45": Family(FORMATS["glm45"], paired_call(), "", "", _VALUE),
    "glm47": Family(FORMATS["glm47"], paired_call(after_name="", between=""), "", "", _VALUE),
    "iquest_q1": Family(
        FORMATS["iquest_q1"],
        paired_call("iquest_tool_call", after_name="", between=""),
        "",
        "",
        _VALUE,
    ),
    "hunyuan": Family(
        FORMATS["hunyuan"],
        paired_call(after_name="<tool_sep>\n"),
        "<tool_calls>\n",
        "\n</tool_calls>",
        _VALUE,
    ),
    "hunyuan_opensource": Family(
        FORMATS["hunyuan"],
        paired_call(after_name="<tool_sep:opensource>\n", suffix=":opensource"),
        "<tool_calls:opensource>\n",
        "\n</tool_calls:opensource>",
        "</arg_value:opensource>",
    ),
    "k2_horizon": Family(
        FORMATS["k2_horizon"],
        paired_call(prefix="ifm|"),
        "<ifm|tool_calls>\n",
        "\n</ifm|tool_calls>",
        "</ifm|arg_value>",
    ),
    "muse": Family(
        FORMATS["muse"],
        invoke_call("atem:"),
        "<atem:function_calls>\n",
        "\n</atem:function_calls>",
        "</atem:parameter>",
    ),
    "minimax-m3": Family(
        FORMATS["minimax-m3"],
        m3_call,
        "]<]minimax[>[<tool_call>\n",
        "\n]<]minimax[>[</tool_call>",
        "]<]minimax[>[</",
    ),
}
