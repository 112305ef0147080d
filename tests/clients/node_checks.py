"""A process of Node that runs checks on demand, for the tests of clients in JavaScript."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

FOLDER = Path(__file__).parent / "node"
_OLDEST = 18


class NodeChecks:
    """Runs the checks of one of the scripts in tests/clients/node.

    Args:
        script: The script's file name.
        url: The router's base URL, as clients are given it.
    """

    def __init__(self, script: str, url: str) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by stop)
        self._process = subprocess.Popen(
            ["node", script, url],
            cwd=FOLDER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )

    def __call__(self, check: str, **options: Any) -> Any:
        """Runs a check; returns what it found. AssertionError if it threw."""
        answer = self._ask(check, options)
        assert "error" not in answer, answer["error"].get("stack") or answer["error"]
        return answer["result"]

    def error(self, check: str, **options: Any) -> dict[str, Any]:
        """Runs a check that must throw; returns what it threw."""
        answer = self._ask(check, options)
        assert "error" in answer, answer
        error: dict[str, Any] = answer["error"]
        return error

    def stop(self) -> None:
        """Lets the process end, which it does at the end of its input."""
        self._process.communicate(timeout=PATIENCE)
        self._said.close()

    def _ask(self, check: str, options: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"check": check, **options}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            self._said.seek(0)
            raise AssertionError(f"node has ended: {self._said.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def node_checks(script: str, url: str) -> Iterator[NodeChecks]:
    """Runs a script for a test module; skips where Node or the clients are not installed."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    if int(said.stdout.strip().removeprefix("v").partition(".")[0]) < _OLDEST:
        pytest.skip(f"node is older than {_OLDEST}: {said.stdout.strip()}")
    if not (FOLDER / "node_modules" / ".package-lock.json").is_file():
        pytest.skip("the clients for Node are not installed (npm ci --prefix tests/clients/node)")
    checks = NodeChecks(script, url)
    try:
        yield checks
    finally:
        checks.stop()
