"""How families of models write their reasoning, and the program that splits it off.

Strategy: reasoning comes first, so one small program reads it and hands on to whatever
reads the rest. Where it begins is decided by the prompt, whose last words may have
opened it; else by the output's first word. Once closed it is not opened again: later
markers are text. Some families may leave it unclosed before a tool call, whose marker
then ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sglrouter._fast.operations import REASONING, Pass
from sglrouter._fast.parse import OutputParser
from sglrouter.output.formats.program import PEEK, REST, Program, literal


class ReasoningFormat(NamedTuple):
    """A way of writing reasoning.

    Attributes:
        openers: What begins it; the first is what prompts end with.
        closers: What ends it.
        interrupts: Markers of tool calls that end it as well.
        always: Whether an output is reasoning from its first word although the prompt
            has neither opened nor closed it.
        prefix: Put before an answer whose reasoning stays in the content: the opener that
            the prompt has and the answer lacks.
    """

    openers: tuple[str, ...]
    closers: tuple[str, ...]
    interrupts: tuple[str, ...] = ()
    always: bool = False
    prefix: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        """What has to be visible in the text."""
        return self.openers + self.closers + self.interrupts


def reasoning_program(
    reasoning: ReasoningFormat,
    rest: Callable[[OutputParser], Program] | None,
    *,
    inside: bool,
    as_json: bool = False,
) -> Callable[[OutputParser], Program]:
    """Makes the program that splits reasoning off, then reads `rest`.

    Args:
        reasoning: The format.
        rest: Reads what follows; None if that is content to the end.
        inside: Whether the output begins inside the reasoning.
        as_json: Whether what follows is JSON. An output that begins with it has no
            reasoning.
    """
    closers = tuple(text.encode() for text in reasoning.closers)
    interrupts = tuple(text.encode() for text in reasoning.interrupts)
    opening = literal(*(text.encode() for text in reasoning.openers))
    until_closed = Pass(REASONING, (*closers, *interrupts))

    def program(parser: OutputParser) -> Program:
        if reasoning.prefix:
            parser.say(reasoning.prefix.encode())
            yield from rest(parser) if rest is not None else _rest()
            return
        parser.mark()
        # A model may repeat what the prompt has said.
        opened = (yield opening) >= 0 or (inside and not (as_json and (yield PEEK) in (b"{", b"[")))
        if opened:
            parser.accept()
            found = yield until_closed
            if found < 0:
                return
            if found >= len(closers):
                parser.push(interrupts[found - len(closers)])
        else:
            parser.reject()
        yield from rest(parser) if rest is not None else _rest()

    return program


def _rest() -> Program:
    yield REST


def _think(*interrupts: str, always: bool = False, more: tuple[str, ...] = ()) -> ReasoningFormat:
    return ReasoningFormat(("<think>", *more), ("</think>",), interrupts, always)


_THINK = _think()
_THINK_ALWAYS = _think(always=True)
_TOOL_CALL = _think("<tool_call>")
_KIMI = ReasoningFormat(("◁think▷",), ("◁/think▷",))

# By SGLang's names and by smg's.
REASONING_FORMATS = {
    "base": _THINK,
    "cohere_cmd": ReasoningFormat(("<|START_THINKING|>",), ("<|END_THINKING|>",)),
    "cohere_command4": ReasoningFormat(("<|START_THINKING|>",), ("<|END_THINKING|>",), always=True),
    "apertus2509": ReasoningFormat(("<|inner_prefix|>",), ("<|inner_suffix|>",)),
    "deepseek-r1": _THINK_ALWAYS,
    "deepseek_r1": _THINK_ALWAYS,
    "deepseek-v3": _THINK,
    "deepseek_v31": _THINK,
    "deepseek-v4": _THINK,
    "deepseek-v41": _THINK,
    "dots": _TOOL_CALL,
    "gemma4": ReasoningFormat(("<|channel>thought\n", "<|channel>thought"), ("<channel|>",)),
    "gigachat35": _THINK_ALWAYS,
    "glm45": _TOOL_CALL,
    "granite_thinking_parser": _TOOL_CALL,
    "hunyuan": _think("<tool_calls>"),
    "interns1": _TOOL_CALL,
    "iquest_q1": _think("<iquest_tool_call>"),
    "k2_horizon": ReasoningFormat(
        ("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"),
        ("</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"),
    ),
    "kimi": _KIMI,
    "kimi_k2": _think("<|tool_calls_section_begin|>"),
    "kimi_k25": _think("<|tool_calls_section_begin|>"),
    "kimi_k3": ReasoningFormat(
        ("<|open|>think<|sep|>",),
        ("<|close|>think<|sep|>",),
        ("<|open|>response<|sep|>", "<|open|>tools<|sep|>"),
    ),
    "kimi_thinking": _think("<|tool_calls_section_begin|>", always=True),
    "ling3": _TOOL_CALL,
    "mimo": _THINK,
    "minimax": _THINK_ALWAYS,
    "minimax-append-think": ReasoningFormat((), (), prefix="<think>"),
    "minimax-m3": ReasoningFormat(("<mm:think>",), ("</mm:think>",)),
    "mistral": ReasoningFormat(("[THINK]",), ("[/THINK]",)),
    "nano_v3": _TOOL_CALL,
    "nanbeige": _TOOL_CALL,
    "nemotron_3": _TOOL_CALL,
    "poolside_v1": _THINK,
    "muse": ReasoningFormat(("to=self<|message|>",), ("<|eom|>",)),
    "qwen3": _TOOL_CALL,
    "qwen3-thinking": _think("<tool_call>", always=True),
    "qwen3_thinking": _think("<tool_call>", always=True),
    "seed_oss": ReasoningFormat(("<seed:think>",), ("</seed:think>",), ("<seed:tool_call>",)),
    "step3": _THINK_ALWAYS,
    "step3p5": _THINK_ALWAYS,
}
