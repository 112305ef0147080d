"""The shape of the source: imports point one way, stubs are there, sizes are moderate."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sglrouter"

# What each part may import of the package, besides itself and what is for all.
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
FOR_ALL = {"config", "endpoint", "errors", "turns", "version", "waiting"}
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
    allowed = MAY_IMPORT[part(path)] | FOR_ALL | {part(path)}
    for name in imported(path):
        names = name.split(".")
        if names[0] == "sglrouter" and len(names) > 1:
            assert names[1] in allowed, f"{path.name} imports {name}"
        if part(path) in PURE:
            assert names[0] not in IMPURE, f"{path.name} imports {name}"
        if part(path) in BEHIND_HTTP:
            assert names[0] not in {"falcon", "gunicorn"}, f"{path.name} imports {name}"


def room(name: str) -> str | None:
    """The room of a module: its folder, or the file at the top; engines/ has three more."""
    names = name.split(".")
    if names[0] != "sglrouter" or len(names) < 2:
        return None
    if names[1] == "engines" and len(names) > 2 and (PACKAGE / "engines" / names[2]).is_dir():
        return f"engines/{names[2]}"
    return names[1]


def rooms() -> dict[str, set[str]]:
    """Each room, and those that it imports from."""
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules()}
    arrows: dict[str, set[str]] = {}
    for path in modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        own = room(name)
        if own is None or path.stem in ("__init__", "__main__"):
            continue
        others = {room(other) for other in imported(path) if other != "sglrouter"}
        arrows.setdefault(own, set()).update(
            other for other in others - {own, None} if other is not None
        )
    assert known
    # A name in a room's own package, such as sglrouter.engines.channel for .engines.
    return {
        own: {other for other in others if other in arrows or (PACKAGE / other).exists()}
        for own, others in arrows.items()
    }


def test_the_house_has_nine_floors_and_no_circles() -> None:
    arrows = rooms()
    floors: dict[str, int] = {}

    def floor(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above, f"a circle: {' -> '.join((*above, name))}"
        if name not in floors:
            below = [floor(other, (*above, name)) for other in arrows.get(name, ())]
            floors[name] = 1 + max(below, default=0)
        return floors[name]

    assert max(map(floor, arrows)) <= 9, sorted(floors.items(), key=lambda item: item[1])
    assert {"http", "serving", "request", "engines/fleet", "families"} <= floors.keys()


# Rooms in which each module has a test module of its name. A family is data: its cases are
# in tests/families/families.py and its kin.
MIRRORED = ("http", "serving", "request", "engines", "families/formats", "output", "prompt")
# Those that have none yet. The list only gets shorter.
NOT_MIRRORED = ROOT / "tests" / "not_mirrored.txt"


def test_each_module_has_its_test_module() -> None:
    without = set()
    for path in modules():
        parts = path.relative_to(PACKAGE)
        if str(parts).startswith(MIRRORED) and path.stem != "__init__":
            mirror = ROOT / "tests" / parts.parent / f"test_{path.stem}.py"
            if not mirror.exists():
                without.add(str(parts.with_suffix("")))
    assert without == set(NOT_MIRRORED.read_text().split())


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
