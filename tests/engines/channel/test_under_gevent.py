"""The channels in a process patched as workers are, where native is tested as well."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sglrouter.engines.channel.connect import http2_is_built
from tests.patience import PROGRAM_PATIENCE

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
# What must have run at the least, by what the names of the tests show.
LEAST = {
    "engines/test_short_calls.py": 22,
    "engines/channel/test_channel.py": 28,
    "engines/test_exchange.py": 24,
    "engines/channel/test_http2.py": 35,
    "engines/channel/test_http2_connection.py": 12,
    "engines/channel/test_http2_peers.py": 45,
    "engines/fleet/test_moving_call.py": 24,
    "grpcio": 37,
}


@pytest.mark.skipif(not http2_is_built(), reason="there is no libnghttp2")
def test_both_kinds_of_channel_hold_under_gevent() -> None:
    command = [
        sys.executable,
        "-m",
        "tests.engines.channel.under_gevent",
        "-vv",
        "-p",
        "no:cacheprovider",
    ]
    files = [name for name in LEAST if name.endswith(".py")]
    done = subprocess.run(
        [*command, *(f"tests/{name}" for name in files)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_PATIENCE,
    )
    assert done.returncode == 0, done.stdout
    passed = re.findall(r"^tests/([\w/]+\.py)::(.*) PASSED", done.stdout, re.MULTILINE)
    counts = Counter(name for name, _ in passed)
    counts["grpcio"] = sum("[grpcio" in test for _, test in passed)
    counts["native"] = sum("[native" in test for _, test in passed)
    assert counts["native"] == counts["grpcio"]
    assert {name: count for name, count in LEAST.items() if counts[name] < count} == {}
