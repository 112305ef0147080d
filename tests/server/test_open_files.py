"""The limit of open files is raised as far as it may be, and a low one is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

# In a process of its own: the limits are the process's.
PROGRAM = """
import logging, resource, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
soft, hard, connections = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from sglrouter.server.open_files import allow_open_files
allow_open_files(connections)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "limit", "told"),
    [
        (256, 4096, 1000, 1192, False),
        (256, 512, 1000, 512, True),
        (2000, 4096, 1000, 2000, False),
        (1192, 4096, 1000, 1192, False),
    ],
)
def test_the_limit_is_what_a_worker_needs(
    soft: int, hard: int, connections: int, limit: int, told: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard), str(connections)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    *warnings, last = done.stdout.splitlines()
    assert int(last) == limit
    assert bool(warnings) == told
    assert all("raise the limit" in line and "to 1192" in line for line in warnings)
