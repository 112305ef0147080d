"""A path of the API: what serves it, and what the OpenAPI document says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Query(NamedTuple):
    """A parameter of the query string."""

    name: str
    type: Any
    description: str


class Operation(NamedTuple):
    """One method of one path.

    Attributes:
        summary: What it does, in one line.
        tag: The family that it belongs to.
        request: The type of its JSON body; None if it takes none.
        response: The type of its answer.
        events: The type of its events, if it can stream.
        query: Its query parameters.
        needs_body: Whether the body may not be left out.
    """

    summary: str
    tag: str
    request: Any = None
    response: Any = None
    events: Any = None
    query: tuple[Query, ...] = ()
    needs_body: bool = True


class Route(NamedTuple):
    """A path.

    Attributes:
        path: As Falcon writes it.
        resource: Its Falcon resource.
        operations: Its methods, "POST" or "GET", by name.
        suffix: The suffix of the resource's methods for it.
    """

    path: str
    resource: object
    operations: Mapping[str, Operation]
    suffix: str | None = None
