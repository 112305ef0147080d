"""The OpenAPI 3.1 document: made from the routes and the types of requests and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import falcon
import msgspec

from sglrouter.http.route import Operation, Route
from sglrouter.schema.responses import ErrorBody
from sglrouter.version import __version__

Json = dict[str, Any]

_REF = "#/components/schemas/{name}"
_CONVERTER = re.compile(r"\{(\w+):\w+\}")
_WORDS = re.compile(r"\w+")
_TEMPLATED = re.compile(r"\{(\w+)\}")
_DESCRIPTION = (
    "The OpenAI API in front of SGLang engines. A stream is a sequence of server-sent events "
    "whose data is JSON, and ends with `data: [DONE]`; comments keep it alive while the engine "
    "is silent. Fields that are not listed are accepted and do nothing."
)


def document(routes: Iterable[Route]) -> Json:
    """Describes the routes."""
    routes = list(routes)
    types = list(dict.fromkeys(_types(routes)))
    shown, components = msgspec.json.schema_components(types, ref_template=_REF)
    schemas = dict(zip(types, shown, strict=True))
    paths: Json = {}
    for route in routes:
        path = _CONVERTER.sub(r"{\1}", route.path)
        paths[path] = {
            method.lower(): _operation(operation, path, method, schemas)
            for method, operation in route.operations.items()
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "sglrouter", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _types(routes: Iterable[Route]) -> Iterator[Any]:
    yield ErrorBody
    for route in routes:
        for operation in route.operations.values():
            yield from (
                kind
                for kind in (operation.request, operation.response, operation.events)
                if kind is not None
            )
            yield from (query.type for query in operation.query)


def _operation(operation: Operation, path: str, method: str, schemas: dict[Any, Json]) -> Json:
    content: Json = {}
    if operation.response is not None:
        content["application/json"] = {"schema": schemas[operation.response]}
    if operation.events is not None:
        content["text/event-stream"] = {"schema": _event(schemas[operation.events])}
    failure = {
        "description": "It failed, and this says why.",
        "content": {"application/json": {"schema": schemas[ErrorBody]}},
    }
    described: Json = {
        "operationId": "-".join([method.lower(), *_WORDS.findall(path)]),
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            "200": {"description": "It went well.", "content": content},
            "4XX": failure,
            "5XX": failure,
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _TEMPLATED.findall(path)
    ] + [
        {
            "name": query.name,
            "in": "query",
            "description": query.description,
            "schema": schemas[query.type],
        }
        for query in operation.query
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.request is not None:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": {"application/json": {"schema": schemas[operation.request]}},
        }
    return described


def _event(data: Json) -> Json:
    """The schema of each event of a stream."""
    return {
        "type": "object",
        "description": f"Events whose data is a {data['$ref'].rpartition('/')[2]}.",
        "required": ["data"],
        "properties": {
            "data": {
                "anyOf": [
                    {"const": "[DONE]"},
                    {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": data,
                    },
                ]
            }
        },
    }


class OpenApi:
    """GET /openapi.json."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._body = msgspec.json.encode(document(routes))

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Shows the document."""
        resp.content_type = falcon.MEDIA_JSON
        resp.data = self._body
