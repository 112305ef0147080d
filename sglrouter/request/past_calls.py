"""The arguments of a conversation's earlier calls, before they are decoded.

They are JSON in texts, which is not counted with the body. Together they may hold as many
values as a body may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglrouter.errors import BadRequest
from sglrouter.schema.json_bounds import JsonBounds, text_shape
from sglrouter.turns import Pause, taking_turns


def check_past_calls(
    messages: Sequence[Mapping[str, Any]], bounds: JsonBounds, pause: Pause
) -> None:
    """Counts what the arguments of calls hold.

    Args:
        messages: As the client sent them.
        bounds: Those of a body.
        pause: Called now and then, to let others go on.

    Raises:
        BadRequest: They hold too much.
    """
    room = bounds.values
    for i, message in enumerate(taking_turns(messages, pause)):
        calls = message.get("tool_calls")
        if not isinstance(calls, list):
            continue
        for j, call in enumerate(taking_turns(calls, pause)):
            function = call.get("function") if isinstance(call, dict) else None
            arguments = function.get("arguments") if isinstance(function, dict) else None
            if not isinstance(arguments, str):
                continue
            room -= text_shape(arguments)[0]
            if room < 0:
                raise BadRequest(
                    f"The arguments of tool_calls hold more than {bounds.values} values in all",
                    code="invalid_value",
                    param=f"messages[{i}].tool_calls[{j}].function.arguments",
                )
