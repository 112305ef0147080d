"""DSML, in which DeepSeek's models write calls since V3.2, and their other markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sglrouter.prompt.encodings.encoding import as_json

BEGIN = "<｜begin▁of▁sentence｜>"
END = "<｜end▁of▁sentence｜>"
SYSTEM = "<｜System｜>"
USER = "<｜User｜>"
ASSISTANT = "<｜Assistant｜>"
REMINDER = "<｜latest_reminder｜>"
THINK = "<think>"
END_THINK = "</think>"

# How DeepSeek asks for an answer in a format.
RESPONSE_FORMAT = (
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n"
)
ANY_OBJECT = (
    "\n\nYou are a helpful assistant designed to output JSON.\n"
    "## Response Format:\n\nReply with JSON object ONLY."
)


def format_wanted(response_format: object, any_object: str) -> str:
    """What is said of a request's response_format; nothing if it asks for no JSON.

    Args:
        response_format: As the request has it.
        any_object: The words for one without a schema.
    """
    if not isinstance(response_format, Mapping):
        return ""
    if response_format.get("type") == "json_object":
        return any_object
    wanted = response_format.get("json_schema")
    schema = wanted.get("schema") if isinstance(wanted, Mapping) else None
    return f"{RESPONSE_FORMAT}{as_json(schema)}" if schema is not None else ""


_BEFORE_CALLS = "\n\n"


class Dsml(NamedTuple):
    """One spelling of it.

    Attributes:
        block: The name of the element around all calls.
        prefix: What element names begin with.
    """

    block: str
    prefix: str = "｜DSML｜"

    def begin(self, element: str, /, **attributes: str) -> str:
        """An opening tag."""
        listed = "".join(f' {key}="{value}"' for key, value in attributes.items())
        return f"<{self.prefix}{element}{listed}>"

    def end(self, element: str) -> str:
        """A closing tag."""
        return f"</{self.prefix}{element}>"

    def example(self, name: str) -> str:
        """Two calls with words in the places of names and values.

        Args:
            name: What the function's name is called.
        """
        value = "$PARAMETER_VALUE"
        parameter = self.begin("parameter", name="$PARAMETER_NAME", string="true|false")
        return "\n".join(
            (
                self.begin(self.block),
                self.begin("invoke", name=f"${name}"),
                f"{parameter}{value}{self.end('parameter')}",
                "...",
                self.end("invoke"),
                self.begin("invoke", name=f"${name}2"),
                "...",
                self.end("invoke"),
                self.end(self.block),
            )
        )

    def said(self, content: str, calls: Sequence[Mapping[str, Any]]) -> str:
        """A message's content, and the calls behind it."""
        if not calls:
            return content
        written = "\n".join(map(self._call, calls))
        # Who reads answers as they come has passed these line ends on as content.
        content = content.removesuffix(_BEFORE_CALLS)
        return (
            f"{content}{_BEFORE_CALLS}{self.begin(self.block)}\n{written}\n{self.end(self.block)}"
        )

    def _call(self, call: Mapping[str, Any]) -> str:
        function = call.get("function", call)
        arguments = function.get("arguments")
        if not isinstance(arguments, Mapping):
            arguments = {} if arguments is None else {"arguments": arguments}
        parameters = "\n".join(self._parameter(name, value) for name, value in arguments.items())
        begin = self.begin("invoke", name=str(function.get("name", "")))
        return f"{begin}\n{parameters}\n{self.end('invoke')}"

    def _parameter(self, name: str, value: object) -> str:
        is_text = isinstance(value, str)
        begin = self.begin("parameter", name=name, string="true" if is_text else "false")
        return f"{begin}{value if is_text else as_json(value)}{self.end('parameter')}"
