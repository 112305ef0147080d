"""Writes the parts of the documentation that come from the code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sglrouter.config import settings_table
from sglrouter.output.formats.registry import TOOL_FORMATS
from sglrouter.output.reasoning import REASONING_FORMATS

INTRODUCTION = """\
# Configuration

Generated from `sglrouter/config.py` by `make docs`.

Each setting can be given, strongest first, as

1. a flag of `sglrouter serve` (for those that have one),
2. an environment variable: `SGLROUTER_` and the name in capitals, such as
   `SGLROUTER_PORT=8080`; lists are separated by commas,
3. the original Go router's variable, where the last column names one,
4. a line of the TOML file that `--config` or `SGLROUTER_CONFIG` names, such as `port = 8080`.

A setting that is wrong stops the start with one line that names its source. `sglrouter check`
tries all of it out. Times are in seconds, sizes in bytes.

"""


def configuration() -> str:
    """The text of docs/configuration.md."""
    return INTRODUCTION + settings_table()


PARSERS = """\
# Tool calls and reasoning

Generated from `sglrouter/output` by `make docs`.

Engines send token ids: what is a tool call in them, and what is reasoning, the router finds out.
How a model writes them depends on its family; `tool_call_parser` and `reasoning_parser` name the
families' formats as SGLang does, or as its Rust gateways do. With `auto`, the default, the
model's chat template tells, and the log says at start what it told. An empty value passes
everything on as text. `POST /parse/function_call` and `POST /parse/reasoning` try a parser on a
text.

What holds for all of them:

- How the text arrives does not matter: one token at a time, many at once, or the whole answer
  give the same calls.
- Nothing is lost: text before, between and after calls is content, unless it is only white space.
  Markers never show.
- Names come first, arguments as they are written, and what has been sent is never taken back.
  Arguments are strict JSON even where the model writes single quotes, `True`, trailing commas, or
  line ends in strings. Formats that write values without quotes are typed by the tool's JSON
  schema: a declared string stays a string.
- An answer that is cut off delivers the arguments so far, and its `finish_reason` stays `length`.
- A call of a function that the request does not have is passed on, since agents answer it;
  `unknown_tools = "drop"` drops it. Formats without markers know the request's own functions
  only: any other text of that form is the answer.
- Reasoning begins where the prompt says: at its end a template opens the reasoning or skips it.
  Else it begins with the answer's first word.
- With `tool_choice` `none`, and without tools, calls are not looked for.

## Tool calls

"""


def _groups(formats: Mapping[str, object]) -> list[list[str]]:
    """The names of each format."""
    groups: dict[int, list[str]] = {}
    for name, each in formats.items():
        groups.setdefault(id(each), []).append(name)
    return sorted(sorted(group) for group in groups.values())


def parsers() -> str:
    """The text of docs/parsers.md."""
    lines = ["| names | markers |", "|---|---|"]
    for names in _groups(TOOL_FORMATS):
        markers = " ".join(f"`{text.strip()}`" for text in TOOL_FORMATS[names[0]].markers)
        lines.append(f"| {', '.join(names)} | {markers.replace('|', chr(92) + '|') or 'none'} |")
    lines += ["", "## Reasoning", "", "| name | begins with | ends with | also ended by |"]
    lines += ["|---|---|---|---|"]
    for name, each in sorted(REASONING_FORMATS.items()):
        columns = [
            " ".join(f"`{text.strip()}`" for text in texts).replace("|", chr(92) + "|")
            for texts in (each.openers, each.closers, each.interrupts)
        ]
        start = columns[0] + (", or at once" if each.always else "")
        if each.prefix:
            start = f"stays in the content, after `{each.prefix}`"
        lines.append(f"| {name} | {start} | {columns[1]} | {columns[2]} |")
    return PARSERS + "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("configuration.md").write_text(configuration())
    Path(__file__).with_name("parsers.md").write_text(parsers())
