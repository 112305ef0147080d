"""Chat templates, rendered as Hugging Face transformers renders them.

Strategy: compiled once at start, with what a template can take found in its syntax
tree. What it raises is the client's to mend, so it becomes a 400 with the template's
own words; so does a rendering that goes on for too long or makes too much text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from jinja2 import nodes

from sglrouter.errors import BadRequest, ConfigError
from sglrouter.prompt.bounded_syntax import BoundedContext
from sglrouter.prompt.budget import Budget
from sglrouter.prompt.sandbox import Sandbox

# What expressions raise over data that they did not expect.
_CONFUSED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # RecursionError among them
    TypeError,
    ValueError,
)


class TemplateRefusal(BadRequest):
    """The template raised; another form of the same conversation may do."""

    code = "chat_template_error"
    param = "messages"


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja text.
        special_tokens: Variables that hold the tokenizer's special tokens.

    Attributes:
        content_format: "openai" if the template walks through content parts itself,
            else "string".
        knows_developer: Whether it compares anything with the developer role.
        knows_thinking: Whether it compares anything with the type of a thinking part.

    Raises:
        ConfigError: The source does not compile.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, Any]) -> None:
        environment = Sandbox()
        try:
            syntax = environment.parse(source)
            self.content_format = _content_format(source, syntax)
            self.knows_developer = any(
                node.value == "developer" for node in syntax.find_all(nodes.Const)
            )
            self.knows_thinking = self.content_format == "openai" and any(
                _compares_type(node, "thinking") for node in syntax.find_all(nodes.Compare)
            )
            self._template = environment.bounded(syntax)
        except (jinja2.TemplateError, SyntaxError, RecursionError) as exc:
            raise ConfigError(f"chat template: {exc}") from exc
        self._constants = {**environment.globals, **special_tokens}

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        budget: Budget,
        *,
        add_generation_prompt: bool = True,
        kwargs: Mapping[str, Any] | None = None,
    ) -> str:
        """Renders a conversation.

        Args:
            messages: Normalised messages.
            tools: The client's tools as it wrote them; None if there are none.
            budget: The time and room for it.
            add_generation_prompt: Whether to open the assistant's turn.
            kwargs: Further variables, such as enable_thinking.

        Raises:
            TemplateRefusal: The template refuses the conversation.
            BadRequest: The budget is used up.
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
            assert isinstance(context, BoundedContext)
            context.budget = budget
            try:
                return self._text(context)
            finally:
                # A macro knows the context that knows it.
                context.vars.clear()
        except jinja2.TemplateError as exc:
            raise TemplateRefusal(str(exc)) from exc
        except _CONFUSED as exc:
            raise TemplateRefusal(f"The chat template cannot render these messages: {exc}") from exc

    def _text(self, context: BoundedContext) -> str:
        room = context.budget.characters
        pieces = []
        for piece in self._template.root_render_func(context):
            room -= len(piece)
            if room < 0:
                raise context.budget.too_large()
            pieces.append(piece)
        return "".join(pieces)


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


def _compares_type(node: nodes.Compare, kind: str) -> bool:
    """Whether it asks if something's type is of this kind."""
    sides = [node.expr, *(operand.expr for operand in node.ops)]
    return any(isinstance(side, nodes.Const) and side.value == kind for side in sides) and any(
        (isinstance(side, nodes.Getattr) and side.attr == "type")
        or (
            isinstance(side, nodes.Getitem)
            and isinstance(side.arg, nodes.Const)
            and side.arg.value == "type"
        )
        for side in sides
    )


_MESSAGE_NAMES = ("message", "msg", "m")

# A template that names media takes content apart, by whatever name it calls it.
_MEDIA_WORDS = ("image", "audio", "video", "vision")
