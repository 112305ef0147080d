"""Earlier calls of functions, in the one shape that templates print.

Strategy: arguments become an object, since templates walk through it or print it as
JSON. A model may have written anything there, or been cut off, and what it wrote has
been answered since: it is shown as it is, as the only value of an object that stands in
for the arguments. An empty object would have the model believe that it had called
without any.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sglrouter.errors import BadRequest

# The key under which arguments are shown that are no JSON object; Anthropic recommends
# the name to those who hand such arguments back.
UNREADABLE = "INVALID_JSON"

# Templates walk through arguments by recursion, and so does much else.
_DEPTH = 64
# How often an object may be wrapped in a string.
_WRAPPINGS = 3


def past_calls(calls: Any, where: str, index: int) -> list[dict[str, Any]]:
    """Reads the tool_calls of a message.

    Args:
        calls: The field as the client sent it.
        where: Its path.
        index: The number of the message; calls without an id get one by it.

    Raises:
        BadRequest: It holds something else.
    """
    if not isinstance(calls, list):
        raise BadRequest(f"{where} must be a list", param=where)
    return [
        _past_call(call, f"{where}[{i}]", f"call{index % 1000:03}{i % 100:02}")
        for i, call in enumerate(calls)
        if call is not None
    ]


def _past_call(call: Any, where: str, new_id: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    function = call.get("function")
    if function is None:
        custom = call.get("custom")
        if isinstance(custom, dict):
            function = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
        elif "name" in call:
            function = {"name": call["name"], "arguments": call.get("arguments")}
    out = {**call, "function": past_function(function, f"{where}.function")}
    call_id = out.get("id")
    if call_id is None or call_id == "":
        out["id"] = new_id
    elif not isinstance(call_id, str):
        out["id"] = str(call_id)
    return out


def past_function(function: Any, where: str) -> dict[str, Any]:
    """Reads the function of a call.

    Raises:
        BadRequest: It is no object, or its name is no text.
    """
    if not isinstance(function, dict):
        raise BadRequest(f"{where} must be an object", param=where)
    name = function.get("name")
    if name is None:
        name = ""
    if not isinstance(name, str):
        raise BadRequest(f"{where}.name must be a string", param=f"{where}.name")
    return {**function, "name": name, "arguments": _arguments(function.get("arguments"))}


def text_of_arguments(arguments: dict[str, Any]) -> str:
    """The arguments as a model writes them."""
    if len(arguments) == 1 and isinstance(text := arguments.get(UNREADABLE), str):
        return text
    return json.dumps(arguments, ensure_ascii=False)


def _arguments(arguments: Any) -> dict[str, Any]:
    if isinstance(arguments, dict):
        if _is_deep(arguments):
            return {UNREADABLE: _json_text(arguments)}
        return arguments
    if arguments is None:
        return {}
    text = arguments if isinstance(arguments, str) else _json_text(arguments)
    value: Any = text
    for _ in range(_WRAPPINGS):
        if value is None or (isinstance(value, str) and not value.strip()):
            return {}
        if not isinstance(value, str):
            break
        # Every bracket may open one more level; few texts have so many.
        deep = value.count("{") + value.count("[") > _DEPTH
        try:
            value = _decoded(value)
        except (ValueError, RecursionError):
            break
        if deep and _is_deep(value):
            break
        if isinstance(value, dict):
            return value
    return {} if value is None else {UNREADABLE: text}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # Models write line breaks, Infinity, and halves of a surrogate pair.
        value = json.loads(text, strict=False)
    whole = json.dumps(value, ensure_ascii=False)
    if whole.isascii():
        return value
    halves = whole.encode("utf-16", "surrogatepass")
    return json.loads(halves.decode("utf-16", "replace"))


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "..."


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEPTH):
        if not level:
            return False
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
    return bool(level)
