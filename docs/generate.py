"""Writes the parts of the documentation that come from the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sglrouter.config import Settings, settings_table
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.connect import connector
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.families.family import Family
from sglrouter.families.registry import KNOWN, REASONING_FORMATS
from sglrouter.http.openapi import document
from sglrouter.http.routes import routes
from sglrouter.model import load_model
from sglrouter.serving.service import Service
from sglrouter.sim.options import TINY_MODEL

INTRODUCTION = """\
# Configuration

Generated from `sglrouter/config.py` by `make docs`.

Each setting can be given, strongest first, as

1. a flag of `sglrouter serve` (for those that have one),
2. an environment variable: `SGLROUTER_` and the name in capitals, such as
   `SGLROUTER_PORT=8080`; lists are separated by commas,
3. the original Go router's variable, where the last column names one,
4. a line of the TOML file that `--config` or `SGLROUTER_CONFIG` names, such as `port = 8080`.

A setting that is wrong stops the start with one line that names where it was set. A name that is
no setting, such as `SGLROUTER_PROT`, is a warning in the log with the nearest one that is.
`sglrouter check` tries all of it out. Times are in seconds, sizes in bytes.

"""


def configuration() -> str:
    """The text of docs/configuration.md."""
    return INTRODUCTION + settings_table()


PARSERS = """\
# Tool calls and reasoning

Generated from `sglrouter/families` by `make docs`.

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
  line ends in strings, or forgets a comma or the last brackets. Formats that write values without
  quotes are typed by the tool's JSON schema: a declared string stays a string.
- A value between tags may quote tags, even whole calls of its own format: its end is the tag that
  is followed by what can follow it in a call. Only the closing tags of a whole call, quoted without
  its opening ones and with other text behind them, cannot be told from the end. Of two parameters
  with one name the first counts, as it has been sent when the second comes.
- A brace too many after a call does not show, nor does the code fence around one.
- Arguments in Python code may be any literal: raw, byte and format strings, joined strings, sets,
  numbers in any base. Bytes become the characters of their numbers. What is no literal is the text
  it is written with, such as `x + 1`: nothing is computed.
- An argument that is nothing of this leaves its call incomplete, and `finish_reason` is not
  `tool_calls`; what the model wrote there is content.
- An answer that is cut off delivers the arguments so far, and its `finish_reason` stays `length`.
- A call of a function that the request does not have is passed on, since agents answer it;
  `unknown_tools = "drop"` drops it. Formats without markers know the request's own functions
  only: any other text of that form is the answer.
- Reasoning begins where the prompt says: at its end a template opens the reasoning or skips it.
  Else it begins with the answer's first word. Under a JSON grammar, text after an opened prompt is
  the answer if its first 512 bytes are JSON and nothing else, and reasoning otherwise: engines
  differ in whether the grammar waits for the reasoning to end.
- A Kimi K3 that answers without thinking has its text moved to the content. What is longer than 96
  bytes has begun to go out as reasoning by then, and is in both.
- An id of Kimi K2's that names no function is told by the arguments, where one tool alone has them.
- `reasoning_tokens` counts up to the token that completes the closing marker, or all tokens where
  none comes, however the answer arrives; the engine's own count, where it is greater.
- With `tool_choice` `none`, and without tools, calls are not looked for.

## Tool calls

