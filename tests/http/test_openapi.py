"""The OpenAPI document says what the routes do, and is a document."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from sglrouter.config import Settings
from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel.connect import connector
from sglrouter.engines.fleet.fleet import Fleet
from sglrouter.http.openapi import document
from sglrouter.http.route import Route
from sglrouter.http.routes import routes
from sglrouter.model import load_model
from sglrouter.serving.service import Service

ROOT = Path(__file__).parents[2]

Json = dict[str, Any]


@pytest.fixture(scope="module")
def served(tiny_model: Path) -> list[Route]:
    settings = Settings(tokenizer=str(tiny_model))
    fleet = Fleet([parse_endpoint(text) for text in settings.engine], connector("grpcio"))
    return routes(Service(settings, load_model(settings, tiny_model), fleet))


@pytest.fixture(scope="module")
def described(served: list[Route]) -> Json:
    decoded: Json = msgspec.json.decode(msgspec.json.encode(document(served)))
    return decoded


def test_it_is_a_valid_document(described: Json) -> None:
    OpenAPIV31SpecValidator(described).validate()


def test_every_method_of_every_resource_is_described(served: list[Route]) -> None:
    for route in served:
        suffix = f"_{route.suffix}" if route.suffix else ""
        there = {
            name.removeprefix("on_").removesuffix(suffix).upper()
            for name in dir(route.resource)
            if name in {f"on_{verb}{suffix}" for verb in ("get", "post", "put", "delete", "patch")}
        }
        assert there == set(route.operations), route.path
    assert len({route.path for route in served}) == len(served)


def fields(described: Json) -> Iterator[tuple[str, Json]]:
    for methods in described["paths"].values():
        for operation in methods.values():
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                name = schema["$ref"].rpartition("/")[2]
                properties = described["components"]["schemas"][name]["properties"]
                yield from ((f"{name}.{field}", shape) for field, shape in properties.items())


def test_every_field_of_a_request_has_a_meaning(described: Json) -> None:
    assert [name for name, shape in fields(described) if not shape.get("description")] == []


def test_the_documentation_has_a_page_of_it() -> None:
    page = ROOT / "docs" / "reference.md"
    if not page.is_file():
        pytest.skip("there is no docs/reference.md")
    generate: Any = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    assert page.read_text(encoding="utf-8") == generate["reference"]()
