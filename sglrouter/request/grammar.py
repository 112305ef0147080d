"""Which grammar an answer must follow: response_format, regex, ebnf, tool_choice.

An answer has one grammar, so two that a client asks for are a conflict, and so is one
beside a call that must come. Tools that may be called go together with a response
format: the grammar is then of an answer or calls, where the calls can be described.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from sglrouter.errors import Invalid, RouterError
from sglrouter.families.family import Family
from sglrouter.request.client_tags import check_structural_tag
from sglrouter.request.json_schemas import (
    LONG,
    MAX_PATTERN,
    check_constrains,
    check_is_schema,
    check_size,
)
from sglrouter.request.schema_types import with_real_types
from sglrouter.request.tool_choice import Tools
from sglrouter.request.tool_constraints import Choice, Constraint, answer_or_call, constraint_of
from sglrouter.schema.chat import ChatRequest
from sglrouter.schema.sampling import SamplingRequest
from sglrouter.turns import Pause, no_pause

E = TypeVar("E", bound=RouterError)

MAX_EBNF = 65_536

# Schemas above this size are checked anew each time, so that what is kept is bounded.
_LONGEST_KEPT = 64 * 1024


class Grammar(msgspec.Struct, frozen=True):
    """What an answer must follow.

    Attributes:
        constraint: (kind, grammar) for the engine; None for none.
        field: The field of the request that asks for it.
    """

    constraint: Constraint | None = None
    field: str | None = None


def choose_grammar(
    request: ChatRequest, tools: Tools, family: Family | None, pause: Pause = no_pause
) -> Grammar:
    """Finds the grammar that a request asks for.

    Args:
        request: The request.
        tools: Its tools, from choose_tools().
        family: Whose calls will be read in the answer; None if nobody reads them.
        pause: Called now and then, to let others go on.

    Raises:
        Invalid: There are several, or one is malformed.
    """
    asked = response_constraint(request, pause)
    parallel = request.parallel_tool_calls is not False
    if asked is None:
        if not tools.shown:
            return Grammar()
        choice: Choice = "required" if tools.forced else "auto"
        called = constraint_of(family, tools.encoded, tools.allowed, choice, parallel, pause)
        return Grammar(called, "tools" if called else None)
    field, constraint = asked
    if tools.forced:
        raise Invalid(
            "tool_choice", "makes the answer a call, which cannot be combined with", beside=[field]
        )
    if tools.shown and constraint[0] == "json_schema":
        constraint = (
            answer_or_call(family, tools.encoded, tools.allowed, constraint[1], parallel, pause)
            or constraint
        )
    return Grammar(constraint, field)


def blamed(error: E, grammar: Grammar) -> E:
    """The same error, with the field at fault if it is an engine's refusal of the grammar."""
    if error.code == "invalid_grammar" and error.param is None:
        error.param = grammar.field
    return error


def response_constraint(
    request: SamplingRequest, pause: Pause = no_pause
) -> tuple[str, Constraint] | None:
    """The constraint on the answer's text, after the field that asks for it.

    Args:
        request: The request.
        pause: Called now and then, to let others go on.

    Raises:
        Invalid: There are several, or one is malformed.
    """
    found: list[tuple[str, Constraint]] = []
    if request.response_format is not None:
        constraint = _response_format(request.response_format, pause)
        if constraint is not None:
            found.append(("response_format", constraint))
    for field, kind, most in (
        ("regex", "regex", MAX_PATTERN),
        ("ebnf", "ebnf_grammar", MAX_EBNF),
    ):
        text = getattr(request, field)
        if text is not None:
            _check_text(text, field, most)
            found.append((field, (kind, text)))
    if len(found) > 1:
        raise Invalid(
            found[0][0], "is one grammar too many beside", beside=[field for field, _ in found[1:]]
        )
    return found[0] if found else None


def _check_text(text: str, field: str, most: int) -> None:
    if len(text) > most:
        raise Invalid(field, f"must have at most {most} characters", code="invalid_value")
    if "\0" in text:
        raise Invalid(field, "must not hold NUL characters", code="invalid_value")


def _response_format(wanted: dict[str, Any], pause: Pause) -> Constraint | None:
    kind = wanted.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return "json_schema", '{"type": "object"}'
    if kind == "json_schema":
        return "json_schema", _schema_of(wanted.get("json_schema"), pause)
    if kind == "structural_tag":
        check_structural_tag(wanted, pause)
        return "structural_tag", _encode(wanted, "response_format").decode()
    raise Invalid(
        "response_format.type", "must be text, json_object, json_schema or structural_tag"
    )


def _schema_of(holder: object, pause: Pause) -> str:
    where = "response_format.json_schema"
    if not isinstance(holder, dict):
        raise Invalid(where, "must be an object with a schema")
    if not isinstance(holder.get("strict"), bool | None):
        raise Invalid(f"{where}.strict", "must be true or false")
    where += ".schema"
    schema = holder.get("schema")
    if not isinstance(schema, dict):
        raise Invalid(where, "must be an object")
    encoded = _encode(schema, where)
    return (_checked if len(encoded) <= _LONGEST_KEPT else _checked.__wrapped__)(
        encoded, where, pause
    )


@lru_cache(maxsize=32)
def _checked(encoded: bytes, where: str, pause: Pause) -> str:
    """A schema as engines take it."""
    check_size(encoded, where)
    schema = msgspec.json.decode(encoded)
    real = with_real_types(schema)
    if len(encoded) > LONG:
        pause()
    check_is_schema(real, where)
    check_constrains(real, where, pause)
    return (encoded if real is schema else msgspec.json.encode(real)).decode()


def _encode(value: object, where: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError as exc:
        raise Invalid(where, "is nested too deeply") from exc
    except UnicodeEncodeError as exc:
        raise Invalid(where, f"holds text that is not Unicode: {exc}") from exc