"""


def _forced(family: Family) -> str:
    """How a call that must come is written."""
    if family.tag is not None:
        return "in this format"
    return "in this format, without a grammar" if family.by_training else "a JSON array"


def _writers() -> list[tuple[list[str], Family]]:
    """The families that write calls, those that write them alike under all their names."""
    groups: dict[tuple[int, str], list[str]] = {}
    for name, family in KNOWN.writers.items():
        groups.setdefault((id(family.calls), _forced(family)), []).append(name)
    return [(names, KNOWN.writers[names[0]]) for names in sorted(map(sorted, groups.values()))]


def _code(texts: Iterable[str]) -> str:
    """Texts as a cell of a table has them."""
    return " ".join(f"`{text.strip()}`" for text in texts).replace("|", "\\|")


def parsers() -> str:
    """The text of docs/parsers.md."""
    lines = ["| names | markers | a call that must come |", "|---|---|---|"]
    for names, family in _writers():
        markers = _code(family.calls.markers) if family.calls else ""
        lines.append(f"| {', '.join(names)} | {markers or 'none'} | {_forced(family)} |")
    lines += ["", "## Reasoning", "", "| name | begins with | ends with | also ended by |"]
    lines += ["|---|---|---|---|"]
    for name, reasoning in sorted(REASONING_FORMATS.items()):
        start = _code(reasoning.openers) + (", or at once" if reasoning.always else "")
        if reasoning.prefix:
            start = f"stays in the content, after `{reasoning.prefix}`"
        ends, interrupts = _code(reasoning.closers), _code(reasoning.interrupts)
        lines.append(f"| {name} | {start} | {ends} | {interrupts} |")
    return PARSERS + "\n".join(lines) + "\n"


REFERENCE = """\
# API reference

Generated from the types of requests and answers by `make docs`; the router serves the same as an
OpenAPI 3.1 document at `/openapi.json`. [api.md](api.md) says what it all means.

Unless something else is said, a request is a JSON object, an answer too, and null is the same as
left out. Fields that are not listed are accepted and do nothing. Every error is an
[ErrorBody](#errorbody).

"""


def reference() -> str:
    """The text of docs/reference.md."""
    settings = Settings(tokenizer=str(TINY_MODEL))
    model = load_model(settings, TINY_MODEL)
    fleet = Fleet([parse_endpoint(text) for text in settings.engine], connector("grpcio"))
    described = document(routes(Service(settings, model, fleet)))
    families: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            family = families.setdefault(operation["tags"][0], [])
            family += _operation(method.upper(), path, operation)
    lines = [line for name, family in families.items() for line in (f"## {name}", "", *family)]
    lines += ["## Types", ""]
    for name, schema in sorted(described["components"]["schemas"].items()):
        lines += [f"### {name}", "", schema.get("description", ""), "", *_fields(schema)]
    return REFERENCE + "\n".join(lines).rstrip() + "\n"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> list[str]:
    lines = [f"### {method} {path}", "", f"{operation['summary']}.", ""]
    for parameter in operation.get("parameters", ()):
        meaning = f": {parameter['description']}" if "description" in parameter else ""
        lines.append(f"- `{parameter['name']}` in the {parameter['in']}{meaning}")
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        left_out = "" if operation["requestBody"]["required"] else ", or nothing"
        lines.append(f"- Request: {_type(schema)}{left_out}")
    for kind, content in operation["responses"]["200"]["content"].items():
        schema = content["schema"]
        answer = schema["description"] if kind == "text/event-stream" else _type(schema)
        lines.append(f"- Answer: {answer}")
    return [*lines, ""]


def _fields(schema: Mapping[str, Any]) -> list[str]:
    if "properties" not in schema:
        return [_type(schema), ""]
    lines = ["| field | type | meaning |", "|---|---|---|"]
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        mark = " (required)" if name in required else ""
        lines.append(f"| `{name}` | {_type(field)}{mark} | {field.get('description', '')} |")
    return [*lines, ""]


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in words; null is said of all types at once."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_type(kind) for kind in schema["anyOf"] if kind != {"type": "null"}]
        return " or ".join(kinds)
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema['items'])}" if schema.get("items") else "list"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"map to {_type(schema['additionalProperties'])}"
    return str(kind)


if __name__ == "__main__":
    Path(__file__).with_name("reference.md").write_text(reference())
    Path(__file__).with_name("configuration.md").write_text(configuration())
    Path(__file__).with_name("parsers.md").write_text(parsers())
