"""The shape of the source: imports point one way, stubs are there, sizes are moderate."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sglrouter"

# What each part may import of the package, besides itself, config, errors and turns.
MAY_IMPORT = {
    "_fast": set(),
    "_proto": set(),
    "schema": {"_fast"},
    "families": {"_fast"},
    "output": {"_fast"},
    "prompt": {"_fast"},
    "engines": {"_fast", "_proto"},
    "model": {"prompt", "families", "output"},
    "request": {"_fast", "schema", "prompt", "families", "output", "model", "engines"},
    "serving": {
        *("_fast", "schema", "prompt", "families", "output", "model", "engines", "request"),
    },
    "client": {"engines", "serving", "model", "prompt", "offload", "setting_sources"},
    "http": {"_fast", "schema", "families", "engines", "output", "model", "serving"},
    "server": {"_fast", "http", "setting_sources"},
    "sim": {"_proto"},
}
# Event loop, transport and web framework stay outside these.
PURE = ("_fast", "schema", "families", "output", "prompt", "request")
# How a request came is no business of theirs.
BEHIND_HTTP = ("serving", "engines", "client")
IMPURE = {"gevent", "grpc", "falcon", "gunicorn", "socket", "threading"}


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "_proto" not in path.parts]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    if part(path) not in MAY_IMPORT:
        return  # the roots: app, cli and the like
    allowed = MAY_IMPORT[part(path)] | {part(path), "config", "errors", "turns", "version"}
    for name in imported(path):
        names = name.split(".")
        if names[0] == "sglrouter" and len(names) > 1:
            assert names[1] in allowed, f"{path.name} imports {name}"
        if part(path) in PURE:
            assert names[0] not in IMPURE, f"{path.name} imports {name}"
        if part(path) in BEHIND_HTTP:
            assert names[0] not in {"falcon", "gunicorn"}, f"{path.name} imports {name}"


def test_every_extension_has_a_stub() -> None:
    sources = sorted((PACKAGE / "_fast").glob("*.pyx"))
    assert sources
    assert [source for source in sources if not source.with_suffix(".pyi").exists()] == []


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_of_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 420
    assert ast.get_docstring(ast.parse(path.read_text())), "a module opens by saying what it is"


def test_nothing_is_called_helpers() -> None:
    vague = {"utils", "util", "helpers", "helper", "misc", "manager"}
    assert [path for path in modules() if path.stem in vague] == []


def test_the_makefile_stays_small() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    targets = [line for line in lines if line and line[0].isalpha() and ":" in line.split("=")[0]]
    assert len(targets) <= 12, targets
