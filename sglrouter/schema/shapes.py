"""JSON Schemas of objects that stay the client's own, for those who read the API.

Messages, tools and grammars are shown to the model or the engine as they were written, so
they are not decoded into types. What is said of them here is what is asked of them
elsewhere; fields beside these are passed on, too.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_NAME: Json = {"type": "string", "minLength": 1}


def _object(required: list[str], **properties: Json) -> Json:
    return {"type": "object", "required": required, "properties": properties}


MESSAGE = _object(
    ["role", "content"],
    role={"enum": ["system", "developer", "user", "assistant", "tool"]},
    content={
        "anyOf": [
            {"type": "string"},
            {
                "type": "array",
                "items": _object(["type", "text"], type={"const": "text"}, text={"type": "string"}),
            },
        ]
    },
)

FUNCTION = _object(
    ["name"],
    name=_NAME,
    description={"type": "string"},
    parameters=_object(["type"], type={"const": "object"}),
    strict={"type": "boolean"},
)

TOOL = _object(["type", "function"], type={"const": "function"}, function=FUNCTION)

TOOL_CHOICE: Json = {
    "anyOf": [
        {"enum": ["none", "auto", "required", None]},
        _object(
            ["type", "function"],
            type={"const": "function"},
            function=_object(["name"], name=_NAME),
        ),
        _object(
            ["type", "allowed_tools"],
            type={"const": "allowed_tools"},
            allowed_tools=_object(
                ["mode", "tools"],
                mode={"enum": ["auto", "required"]},
                tools={"type": "array", "minItems": 1, "items": {"type": "object"}},
            ),
        ),
    ]
}

RESPONSE_FORMAT: Json = {
    "anyOf": [
        {"type": "null"},
        _object(["type"], type={"enum": ["text", "json_object"]}),
        _object(
            ["type", "json_schema"],
            type={"const": "json_schema"},
            json_schema=_object(
                ["schema"],
                name={"type": "string"},
                schema={"type": "object"},
                strict={"type": "boolean"},
            ),
        ),
        _object(["type", "format"], type={"const": "structural_tag"}, format={"type": "object"}),
        _object(
            ["type", "structures", "triggers"],
            type={"const": "structural_tag"},
            structures={"type": "array", "minItems": 1, "items": {"type": "object"}},
            triggers={"type": "array", "minItems": 1, "items": _NAME},
        ),
    ]
}

LOGIT_BIAS: Json = {
    "propertyNames": {"pattern": "^[0-9]{1,9}$"},
    "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
}
