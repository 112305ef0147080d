"""DeepSeek V4's and V4.1's prompts.

Results are part of the user's turn, and user turns in a row are one. The assistant's
marker comes where its turn begins, and a thinking marker behind that. Thoughts before the
last question are dropped, but where there are tools all stay. How hard to think is said
in words before everything else; which words, the versions of the model differ in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sglrouter.prompt.budget import Budget
from sglrouter.prompt.encodings.dsml import (
    ANY_OBJECT,
    ASSISTANT,
    BEGIN,
    END,
    END_THINK,
    REMINDER,
    RESPONSE_FORMAT,
    SYSTEM,
    THINK,
    USER,
    Dsml,
    format_wanted,
)
from sglrouter.prompt.encodings.encoding import (
    PromptWriter,
    as_json,
    functions_of,
    in_order_of_calls,
    last_question,
    reasoning_of,
    text_of,
    thinks,
    unknown_role,
)
from sglrouter.prompt.messages import Message

_THOROUGH = (
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to "
    "resolve the root cause, rigorously stress-testing your logic against all potential paths, "
    "edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate "
    "step, considered alternative, and rejected hypothesis to ensure absolutely no assumption "
    "is left unchecked.\n\n"
)
_EXHAUSTIVE = (
    "Reasoning Effort: Beyond maximum \u2014 exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: "
    "exhaustively decompose the problem into its most fundamental components, trace every causal "
    "chain to its root, and resolve the underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple "
    "angles and are certain that no assumption remains unchecked and no error remains "
    "undiscovered.\n\n"
)


class Version(NamedTuple):
    """What the versions differ in.

    Attributes:
        dsml: How calls are written.
        system: What a system message begins with.
        efforts: The words for each effort.
        usual: Those for one that is not said or not known.
        any_object: The words for an answer in JSON without a schema.
    """

    dsml: Dsml
    system: str
    efforts: Mapping[str, str]
    usual: str = ""
    any_object: str = ANY_OBJECT


def _measure(effort: int) -> str:
    scale = "(range 1-100, the higher the value, the more thorough the reasoning)"
    return f"Reasoning Effort: {effort} {scale}\n\n"


# The first checkpoints, and those since, whose own encoders have words for one more effort.
PREVIEW = Version(Dsml("tool_calls"), "", {"max": _THOROUGH})
OFFICIAL = Version(Dsml("tool_calls"), "", {"high": _THOROUGH, "max": _EXHAUSTIVE})
V41 = Version(
    Dsml("calls", "｜DSML｜ "),
    SYSTEM,
    {"minimal": _measure(50), "low": _measure(50), "max": _measure(100)},
    _measure(75),
    f'{RESPONSE_FORMAT}{{"type": "json_object"}}',
)


class DeepseekV4:
    """See sglrouter.prompt.encodings.encoding.Encoding.

    Args:
        version: Which of the versions.
    """

    content_format = "string"
    knows_developer = False
    knows_thinking = False
    shows_response_format = True

    def __init__(self, version: Version) -> None:
        self._version = version
        dsml = version.dsml
        markers = (BEGIN, END, version.system, USER, ASSISTANT, REMINDER, THINK, END_THINK)
        self.source = "\n".join((*markers, dsml.begin(dsml.block)))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        budget: Budget,
        *,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation; see ChatTemplate.render()."""
        kwargs = kwargs or {}
        version, thinking = self._version, thinks(kwargs)
        turns = _turns(in_order_of_calls(messages))
        effort = self._effort(kwargs.get("reasoning_effort")) if thinking else ""
        asked = last_question(turns)
        prompt = PromptWriter(budget)
        prompt.write(BEGIN)
        wanted = format_wanted(kwargs.get("response_format"), version.any_object)
        if turns[0]["role"] != "system" and (tools or wanted or (effort and version.system)):
            turns.insert(0, {"role": "system", "content": ""})
            asked += asked >= 0
        if turns[0]["role"] != "system":
            prompt.write(effort)
            effort = ""
        for index, turn in enumerate(turns):
            role = turn["role"]
            # Without tools, what came before the last question is thought no more.
            shows = thinking and (bool(tools) or index > asked)
            if role == "assistant":
                prompt.write(ASSISTANT, THINK if shows else END_THINK)
                if shows:
                    prompt.write(reasoning_of(turn), END_THINK)
                calls = turn.get("tool_calls") or ()
                prompt.write(version.dsml.said(text_of(turn), calls), END)
            elif role == "user":
                prompt.write(USER, text_of(turn))
            elif role == "latest_reminder":
                prompt.write(REMINDER, text_of(turn))
            elif role == "system":
                here = tools if index == 0 else None
                prompt.write(*self._instructions(turn, effort, here, wanted))
                effort = wanted = ""
            else:
                raise unknown_role(role)
        if add_generation_prompt:
            prompt.write(ASSISTANT, THINK if thinking else END_THINK)
        return prompt.text()

    def _effort(self, effort: object) -> str:
        version = self._version
        if version is V41 and isinstance(effort, int | float) and not isinstance(effort, bool):
            measure = effort if isinstance(effort, int) else round(effort * 100)
            return _measure(min(max(int(measure), 1), 100))
        return version.efforts.get(str(effort), version.usual)

    def _instructions(
        self, turn: Message, effort: str, tools: Sequence[Mapping[str, Any]] | None, wanted: str
    ) -> list[str]:
        texts = [effort, text_of(turn)]
        if tools:
            texts += ["\n\n", self._tools(tools)]
        if turn.get("response_format"):
            texts += [RESPONSE_FORMAT, as_json(turn["response_format"])]
        texts.append(wanted)
        return [self._version.system, *texts] if any(texts) else []

    def _tools(self, tools: Sequence[Mapping[str, Any]]) -> str:
        dsml = self._version.dsml
        schemas = "\n".join(map(as_json, functions_of(tools)))
        return f"""## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by \
writing a "{dsml.begin(dsml.block)}" block like the following:

{dsml.example("TOOL_NAME")}

String parameters should be specified as is and set `string="true"`. For all other types \
(numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by {THINK}), you MUST output your complete reasoning \
inside {THINK}...{END_THINK} BEFORE any tool calls or final response.

Otherwise, output directly after {END_THINK} with tool calls or final response.

### Available Tool Schemas

{schemas}

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.
"""


def _turns(messages: Sequence[Message]) -> list[Message]:
    """The messages with results and questions in a row as one user's turn."""
    turns: list[Message] = []
    parts: list[str] = []
    for message in messages:
        role = message["role"]
        if role not in ("user", "tool"):
            _end_turn(turns, parts)
            turns.append(message)
        elif role == "tool":
            parts.append(f"<tool_result>{text_of(message)}</tool_result>")
        else:
            parts.append(text_of(message))
    _end_turn(turns, parts)
    return turns


def _end_turn(turns: list[Message], parts: list[str]) -> None:
    if parts:
        turns.append({"role": "user", "content": "\n\n".join(parts)})
        parts.clear()
