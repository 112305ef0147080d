"""The OpenAPI document against the running router: random requests, and none fails badly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.conftest import StartRouter
from tests.processes import RouterProcess

# What an answer must not be: a 5xx, a status, type or body that the document does not have,
# an error in another shape among them.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def schemathesis(router: RouterProcess, folder: Path, examples: int, *options: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{router.url}/openapi.json"),
            *("--checks", ",".join(CHECKS)),
            *("--max-examples", str(examples), "--seed", "1", "--no-color", *options),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert counted is not None, done.stdout[-8000:]
    assert int(counted[1]) == int(counted[2]) > 1000


@pytest.mark.long
@pytest.mark.timeout(300)
def test_random_requests_are_answered_by_the_document(
    start_router: StartRouter, engine: SimulatedEngine, tiny_model: Path, tmp_path: Path
) -> None:
    # Else nearly all would end at their model's name.
    router = start_router(
        engine=f"grpc://{engine.address}", tokenizer=tiny_model, unknown_models="accept"
    )
    schemathesis(router, tmp_path, 8)
    assert engine.requests, "the engine was asked, too"
