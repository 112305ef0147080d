"""functions and function_call, as they were before tools.

Their replacements say the same, so a request that uses the old fields becomes one that
uses the new ones. Where both are there, the new ones count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from sglrouter.errors import BadRequest

if TYPE_CHECKING:
    from sglrouter.schema.chat import ChatRequest


def with_tools(request: ChatRequest) -> ChatRequest:
    """Returns the request with tools and tool_choice in place of the old fields.

    Raises:
        BadRequest: A field is malformed.
    """
    changes: dict[str, Any] = {"functions": None, "function_call": None}
    if request.tools is None and request.functions is not None:
        changes["tools"] = [_tool(function, i) for i, function in enumerate(request.functions)]
    if request.tool_choice is None and request.function_call is not None:
        changes["tool_choice"] = _choice(request.function_call)
    return msgspec.structs.replace(request, **changes)


def _tool(function: dict[str, Any], i: int) -> dict[str, Any]:
    if not isinstance(function.get("name"), str) or not function["name"]:
        where = f"functions[{i}].name"
        raise BadRequest(f"{where} must be a non-empty string", param=where)
    return {"type": "function", "function": function}


def _choice(wanted: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(wanted, str):
        if wanted in ("none", "auto"):
            return wanted
    elif isinstance(wanted.get("name"), str):
        return {"type": "function", "function": {"name": wanted["name"]}}
    raise BadRequest(
        "function_call must be none, auto or an object with a name", param="function_call"
    )
