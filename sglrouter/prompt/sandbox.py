"""The Jinja environment of chat templates: Hugging Face's, with bounds.

Strategy: the same sandbox, block rules, filters and globals as transformers, so that a
prompt is the same to the byte. A template comes from the model or the operator, never
from a request, but its loops run over what a request holds; so what it compiles to
asks the rendering's budget as it goes (`bounded_syntax`).
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.sandbox
import jinja2.utils
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.runtime import Context

from sglrouter.prompt.bounded_syntax import STEP, STORE, BoundedContext, Bounding, step, store

# Integers of more bits than this are of no use to a prompt.
_INTEGER_BITS = 4096


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Compiles chat templates."""

    context_class = BoundedContext
    # Repetition makes much of little in one go.
    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, jinja2.ext.loopcontrols],
        )
        self.filters["tojson"] = _tojson
        self.filters[STEP] = step
        self.filters[STORE] = store
        self.globals["namespace"] = _Namespace
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = _strftime_now

    def bounded(self, syntax: nodes.Template) -> jinja2.Template:
        """Compiles a syntax tree, which is changed, with bounds.

        Raises:
            TemplateError: It does not compile.
        """
        bounded = Bounding().visit(syntax)
        bounded.set_environment(self)
        return self.template_class.from_code(self, self.compile(bounded), self.make_globals(None))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Multiplies, or refuses to make what is too large."""
        assert isinstance(context, BoundedContext)
        if operator == "**":
            if isinstance(left, int) and isinstance(right, int):
                size, room = left.bit_length() * right, _INTEGER_BITS
            else:
                size, room = 0, 0
        elif isinstance(left, int) and isinstance(right, int):
            size, room = left.bit_length() + right.bit_length(), _INTEGER_BITS
        else:
            times, text = (left, right) if isinstance(left, int) else (right, left)
            try:
                size, room = len(text) * times, context.budget.characters
            except TypeError:  # not a sequence, or not so many times
                size, room = 0, 0
        if size > room:
            raise context.budget.too_large()
        return super().call_binop(context, operator, left, right)


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
