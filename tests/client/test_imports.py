"""What importing the library costs, and what it does not bring along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sglrouter
from tests.patience import PROGRAM_PATIENCE

ROOT = Path(__file__).parents[2]


def loaded_by(code: str) -> set[str]:
    """The packages that are loaded after some code, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys, json; print(json.dumps([*sys.modules]))"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PROGRAM_PATIENCE,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_the_package_alone_is_cheap() -> None:
    assert not loaded_by("import sglrouter") & {"gevent", "grpc", "msgspec", "tokenizers", "jinja2"}


def test_the_library_brings_no_server() -> None:
    loaded = loaded_by("from sglrouter import Client")
    assert {"gevent", "grpc", "tokenizers"} <= loaded
    assert not loaded & {"falcon", "gunicorn"}


def test_there_is_nothing_else() -> None:
    for name in sglrouter.__all__:
        assert getattr(sglrouter, name)
    with pytest.raises(AttributeError, match="has no attribute 'Server'"):
        sglrouter.Server  # type: ignore[attr-defined]  # noqa: B018
