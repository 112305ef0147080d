"""Types that schemas use and JSON Schema does not have, as generators of schemas write them.

Tools made from database tables, Python signatures and the like say "varchar", "int32" or
"dict[str, int]". SGLang takes them for the nearest real type, so they are no reason to
refuse a request. Only constraints are rewritten: the prompt shows the client's own words.
"""

from __future__ import annotations

from typing import Any

_REAL = frozenset(("null", "boolean", "object", "array", "number", "string", "integer"))
_MEANT = {
    "string": (
        "str text varchar char enum uuid date datetime time timestamp binary blob bytea bytes "
        "varbinary"
    ),
    "boolean": "bool",
    "integer": "bigint smallint tinyint",
    "number": "double decimal real numeric",
    "array": "arr tuple set",
    "object": "map",
}
_NAMES = {name: real for real, names in _MEANT.items() for name in names.split()}
# Names that may go on with a size or with parameters: int32, list[str].
_STEMS = {
    "int": "integer",
    "uint": "integer",
    "long": "integer",
    "short": "integer",
    "unsigned": "integer",
    "num": "number",
    "float": "number",
    "list": "array",
    "dict": "object",
}
_MAY_FOLLOW_A_STEM = frozenset("0123456789[<( \t")

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_SINGLE = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def with_real_types(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with real types only, as far as they can be told; a copy where changed.

    Nests as deeply as the schema, so its depth must be bounded.
    """
    changes: dict[str, Any] = {}
    if "type" in schema:
        real = _real_types(schema["type"])
        if real != schema["type"]:
            changes["type"] = real
    for key in _MAPS:
        if isinstance(mapped := schema.get(key), dict):
            new = {name: _inner(child) for name, child in mapped.items()}
            if any(new[name] is not mapped[name] for name in new):
                changes[key] = new
    for key in _LISTS:
        if isinstance(listed := schema.get(key), list):
            items = [_inner(child) for child in listed]
            if any(a is not b for a, b in zip(items, listed, strict=True)):
                changes[key] = items
    for key in _SINGLE:
        if isinstance(child := schema.get(key), dict):
            inner = with_real_types(child)
            if inner is not child:
                changes[key] = inner
    return {**schema, **changes} if changes else schema


def _inner(child: Any) -> Any:
    return with_real_types(child) if isinstance(child, dict) else child


def _real_types(named: Any) -> Any:
    if isinstance(named, str):
        return _real_type(named)
    if isinstance(named, list) and all(isinstance(name, str) for name in named):
        return list(dict.fromkeys(_real_type(name) for name in named))
    return named


def _real_type(name: str) -> str:
    if name in _REAL:
        return name
    base = name.split("(", 1)[0].strip().lower()
    if base in _REAL:
        return base
    if base in _NAMES:
        return _NAMES[base]
    for stem, real in _STEMS.items():
        rest = base.removeprefix(stem)
        if rest != base and (not rest or rest[0] in _MAY_FOLLOW_A_STEM):
            return real
    return name
