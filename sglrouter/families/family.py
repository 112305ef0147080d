"""A family of models: all that the router knows of how they write."""

from __future__ import annotations

import msgspec

from sglrouter.families.detection import Signature
from sglrouter.families.formats.program import Format
from sglrouter.families.formats.reasoning import ReasoningFormat
from sglrouter.families.formats.structural_tags import Tag


class Family(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """How models of a family write, and by what they are known.

    A family may have calls only, or reasoning only: models of one maker often share the one
    and differ in the other.

    Attributes:
        names: What its parsers are called, by SGLang and by the Shepherd gateway; the first
            is the one that is detected.
        calls: How it writes tool calls; None if it has none.
        call_signatures: What tells that a model writes calls like this.
        tag: The grammar of its calls; None if none describes them.
        by_training: Whether it writes calls in its own format even where it must call, without
            a grammar; for families that are disturbed by any other.
        reasoning: How it writes its reasoning; None if it has none, or none apart from its
            calls.
        reasoning_names: What the parser of its reasoning is called if it is not `names`.
        reasoning_signatures: What tells that a model reasons like this.
    """

    names: tuple[str, ...]
    calls: Format | None = None
    call_signatures: tuple[Signature, ...] = ()
    tag: Tag | None = None
    by_training: bool = False
    reasoning: ReasoningFormat | None = None
    reasoning_names: tuple[str, ...] = ()
    reasoning_signatures: tuple[Signature, ...] = ()

    @property
    def reasoning_parsers(self) -> tuple[str, ...]:
        """The names of the parser that splits its reasoning off."""
        return self.reasoning_names or self.names
