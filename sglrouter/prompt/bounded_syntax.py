"""Makes a template's syntax tree watch its own budget.

Strategy: a template can only go on for long in a loop, or in a macro or block that
calls itself, and a text can only grow step by step where it is kept from one round to
the next: in a variable or an argument. Those places, and no others, get a filter that
asks the budget; what cannot be larger than what it is made of, and what runs only once,
is left alone. Filters are the cheapest call that compiled Jinja makes, and these have
names that no template can write.

This is a fence against templates that meet more than they were made for, not against
those made to exhaust memory: a single expression may still make much of little.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, TypeVar

from jinja2 import nodes
from jinja2.runtime import Context
from jinja2.visitor import NodeTransformer

from sglrouter.prompt.budget import Budget

STEP = "(step)"
STORE = "(store)"

_N = TypeVar("_N", bound=nodes.Node)

_GROWING = (nodes.Add, nodes.Concat, nodes.Mod, nodes.Mul, nodes.Pow)
_BRANCHING = (nodes.And, nodes.Or)

# What gives back no more than it is given.
_SHRINKING_METHODS = frozenset(
    {
        "count",
        "endswith",
        "find",
        "get",
        "index",
        "items",
        "keys",
        "lower",
        "lstrip",
        "partition",
        "rfind",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "values",
    }
)
_SHRINKING_FILTERS = frozenset(
    {
        "count",
        "first",
        "float",
        "int",
        "last",
        "length",
        "lower",
        "reject",
        "rejectattr",
        "select",
        "selectattr",
        "trim",
    }
)
_SMALL_FUNCTIONS = frozenset({"dict", "namespace", "range"})


class BoundedContext(Context):
    """A template's variables, and the budget of this rendering."""

    budget: Budget

    def derived(self, locals: dict[str, Any] | None = None) -> BoundedContext:
        """The context of a scoped block, which spends the same budget."""
        context = super().derived(locals)
        assert isinstance(context, BoundedContext)
        context.budget = self.budget
        return context


def step(context: BoundedContext) -> None:
    """One more round of a loop, or one more call of a macro."""
    # Budget.check() without its call.
    if monotonic() >= context.budget.until:
        context.budget.overrun()


def store(value: Any, context: BoundedContext) -> Any:
    """Returns a value that is kept, if it is not too large."""
    kind = value.__class__
    if (kind is str or kind is list or kind is tuple) and len(value) > context.budget.characters:
        raise context.budget.too_large()
    return value


class Bounding(NodeTransformer):
    """Puts the filters where they belong."""

    def __init__(self) -> None:
        self._repeated = 0

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        """A loop: each round is a step."""
        return self._stepping(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        """A macro: each call is a step."""
        return self._stepping(node)

    def visit_Block(self, node: nodes.Block) -> nodes.Node:  # noqa: N802
        """A block: it can be written again, from within itself too."""
        return self._stepping(node)

    def _stepping(self, node: nodes.For | nodes.Macro | nodes.Block) -> nodes.Node:
        self._visit_repeated(node)
        step = nodes.ExprStmt(_filter(nodes.ContextReference(), STEP, node.lineno))
        node.body.insert(0, step.set_lineno(node.lineno))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        """A call block: a macro may run its body often, and takes steps for it."""
        return self._visit_repeated(node)

    def _visit_repeated(self, node: _N) -> _N:
        self._repeated += 1
        self.generic_visit(node)
        self._repeated -= 1
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        """A call of a macro, a caller or a recursive loop, which keeps its arguments."""
        self.generic_visit(node)
        if self._repeated and isinstance(node.node, nodes.Name):
            node.args = [_stored(argument) for argument in node.args]
            for keyword in node.kwargs:
                assert isinstance(keyword, nodes.Keyword)
                keyword.value = _stored(keyword.value)
        return node

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:  # noqa: N802
        """{% set x = ... %}."""
        self.generic_visit(node)
        if self._repeated:
            assert isinstance(node.node, nodes.Expr)
            node.node = _stored(node.node)
        return node

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:  # noqa: N802
        """{% set x %}...{% endset %}."""
        self.generic_visit(node)
        if self._repeated:
            node.filter = _filter(node.filter, STORE, node.lineno, nodes.ContextReference())
        return node

    def visit_With(self, node: nodes.With) -> nodes.Node:  # noqa: N802
        """{% with x = ... %}."""
        self.generic_visit(node)
        if self._repeated:
            node.values = [_stored(value) for value in node.values]
        return node


def _filter(node: nodes.Expr | None, name: str, lineno: int, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=lineno)


def _stored(value: nodes.Expr) -> nodes.Expr:
    """The expression with the filter round each value in it that may have grown."""
    if isinstance(value, nodes.List | nodes.Tuple):
        value.items = [_stored(item) for item in value.items]
    elif isinstance(value, nodes.Dict):
        for pair in value.items:
            pair.value = _stored(pair.value)
    elif isinstance(value, nodes.CondExpr):
        value.expr1 = _stored(value.expr1)
        if value.expr2 is not None:
            value.expr2 = _stored(value.expr2)
    elif _may_grow(value):
        return _filter(value, STORE, value.lineno, nodes.ContextReference())
    return value


def _may_grow(node: nodes.Node | None) -> bool:
    """Whether a value can be larger than all those that it is made of."""
    if isinstance(node, _GROWING):
        # A sum with a number is a number.
        return not any(
            isinstance(side, nodes.Const) and isinstance(side.value, int | float)
            for side in node.iter_child_nodes()
        )
    if isinstance(node, nodes.Filter):
        return node.name not in _SHRINKING_FILTERS or _may_grow(node.node)
    if isinstance(node, nodes.Call):
        called = node.node
        if isinstance(called, nodes.Getattr) and called.attr in _SHRINKING_METHODS:
            return _may_grow(called.node)
        return not (isinstance(called, nodes.Name) and called.name in _SMALL_FUNCTIONS)
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        return _may_grow(node.node)
    if isinstance(node, _BRANCHING):
        return _may_grow(node.left) or _may_grow(node.right)
    return False
