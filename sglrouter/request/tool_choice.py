"""Which tools a request offers, and whether the model must call one.

Tools are shown to the model as the client wrote them. Which of them, tool_choice says:
all, none, one by name, or an allowed subset; it knows OpenAI's two ways to write each of
these, that of chat completions and that of the Responses API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sglrouter.errors import BadRequest
from sglrouter.request.json_schemas import LONG
from sglrouter.request.tool_constraints import check_tools, encode_tools
from sglrouter.schema.chat import ChatRequest
from sglrouter.turns import Pause, no_pause, taking_turns

Json = dict[str, Any]


class Tools(msgspec.Struct, frozen=True):
    """The tools of a request.

    Attributes:
        shown: What the prompt shows, as the client wrote it; None for none.
        forced: Whether the answer must be a call.
        allowed: The places of the shown tools among all.
        encoded: All tools, as encode_tools() has them.
    """

    shown: list[Json] | None = None
    forced: bool = False
    allowed: tuple[int, ...] = ()
    encoded: bytes = b""


def choose_tools(request: ChatRequest, pause: Pause = no_pause) -> Tools:
    """Applies tool_choice to the tools.

    Args:
        request: The request.
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: A tool is malformed, or the choice does not fit the tools.
    """
    tools = request.tools or []
    for i, tool in enumerate(taking_turns(tools, pause)):
        _check_tool(tool, f"tools[{i}]")
    encoded = b""
    if tools:
        encoded = encode_tools(tools)
        if len(encoded) > LONG:
            pause()
        check_tools(encoded, pause)
        if len(encoded) > LONG:
            pause()
    forced, allowed = _choice(request.tool_choice, tools)
    if not allowed:
        return Tools()
    return Tools([tools[i] for i in allowed], forced, tuple(allowed), encoded)


def _check_tool(tool: Json, where: str) -> None:
    function = tool.get("function")
    if tool.get("type") not in (None, "function") or not isinstance(function, dict):
        raise BadRequest(
            f'{where} must be of type function, with an object "function"', param=where
        )
    if not isinstance(function.get("name"), str) or not function["name"]:
        where = f"{where}.function.name"
        raise BadRequest(f"{where} must be a non-empty string", param=where)
    if not isinstance(function.get("strict"), bool | None):
        where = f"{where}.function.strict"
        raise BadRequest(f"{where} must be true or false", param=where)


def _choice(choice: str | Json | None, tools: Sequence[Json]) -> tuple[bool, list[int]]:
    """Whether a call is forced, and the places of the tools that there are."""
    everything = list(range(len(tools)))
    if choice == "none":
        return False, []
    if choice in (None, "auto"):
        return False, everything
    if not tools:
        raise BadRequest("tool_choice needs tools: give some, or leave it out", param="tool_choice")
    if choice == "required":
        return True, everything
    kind = choice.get("type", "function") if isinstance(choice, dict) else None
    if isinstance(choice, dict) and kind == "function":
        return True, [_place_of(choice, "tool_choice", _places(tools))]
    if isinstance(choice, dict) and kind == "allowed_tools":
        return _subset(choice, tools)
    raise BadRequest(
        "tool_choice must be none, auto, required, or an object of type function or allowed_tools",
        param="tool_choice",
    )


def _subset(choice: Json, tools: Sequence[Json]) -> tuple[bool, list[int]]:
    where, holder = "tool_choice", choice
    if "allowed_tools" in choice:
        where, holder = "tool_choice.allowed_tools", choice["allowed_tools"]
        if not isinstance(holder, dict):
            raise BadRequest(f"{where} must be an object", param=where)
    if holder.get("mode") not in ("auto", "required"):
        raise BadRequest(f"{where}.mode must be auto or required", param=f"{where}.mode")
    listed = holder.get("tools")
    if not isinstance(listed, list) or not listed:
        raise BadRequest(f"{where}.tools must name at least one tool", param=f"{where}.tools")
    places = set()
    named = _places(tools)
    for i, reference in enumerate(listed):
        at = f"{where}.tools[{i}]"
        if not isinstance(reference, dict) or reference.get("type", "function") != "function":
            raise BadRequest(f"{at} must be an object of type function", param=at)
        places.add(_place_of(reference, at, named))
    return holder["mode"] == "required", sorted(places)


def _places(tools: Sequence[Json]) -> dict[str, int]:
    """Where each name is; the first place of it."""
    places: dict[str, int] = {}
    for i, tool in enumerate(tools):
        places.setdefault(tool["function"]["name"], i)
    return places


def _place_of(reference: Json, where: str, places: Mapping[str, int]) -> int:
    """Which tool a {"function": {"name": ...}} or {"name": ...} means."""
    if "function" in reference:
        function = reference["function"]
        where = f"{where}.function"
        if not isinstance(function, dict):
            raise BadRequest(f"{where} must be an object with a name", param=where)
    else:
        function = reference
    name = function.get("name")
    where = f"{where}.name"
    if not isinstance(name, str):
        raise BadRequest(f"{where} must be the name of a function", param=where)
    if name in places:
        return places[name]
    raise BadRequest(f"{where} is {name!r}, which is not in tools", param=where)
