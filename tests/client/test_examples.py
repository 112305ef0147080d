"""The examples of the documentation run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sglrouter.sim import SimulatedEngine
from tests.patience import PROGRAM_PATIENCE

ROOT = Path(__file__).parents[2]


def run(name: str, *arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"docs/examples/{name}", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        check=False,
        text=True,
        timeout=PROGRAM_PATIENCE,
    )


def test_the_simple_one(engine: SimulatedEngine, tmp_path: Path) -> None:
    done = run("simple.py", f"grpc://{engine.address}", cache=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("(stop, ")
    # The model's files came from the engine.
    assert list(tmp_path.glob("sglrouter/tokenizers/*/tokenizer.json"))


def test_the_simple_one_where_the_engine_fails(
    engine: SimulatedEngine, tmp_path: Path, tiny_model: Path
) -> None:
    engine.fault("fail,times=1,status=RESOURCE_EXHAUSTED,message=the queue is full")
    options = ("--tokenizer", tiny_model)
    done = run("simple.py", f"grpc://{engine.address}", *options, cache=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "429 engine_overloaded: the queue is full" in done.stderr


def test_the_streaming_one(engine: SimulatedEngine, tmp_path: Path, tiny_model: Path) -> None:
    engine.script([[301]] * 50)
    options = ("--tokenizer", tiny_model)
    done = run("streaming.py", f"grpc://{engine.address}", *options, cache=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout) > 50


def test_the_streaming_one_that_is_cancelled(
    engine: SimulatedEngine, tmp_path: Path, tiny_model: Path
) -> None:
    engine.script([[301]] * 5000)
    engine.options.token_delay = 0.01
    options = ("--tokenizer", tiny_model, "--within", "0.5")
    done = run("streaming.py", f"grpc://{engine.address}", *options, cache=tmp_path)
    assert done.returncode == 1
    assert "longer than 0.5 s" in done.stderr
    engine.wait_until(lambda: engine.active == 0)
