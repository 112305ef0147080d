"""What a request leaves behind: nothing that only the garbage collector would find.

A worker looks for cycles rarely (see gunicorn_conf), and every one that a request leaves is
work that stops all streams.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sglrouter.sim import SimulatedEngine
from tests.patience import LONG
from tests.server.leftovers import TIMES

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"stream": True},
        {"n": 2},
        {"n": 2, "stream": True},
        {"logprobs": True, "stream": True},
        {"top_p": 9},
        {"stop": "answer", "stream": True},
    ],
    ids=json.dumps,
)
def test_a_request_in_callbacks_leaves_no_cycle(
    engine: SimulatedEngine, tiny_model: Path, fields: dict[str, object]
) -> None:
    engine.script("A first answer.")
    counting = ("tests.server.leftovers", f"grpc://{engine.address}", str(tiny_model))
    done = subprocess.run(
        [sys.executable, "-m", *counting, json.dumps(fields)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    left = json.loads(done.stdout)
    # What comes once is not the requests'.
    assert {kind: count for kind, count in left.items() if count >= TIMES} == {}
