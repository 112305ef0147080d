"""Every path that the router serves, and what serves it."""

from __future__ import annotations

from typing import NamedTuple

from sglrouter.http.chat import ChatCompletions
from sglrouter.http.parse import ParseCalls, ParseReasoning
from sglrouter.http.service import Health, Liveness, Models
from sglrouter.serving.service import Service


class Route(NamedTuple):
    """A path, its Falcon resource, and the suffix of the resource's methods for it."""

    path: str
    resource: object
    suffix: str | None = None


def routes(service: Service) -> list[Route]:
    """The routes of a router."""
    models, health = Models(service), Health(service)
    calls, reasoning = ParseCalls(service), ParseReasoning(service)
    return [
        Route("/v1/chat/completions", ChatCompletions(service)),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", models, "one"),
        Route("/parse/function_call", calls),
        Route("/parse_function_call", calls, "sglang"),
        Route("/parse/reasoning", reasoning),
        Route("/separate_reasoning", reasoning, "sglang"),
        Route("/health", health),
        Route("/readiness", health),
        Route("/liveness", Liveness()),
    ]
