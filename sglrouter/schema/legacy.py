"""functions and function_call, as they were before tools.

Their replacements say the same, so a request that uses the old fields becomes one that
uses the new ones. Where both are there, the new ones count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglrouter.errors import BadRequest

Json = dict[str, Any]


def tools_of(functions: Sequence[Json]) -> list[Json]:
    """The tools that `functions` are.

    Raises:
        BadRequest: One is malformed.
    """
    return [_tool(function, i) for i, function in enumerate(functions)]


def tool_choice_of(function_call: str | Json) -> str | Json:
    """The tool_choice that `function_call` is.

    Raises:
        BadRequest: It is malformed.
    """
    if isinstance(function_call, str):
        if function_call in ("none", "auto"):
            return function_call
    elif isinstance(function_call.get("name"), str):
        return {"type": "function", "function": {"name": function_call["name"]}}
    raise BadRequest(
        "function_call must be none, auto or an object with a name", param="function_call"
    )


def _tool(function: Json, i: int) -> Json:
    if not isinstance(function.get("name"), str) or not function["name"]:
        where = f"functions[{i}].name"
        raise BadRequest(f"{where} must be a non-empty string", param=where)
    return {"type": "function", "function": function}
