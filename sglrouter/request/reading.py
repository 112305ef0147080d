"""How the answer to a request is to be read, from the request, its prompt and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sglrouter.families.formats.forced_calls import forced
from sglrouter.families.formats.program import Format, Tools
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.reading import Reading
from sglrouter.families.registry import ModelFormats
from sglrouter.prompt.conversation import Prompt
from sglrouter.request.reasoning_start import starts_in_reasoning
from sglrouter.schema.chat import ChatRequest

# What gpt-oss's messages tell by whether they are thoughts.
_CHANNEL = "<|channel|>"


def reading_of(
    request: ChatRequest,
    tools: Sequence[Mapping[str, Any]] | None,
    formats: ModelFormats,
    *,
    must_call: bool,
    drop_unknown: bool,
    as_json: bool = False,
) -> Reading:
    """Says how to read what the model makes of any prompt; see reading_after().

    Args:
        request: The request.
        tools: The tools that the prompt shows.
        formats: How the model writes.
        must_call: Whether the answer has to be a call.
        drop_unknown: Whether calls of other functions are dropped.
        as_json: Whether a grammar makes the answer JSON, array of calls included.
    """
    calls: Format | None = None
    if must_call:
        calls = forced(formats.calls)
    elif tools or (formats.calls is not None and formats.calls.every_answer):
        calls = formats.calls
    return Reading(
        calls=calls,
        reasoning=formats.reasoning if request.separate_reasoning is not False else None,
        tools=Tools(tools or ()),
        drop_unknown=drop_unknown,
        as_json=as_json,
    )


def reading_after(
    reading: Reading, messages: Sequence[Mapping[str, Any]], prompt: Prompt
) -> Reading:
    """Says how to read what the model makes of a prompt.

    Args:
        reading: What holds for any prompt.
        messages: The conversation.
        prompt: The prompt, whose end says where the answer begins.
    """
    begins_inside = reading.reasoning is not None and inside(reading.reasoning, prompt)
    calls_before, lead = _calls_before(messages), _lead(reading.calls, prompt)
    if not (begins_inside or calls_before or lead):
        return reading
    return msgspec.structs.replace(
        reading, inside=begins_inside, calls_before=calls_before, lead=lead
    )


def inside(reasoning: ReasoningFormat, prompt: Prompt) -> bool:
    """Whether an answer begins in its reasoning.

    Args:
        reasoning: How the model writes that.
        prompt: What the answer follows.
    """
    if prompt.in_thoughts:
        return True
    text, continued = prompt.text, prompt.continued
    for opener in reasoning.openers:
        for closer in reasoning.closers:
            if starts_in_reasoning(text, opener, closer, continued=continued):
                return True
            if starts_in_reasoning(text, closer, opener, continued=continued):
                return False
    # Who is in the middle of an answer has thought already.
    return reasoning.always and not continued


def _lead(calls: Format | None, prompt: Prompt) -> str:
    """The header of thoughts that go on, where the format of calls reads that, too."""
    if not prompt.in_thoughts or calls is None or _CHANNEL not in calls.markers:
        return ""
    header = prompt.text[: len(prompt.text) - prompt.continued]
    return header[max(header.rfind(_CHANNEL), 0) :]


def _calls_before(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(
        len(calls) for message in messages if isinstance(calls := message.get("tool_calls"), list)
    )
