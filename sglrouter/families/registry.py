"""All formats of tool calls, by the names of SGLang's and of smg's parsers."""

from __future__ import annotations

from collections.abc import Container
from difflib import get_close_matches
from typing import NamedTuple, TypeVar

from sglrouter.errors import ConfigError
from sglrouter.families import (
    dsml_calls,
    gemma4,
    glm_calls,
    harmony,
    inkling,
    json_formats,
    kimi_k3,
    minimax_m3_calls,
    muse_calls,
    pythonic_calls,
    section_calls,
    xml_calls,
)
from sglrouter.families.detection import detect_reasoning_parser, detect_tool_parser
from sglrouter.families.program import Format
from sglrouter.families.reasoning import REASONING_FORMATS, ReasoningFormat

T = TypeVar("T")

# The name that leaves the choice to the model's own files.
AUTO = "auto"

TOOL_FORMATS: dict[str, Format] = {
    **dsml_calls.FORMATS,
    **gemma4.FORMATS,
    **glm_calls.FORMATS,
    **harmony.FORMATS,
    **inkling.FORMATS,
    **json_formats.FORMATS,
    **kimi_k3.FORMATS,
    **minimax_m3_calls.FORMATS,
    **muse_calls.FORMATS,
    **pythonic_calls.FORMATS,
    **section_calls.FORMATS,
    **xml_calls.FORMATS,
}


class ModelFormats(NamedTuple):
    """How one model writes.

    Attributes:
        tool_parser, reasoning_parser: The parsers' names; empty for none.
        calls: How it writes tool calls; None if it does not, or that is not known.
        reasoning: How it writes its reasoning, likewise.
    """

    tool_parser: str = ""
    reasoning_parser: str = ""
    calls: Format | None = None
    reasoning: ReasoningFormat | None = None


def choose_formats(
    tool_parser: str, reasoning_parser: str, template: str, vocabulary: Container[str]
) -> ModelFormats:
    """Chooses a model's formats.

    Args:
        tool_parser: A name; empty for none, "auto" to be told by the model itself.
        reasoning_parser: Likewise.
        template: Its chat templates.
        vocabulary: The texts of its tokens.

    Raises:
        ConfigError: There is no parser of that name.
    """
    if tool_parser == AUTO:
        tool_parser = detect_tool_parser(template, vocabulary) or ""
    if reasoning_parser == AUTO:
        reasoning_parser = detect_reasoning_parser(template, vocabulary) or ""
    if not tool_parser and reasoning_parser in TOOL_FORMATS:
        # It is read by the same program as the calls.
        tool_parser = reasoning_parser
    return ModelFormats(
        tool_parser, reasoning_parser, tool_format(tool_parser), reasoning_format(reasoning_parser)
    )


def tool_format(name: str) -> Format | None:
    """The format of a --tool-call-parser; None for an empty name.

    Raises:
        ConfigError: There is no such format.
    """
    return _named("tool_call_parser", name, TOOL_FORMATS)


def reasoning_format(name: str) -> ReasoningFormat | None:
    """The format of a --reasoning-parser; None for an empty name.

    None, too, for one whose calls and reasoning are one format.

    Raises:
        ConfigError: There is no such format.
    """
    if name not in REASONING_FORMATS and name in TOOL_FORMATS and TOOL_FORMATS[name].every_answer:
        return None
    return _named("reasoning_parser", name, REASONING_FORMATS)


def _named(setting: str, name: str, formats: dict[str, T]) -> T | None:
    if not name or name == "passthrough":
        return None
    for spelling in (name, name.lower(), name.lower().replace("-", "_")):
        if spelling in formats:
            return formats[spelling]
    close = get_close_matches(name.lower(), formats, n=3)
    known = ", ".join(close or sorted(formats))
    hint = f"did you mean {known}?" if close else f"there are {known}"
    raise ConfigError(f"{setting}: there is no parser {name!r}; {hint}")
