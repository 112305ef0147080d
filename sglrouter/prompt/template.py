"""Chat templates, rendered as Hugging Face transformers renders them.

Strategy: the same sandbox, block rules, filters and globals, compiled once at start.
A template comes from the model or the operator, never from a request; what it raises
is the client's to mend, so it becomes a 400 with the template's own words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.sandbox
import jinja2.utils
from jinja2 import nodes
from jinja2.parser import Parser

from sglrouter.errors import BadRequest, ConfigError

# Variables that are ours to set; a request may not replace them.
RESERVED = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "conversation",
        "tokenize",
        "return_dict",
    }
)


# What expressions raise over data that they did not expect.
_CONFUSED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's words for training; it just renders them."""

    tags = {"generation"}  # noqa: RUF012 (the attribute is jinja2's)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Not Jinja's own filter, which escapes for HTML.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


class _Namespace(jinja2.utils.Namespace):
    """A namespace that cannot be given the methods by which Python knows an object."""

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        attributes = dict(*args, **kwargs)
        for name in attributes:
            _refuse_private(name)
        super().__init__(attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["namespace"] = _Namespace
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja text.
        special_tokens: Variables that hold the tokenizer's special tokens.

    Attributes:
        content_format: "openai" if the template walks through content parts itself,
            else "string".
        knows_developer: Whether it compares anything with the developer role.

    Raises:
        ConfigError: The source does not compile.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, Any]) -> None:
        environment = _environment()
        try:
            self._template = environment.from_string(source)
            syntax = environment.parse(source)
        except (jinja2.TemplateError, SyntaxError, RecursionError) as exc:
            raise ConfigError(f"chat template: {exc}") from exc
        self._constants = {**environment.globals, **special_tokens}
        self.content_format = _content_format(source, syntax)
        self.knows_developer = any(
            node.value == "developer" for node in syntax.find_all(nodes.Const)
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation.

        Args:
            messages: Normalised messages.
            tools: The client's tools as it wrote them; None if there are none.
            add_generation_prompt: Whether to open the assistant's turn.
            kwargs: Further variables, such as enable_thinking.

        Raises:
            BadRequest: The template refuses the conversation.
        """
        variables = {
            **self._constants,
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **(kwargs or {}),
        }
        try:
            # render(), but for a copy of all globals by way of a ChainMap each time.
            context = self._template.new_context(variables, shared=True)
            return "".join(self._template.root_render_func(context))
        except jinja2.TemplateError as exc:
            raise BadRequest(str(exc), code="chat_template_error", param="messages") from exc
        except _CONFUSED as exc:
            raise BadRequest(
                f"The chat template cannot render these messages: {exc}",
                code="chat_template_error",
                param="messages",
            ) from exc


def _content_format(source: str, syntax: nodes.Template) -> str:
    """Whether the template looks into a message's content, as SGLang tells it."""
    if any(word in source for word in _MEDIA_WORDS):
        return "openai"
    for loop in syntax.find_all(nodes.For):
        if _is_message_content(loop.iter):
            return "openai"
    return "string"


def _is_message_content(node: nodes.Node | None) -> bool:
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if isinstance(node, nodes.Getattr):
        owner, key = node.node, node.attr
    elif isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        owner, key = node.node, node.arg.value
    else:
        return False
    return key == "content" and isinstance(owner, nodes.Name) and owner.name in _MESSAGE_NAMES


_MESSAGE_NAMES = ("message", "msg", "m")

# A template that names media takes content apart, by whatever name it calls it.
_MEDIA_WORDS = ("image", "audio", "video", "vision")
